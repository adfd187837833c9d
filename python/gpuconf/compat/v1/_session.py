"""Sessions: they put the operations of a graph on devices and run them."""

from __future__ import annotations

import sys

from ... import _arrays, _placement_log, _runtime, errors
from ..._native import core, loaded, refuse_in_child
from . import _graph
from ._config_proto import ConfigProto, options_of
from ._graph import Graph, Operation, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any


class Session:
    """Runs what a graph describes.

    ``graph`` is by default the default graph. ``config`` says how: see :class:`ConfigProto`. Sessions, ``gpuconf.config`` and
    ``gpuconf.memory`` share one runtime. The first to need it sets the GPUs up: a session with its ``gpu_options``. A later session
    that has none, or the same, joins; one with others sets the GPUs up anew, which is refused while memory is in use.

    Raises TypeError for a ``config`` that is no ConfigProto, RuntimeError for GPU options that come too late, and what they deserve
    for options that can't be.
    """

    _number = 0

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None) -> None:
        if config is not None and not isinstance(config, ConfigProto):
            raise errors.InvalidTypeError(f'Argument `config` must be a tf.ConfigProto, but got "{type(config)}"')
        if graph is not None and not isinstance(graph, Graph):
            raise errors.InvalidTypeError(f"graph must be a tf.Graph, but got {type(graph)}")
        if target:
            raise errors.UnimplementedError(f"a session runs in this process only: gpuconf has no servers (target={target!r})")
        self._graph = _graph.get_default_graph() if graph is None else graph
        self._closed = False
        self._entered: list[Any] = []
        options = options_of(config)
        graph_number = self._graph._number
        self._number = _runtime.join(
            "Session",
            lambda env, origin: core.pybind_OpenSession(graph_number, options, env, origin),
            cpus_only=config is not None and config.device_count.get("GPU", 1) <= 0,
        )
        self._logs = self._tell()

    @property
    def graph(self) -> Graph:
        """The graph that it runs."""
        return self._graph

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Compute tensors and give them as NumPy arrays, scalars as NumPy scalars.

        ``fetches`` is a tensor, the name of one (``"MatMul:0"``), an operation (which gives None), or a list, a tuple or a dict of
        these, nested as you like; what is given back has the same structure.

        Raises RuntimeError for a closed session or an empty graph, TypeError and ValueError for what can't be fetched, ValueError
        for an operation whose device is not there, and MemoryError where a device has no room. There are no placeholders to
        feed, and no run options: NotImplementedError.
        """
        self._check_open()
        if feed_dict:
            raise errors.UnimplementedError("gpuconf has no placeholders: nothing can be fed")
        if options is not None or run_metadata is not None:
            raise errors.UnimplementedError("gpuconf has no run options and no run metadata")
        if not self._graph._operations:
            raise errors.FailedPreconditionError("The Session graph is empty. Add operations to the graph before calling run().")
        wanted: dict[int, Any] = {}  # by the core's number of the node: where its elements go
        build = self._plan(fetches, wanted)
        import json

        fetched = json.dumps([[number, _arrays.address_of(array), array.nbytes] for number, array in wanted.items()])
        try:
            core.pybind_RunSession(self._number, fetched)
        finally:
            if self._logs:
                self._tell()
        return build()

    def _plan(self, fetch: Any, wanted: dict[int, Any]) -> Callable[[], Any]:
        """Note what a fetch needs, and give the function that makes its result."""
        if isinstance(fetch, (list, tuple)):
            parts = [self._plan(each, wanted) for each in fetch]
            kind = type(fetch)
            if hasattr(fetch, "_fields"):  # a namedtuple
                return lambda: kind(*(part() for part in parts))
            return lambda: kind(part() for part in parts)
        if isinstance(fetch, dict):
            items = [(key, self._plan(each, wanted)) for key, each in fetch.items()]
            return lambda: type(fetch)((key, part()) for key, part in items)
        element = self._element(fetch)
        if isinstance(element, Operation):
            self._want(element.outputs[0], wanted)
            return lambda: None
        array = self._want(element, wanted)
        return (lambda: array) if array.ndim else (lambda: array[()])

    def _want(self, tensor: Tensor, wanted: dict[int, Any]) -> Any:
        number = tensor.op._number
        if number not in wanted:
            wanted[number] = _arrays.empty(tensor.shape, tensor._dtype)
        return wanted[number]

    def _element(self, fetch: Any) -> Tensor | Operation:
        try:
            return self._graph.as_graph_element(fetch)
        except errors.InvalidTypeError as error:
            raise errors.InvalidTypeError(
                f"Fetch argument {fetch!r} has invalid type {type(fetch)}, must be a string or Tensor. ({error})"
            ) from None
        except (errors.InvalidArgumentError, errors.NotFoundError) as error:
            raise errors.InvalidArgumentError(f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({error})") from None

    def _tell(self) -> bool:
        """Write what the placement log has to tell, and whether it had anything."""
        import json

        lines = json.loads(core.pybind_SessionLog(self._number))
        _placement_log.write(lines)
        return bool(lines)

    def _check_open(self) -> None:
        refuse_in_child()
        if self._closed:
            raise errors.FailedPreconditionError("Attempted to use a closed Session.")

    def close(self) -> None:
        """End the session. The graph stays; a second call does nothing."""
        if not self._closed:
            self._closed = True
            core.pybind_CloseSession(self._number)

    def as_default(self) -> Any:
        """Make this the default session for a ``with`` block in this thread. It is not closed at the end."""
        return _graph.default_session(self)

    def __enter__(self) -> Session:
        self._check_open()
        contexts = (self._graph.as_default(), self.as_default())
        for context in contexts:
            context.__enter__()
        self._entered.append(contexts)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for context in reversed(self._entered.pop()):
            context.__exit__(kind, error, trace)
        if loaded():  # else this is a forked child, and the session is its parent's
            self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise errors.InvalidTypeError("a Session can't be copied or pickled: create it in the process that uses it")

    def __repr__(self) -> str:
        return f"<gpuconf.compat.v1.Session of {self._graph!r}{', closed' if self._closed else ''}>"

    def __del__(self) -> None:
        if not self._number or sys.is_finalizing() or not loaded():
            return
        try:  # noqa: SIM105
            self.close()
        except errors.GpuconfError:
            pass
