# SPDX-License-Identifier: Apache-2.0
"""Sessions, and the devices that they list."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import TracebackType

from ... import errors
from ..._core import runtime
from ..._core.device_spec import DeviceSpec
from ..._core.fork import module_lock
from ..._core.message import dumps, loads
from ..._core.native import core, loaded, refuse_in_child
from ..._typing import Any
from ...tensors import arrays as _arrays
from ...tensors.tensor import write_log
from .._arrays import is_core
from .._logging import get_logger
from .._names import publish
from .._proto import ConfigProto, GPUOptions, GraphDef, RunOptions
from . import _feeds, _graph, _python_ops
from ._feeds import Fetches
from ._graph import Graph, Operation, Tensor
from ._mode import options_of


class DeviceAttributes:
    """A device of a session: its full name, type (``"GPU"``), memory limit in bytes and incarnation.

    The incarnation is a random 64-bit number that distinguishes the devices of different sessions.
    """

    def __init__(self, name: str, device_type: str, memory_limit_bytes: int, incarnation: int) -> None:
        self._about = DeviceSpec.from_string(name).to_string(), device_type, memory_limit_bytes, incarnation

    name: Any = property(lambda self: self._about[0], doc='The full name, such as "/job:localhost/.../device:GPU:0".')
    device_type: Any = property(lambda self: self._about[1], doc='The type: "CPU" or "GPU".')
    memory_limit_bytes: Any = property(
        lambda self: self._about[2],
        doc="The hard limit of a logical GPU, in bytes. For a CPU, 256 MiB as in TensorFlow, not enforced.",
    )
    incarnation: Any = property(lambda self: self._about[3], doc="A random number, constant within a session.")

    def __repr__(self) -> str:
        return f"_DeviceAttributes({self.name}, {self.device_type}, {self.memory_limit_bytes}, {self.incarnation})"


# TensorFlow's, which its error messages contain.
DeviceAttributes.__name__ = DeviceAttributes.__qualname__ = "_DeviceAttributes"


class Session:
    """Runs the operations of a graph.

    ``graph`` defaults to the default graph. For ``config`` see :class:`ConfigProto`. Sessions, ``gpuconf.config`` and
    ``gpuconf.memory`` share one runtime, and the first to need it initializes the GPUs; a session does so with its
    ``gpu_options``. A later session without GPU options, or with the same ones, uses them as they are. One with
    different options initializes the GPUs again, which fails while device memory is in use.

    Raises TypeError for an argument of the wrong type, RuntimeError for GPU options that come too late, and ValueError
    for invalid options.
    """

    _ending = staticmethod(sys.is_finalizing)
    _number = 0
    _place_pruned = False  # whether each run places only what it executes, whatever the ConfigProto says

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None) -> None:
        if graph is not None and not isinstance(graph, Graph):
            raise TypeError(f'Argument `graph` must be a tf.Graph, but got "{type(graph).__name__}"')
        if target is not None and not isinstance(target, (str, bytes, bytearray)):
            text = f'Argument `target` must be a string, but got "{type(target).__name__}"'
            if isinstance(target, ConfigProto):
                text += '. Did you do "Session(config)" instead of "Session(config=config)"?'
            raise TypeError(text)
        if config is not None and not isinstance(config, ConfigProto):
            raise TypeError(f'Argument `config` must be a tf.ConfigProto, but got "{type(config).__name__}"')
        if target:
            raise errors.UnimplementedError(
                f"target={target!r} is not supported: gpuconf runs sessions in this process only"
            )
        self._graph = _graph.get_default_graph() if graph is None else graph
        self._given = config
        self._closed = False
        self.variables: dict[object, Any] = {}  # the values of variables in this session
        self._entered: tuple[Any, Any] | None = None  # the contexts of the `with` block
        options = options_of(config, self._place_pruned)
        graph_number = self._graph._number
        self._number = runtime.join(
            "Session",
            lambda env, origin: core.pybind_OpenSession(graph_number, options, env, origin),
            cpus_only=config is not None and config.device_count.get("GPU", 1) <= 0,
        )
        self._logs = self._write_log()

    @property
    def graph(self) -> Graph:
        """The graph that the session runs."""
        return self._graph

    @property
    def _config(self) -> ConfigProto:
        """The ConfigProto that the session was made with, else the program's settings."""
        if self._given is not None:
            return self._given
        from .._context import as_message

        return as_message()

    @property
    def graph_def(self) -> GraphDef:
        """The operations of the graph as a message, without their attributes."""
        return self._graph.as_graph_def()

    def list_devices(self) -> list[DeviceAttributes]:
        """Return the name, type, memory limit in bytes and incarnation of each device of the session.

        Raises CancelledError for a closed session.
        """
        self._check_open()
        return [DeviceAttributes(*row) for row in loads(core.pybind_SessionDevices(self._number))]

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Compute tensors and return them as NumPy arrays, scalars as NumPy scalars.

        ``fetches`` is a tensor, a tensor name (``"MatMul:0"``, a str or bytes), an operation (whose result is None), or
        a list, tuple or dict of these, nested to any depth. The result has the same structure. ``feed_dict`` maps
        tensors or their names to values that replace them in this run. Fetching a fed tensor returns the fed array.

        Raises RuntimeError for a closed session or an empty graph, TypeError and ValueError for invalid fetches or
        feeds, ValueError for an operation whose device does not exist, MemoryError if a device is out of memory, and
        NotImplementedError for ``run_metadata``, which gpuconf does not support. ``options`` have no effect.

        >>> import gpuconf.compat.v1 as tf
        >>> x = tf.constant(1.0)
        >>> tf.Session().run([x, x + 1.0], feed_dict={x: 5.0})
        [array(5., dtype=float32), np.float32(6.0)]
        """
        refuse_in_child()
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        _refuse_options(options, run_metadata)
        if not self._graph._operations:
            raise RuntimeError("The Session graph is empty. Add operations to the graph before calling run().")
        fed = _feeds.arrays(self._graph, feed_dict)
        parsed = Fetches(self._graph, fetches)
        wanted = [tensor for tensor in parsed.tensors if tensor not in fed]
        if not wanted and not parsed.operations:
            return parsed.build(fed)
        return parsed.build({**fed, **self._step(wanted, parsed.operations, fed)})

    def make_callable(self, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Callable[..., Any]:
        """Return a function that runs the same step on each call.

        ``fetches`` is as for :meth:`run`. With ``feed_list``, a list or tuple of ``feed_dict`` keys, the function takes
        the values as arguments in that order. Without it, the fetches are looked up once, now; with ``accept_options``
        the function then takes ``options`` and ``run_metadata``, as :meth:`run` does.

        Raises TypeError and ValueError for invalid fetches, and TypeError if ``feed_list`` is neither a list nor a
        tuple.

        >>> import gpuconf.compat.v1 as tf
        >>> x = tf.constant(1.0)
        >>> tf.Session().make_callable(x + 1.0, feed_list=[x])(2.0)
        np.float32(3.0)
        """
        if feed_list is not None:
            return self._with_feeds(fetches, feed_list)
        self._check_open()
        parsed = Fetches(self._graph, fetches)

        def call() -> Any:
            self._check_open()
            if not parsed.tensors and not parsed.operations:
                raise errors.InvalidArgumentError("Must specify at least one target to fetch or execute.")
            return parsed.build(self._step(list(parsed.tensors), parsed.operations, {}))

        def call_with_options(options: Any = None, run_metadata: Any = None) -> Any:
            _refuse_options(options, run_metadata)
            return call()

        return call_with_options if accept_options else call

    def _with_feeds(self, fetches: Any, feed_list: Any) -> Callable[..., Any]:
        if not isinstance(feed_list, (list, tuple)):
            raise TypeError(f"Argument `feed_list` must be a list or tuple. Received: feed_list={feed_list}")

        def call(*feed_args: Any, **options: Any) -> Any:
            # As in TensorFlow, tensors without a value are not fed, and surplus values are ignored.
            return self.run(fetches, feed_dict=dict(zip(feed_list, feed_args, strict=False)), **options)

        return call

    def _step(self, wanted: Sequence[Tensor], targets: Any, fed: dict[Tensor, Any]) -> dict[Tensor, Any]:
        """Run one step: compute ``wanted`` and execute ``targets``."""
        known = _python_ops.complete(self, self._graph, wanted, targets, fed, self._core_step)
        np = _arrays.numpy()
        here = {tensor: np.asarray(known[tensor]) for tensor in wanted if tensor in known}
        left = [tensor for tensor in wanted if tensor not in here]
        # What is computed already is no target of the core, which sees a placeholder there.
        targets = [each for each in targets if not each.outputs or each not in self._graph.computed]
        there = self._core_step(left, targets, known) if left or targets else {}
        return {**{tensor: array if array.ndim else array[()] for tensor, array in here.items()}, **there}

    def _core_step(self, wanted: Sequence[Tensor], targets: Any, fed: dict[Tensor, Any]) -> dict[Tensor, Any]:
        """Run one step in the core."""
        np = _arrays.numpy()
        # Kept alive until the run ends.
        sources = {tensor: np.asarray(array, order="C") for tensor, array in fed.items() if is_core(tensor._dtype)}
        step = {"targets": [each._number for each in targets], "feeds": _placed(sources)}
        try:
            shapes: Any = [tensor._shape for tensor in wanted]
            if any(shape is None or None in shape for shape in shapes):
                step["fetches"] = [[tensor.op._number, 0, 0] for tensor in wanted]
                shapes = loads(core.pybind_SessionShapes(self._number, dumps(step)))
            results = {
                tensor: _arrays.empty(shape, tensor._dtype)
                for tensor, shape in zip(wanted, map(tuple, shapes), strict=True)
            }
            step["fetches"] = _placed(results)
            core.pybind_RunSession(self._number, dumps(step))
        except errors.OpError as error:
            operation = self._named_in(error.message)
            if operation is not None:
                error._op, error._node_def = operation, operation.node_def
            raise
        finally:
            if self._logs:
                self._write_log()
        return {tensor: array if array.ndim else array[()] for tensor, array in results.items()}

    def _named_in(self, message: str) -> Operation | None:
        """Return the operation that an error of the core names, or None."""
        _, found, rest = message.partition("[[Node: ")
        return self._graph._named.get(rest.partition(" ")[0]) if found else None

    def _write_log(self) -> bool:
        """Write new lines of the placement log. Returns whether there were any."""
        lines = loads(core.pybind_SessionLog(self._number))
        write_log(lines)
        return bool(lines)

    def _check_open(self) -> None:
        refuse_in_child()
        if self._closed:
            raise errors.CancelledError("Session has been closed.")

    def close(self) -> None:
        """Close the session. The graph remains. Further calls do nothing."""
        if not self._ending() and not self._closed:
            self._closed = True
            core.pybind_CloseSession(self._number)

    def as_default(self) -> Any:
        """Make this the default session of this thread for a ``with`` block.

        Leaving the block does not close the session.

        Raises AssertionError if the block is exited before one that was entered later.
        """
        return _graph.default_session(self)

    def __enter__(self) -> Session:
        if self._entered is not None:
            raise RuntimeError(
                "Session context managers are not re-entrant. Use `Session.as_default()` if you want to enter a "
                "session multiple times."
            )
        graph, default = self._entered = self._graph.as_default(), self.as_default()
        graph.__enter__()
        default.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ending():
            return
        if self._entered is None:
            raise RuntimeError("__exit__ without __enter__: this Session is not in a `with` block")
        graph, default = self._entered
        default.__exit__(kind, error, trace)
        graph.__exit__(kind, error, trace)
        self._entered = None
        if loaded():  # otherwise this is a forked child, and the session belongs to the parent
            self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a Session cannot be copied or pickled: create it in the process that uses it")

    def __repr__(self) -> str:
        return f"<gpuconf.compat.v1.Session of {self._graph!r}{', closed' if self._closed else ''}>"

    def __del__(self) -> None:
        if self._ending() or not self._number or not loaded():
            return
        try:  # noqa: SIM105
            self.close()
        except errors.GpuconfError:
            pass


class InteractiveSession(Session):
    """A session that is the default session from its creation until :meth:`close`, for interpreters and notebooks.

    Without ``config``, memory growth is on if this is what initializes the GPUs. Each run places only the nodes that it
    executes. With ``graph``, that is the default graph too. Sessions are closed in reverse order. A second one that is
    open at the same time logs TensorFlow's warning, at level ERROR of :func:`get_logger`. Raises the errors of
    :class:`Session`.

    >>> import gpuconf.compat.v1 as tf
    >>> session = tf.InteractiveSession()
    >>> tf.constant(2.0).eval()
    np.float32(2.0)
    >>> session.close()
    """

    _place_pruned = True
    _defaults = tuple[Any, ...]()  # the contexts in which it is the default

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None) -> None:
        if not config:
            config = None if runtime.initialized() else ConfigProto(gpu_options=GPUOptions(allow_growth=True))
        super().__init__(target, graph, config)
        _count_interactive(1)
        self._defaults = (self.as_default(), *([] if graph is None else [graph.as_default()]))
        for each in self._defaults:
            each.__enter__()

    def close(self) -> None:
        """Close the session, which is then no longer the default session. Closing it again has no effect.

        Raises AssertionError, and changes nothing, if this thread has entered another session or graph since.
        """
        for each in reversed(self._defaults):
            each.check()
        super().close()
        defaults, self._defaults = self._defaults, ()
        for each in reversed(defaults):
            each.__exit__(None, None, None)
        if defaults:
            _count_interactive(-1)

    def __del__(self) -> None:
        if self._ending():
            return
        if self._defaults:  # the thread that it was the default session of has ended
            self._defaults = ()
            _count_interactive(-1)
        super().__del__()


_interactive = 0
_interactive_lock = module_lock(globals(), "_interactive_lock")


def _count_interactive(change: int) -> None:
    """Count the open interactive sessions, and warn about a second one."""
    global _interactive
    with _interactive_lock:
        if change > 0 and _interactive > 0:
            get_logger().error(
                "An interactive session is already active. This can cause out-of-memory errors or some other "
                "unexpected errors (due to the unpredictable timing of garbage collection) in some cases. You must "
                "explicitly call `InteractiveSession.close()` to release resources held by the other session(s). "
                "Please use `tf.Session()` if you intend to productionize."
            )
        _interactive += change


def _refuse_options(options: Any, run_metadata: Any) -> None:
    if options is not None and not isinstance(options, RunOptions):
        raise TypeError(f"options must be a tf.RunOptions, but got {type(options)}")
    if run_metadata is not None:
        raise errors.UnimplementedError("run_metadata is not supported: gpuconf records no steps")


def _placed(arrays: dict[Tensor, Any]) -> list[list[int]]:
    """Return the node number, data address, size in bytes and shape of each array, for the core."""
    return [
        [tensor.op._number, _arrays.address_of(array), array.nbytes, *array.shape] for tensor, array in arrays.items()
    ]


publish(__name__)
