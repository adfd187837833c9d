# SPDX-License-Identifier: Apache-2.0
"""``compat.v1.train``: threads of input pipelines. There is no training here, and there are no queues."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from .. import errors
from .._typing import Any
from ._logging import get_logger
from ._names import publish
from .v1._graph import get_default_graph, get_default_session
from .v1._mode import executing_eagerly, runs_eagerly
from .v1._session import Session


class Coordinator:
    """An order to stop that threads ask for, and a wait until they have stopped.

    An exception that a thread reports is raised by :meth:`join`, unless it is one of ``clean_stop_exception_types``: by
    default OutOfRangeError, with which an input pipeline ends.

    >>> coordinator = Coordinator()
    >>> coordinator.request_stop()
    >>> coordinator.should_stop()
    True
    """

    def __init__(self, clean_stop_exception_types: Any = None) -> None:
        from ..errors import OutOfRangeError

        self._clean = tuple(clean_stop_exception_types or (OutOfRangeError,))
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._joined = False

    @property
    def joined(self) -> bool:
        """Whether :meth:`join` has returned or raised."""
        return self._joined

    def request_stop(self, ex: Any = None) -> None:
        """Ask the threads to stop. ``ex``, an exception or what ``sys.exc_info`` returns, is raised by :meth:`join`."""
        error = ex[1] if isinstance(ex, tuple) else ex
        if not self._stop.is_set():
            self._error = None if isinstance(error, self._clean) else error
            self._stop.set()
        elif error is not None and self._joined and not isinstance(error, self._clean):
            raise error

    def clear_stop(self) -> None:
        """Forget that the threads shall stop."""
        self._joined, self._error = False, None
        self._stop.clear()

    def should_stop(self) -> bool:
        """Return whether the threads shall stop."""
        return self._stop.is_set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until the threads shall stop, for ``timeout`` seconds at most. Return whether they shall."""
        return self._stop.wait(timeout)

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Return a context manager that passes an exception to :meth:`request_stop`."""
        try:
            yield
        except Exception as error:
            self.request_stop(error)

    def register_thread(self, thread: threading.Thread) -> None:
        """Let :meth:`join` wait for a thread."""
        self._threads.append(thread)

    def raise_requested_exception(self) -> None:
        """Raise the exception that stopped the threads, if there is one."""
        if self._error is not None:
            raise self._error

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait until the threads have ended. Once they shall stop, wait for ``stop_grace_period_secs`` at most.

        Raises the exception that stopped them, and RuntimeError if threads still run then, unless
        ``ignore_live_threads``.
        """
        waiting = [*self._threads, *(thread for thread in threads or () if thread not in self._threads)]
        while any(thread.is_alive() for thread in waiting) and not self._stop.wait(0.05):
            pass
        end = time.monotonic() + stop_grace_period_secs
        for thread in waiting:
            thread.join(max(end - time.monotonic(), 0))
        alive = [thread.name for thread in waiting if thread.is_alive()]
        self._joined = True
        self._threads.clear()
        self.raise_requested_exception()
        if alive and not ignore_live_threads:
            raise RuntimeError(f"Coordinator stopped with threads still running: {' '.join(alive)}")


class Saver:
    """Writes and reads checkpoints in TensorFlow. Here it can be made, and its methods raise UnimplementedError.

    Raises ValueError where the default graph has no variables, and RuntimeError where operations run eagerly, unless
    there is a ``var_list``.
    """

    def __init__(self, var_list: Any = None, **_: Any) -> None:
        if var_list is None and runs_eagerly():
            raise RuntimeError(
                "When eager execution is enabled, `var_list` must specify a list or dict of variables to save"
            )
        if var_list is None and not get_default_graph().variables:
            raise ValueError("No variables to save")
        self._variables = var_list

    def save(self, sess: Any, save_path: Any, *_: Any, **__: Any) -> str:
        """Not available: raises UnimplementedError."""
        del sess
        raise errors.UnimplementedError(f"saving {save_path!r} needs TensorFlow: gpuconf writes no checkpoints")

    def restore(self, sess: Any, save_path: Any) -> None:
        """Not available: raises UnimplementedError."""
        del sess
        raise errors.UnimplementedError(f"restoring {save_path!r} needs TensorFlow: gpuconf reads no checkpoints")


def start_queue_runners(
    sess: Any = None, coord: Any = None, daemon: bool = True, start: bool = True, collection: str = "queue_runners"
) -> list[Any]:
    """Return ``[]``: gpuconf's graphs have no queues, so there are no threads that fill them.

    Raises ValueError without a session, TypeError if ``sess`` is not one, and RuntimeError where operations run
    eagerly.
    """
    del coord, daemon, start, collection
    if executing_eagerly():
        raise RuntimeError("Queues are not compatible with eager execution.")
    sess = get_default_session() if sess is None else sess
    if sess is None:
        raise ValueError(
            "Cannot start queue runners: No default session is registered. Use `with sess.as_default()` or pass an "
            "explicit session to tf.start_queue_runners(sess=sess)"
        )
    if not isinstance(sess, Session):
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(sess)}")
    get_logger().warning(
        "`tf.train.start_queue_runners()` was called when no queue runners were defined. You can safely remove the "
        "call to this deprecated function."
    )
    return []


publish(__name__)
