"""Record what a program does with device memory."""

from __future__ import annotations

import os
import sys
from types import TracebackType

from . import errors
from ._native import core, loaded
from ._trace import Trace, TraceEvent


class Recording:
    """A recording of all logical GPUs, in all threads, between ``start`` and ``stop``; or in a ``with`` block.

    When it has stopped, ``trace`` is what it has seen, and ``events``, ``lost`` and ``save`` are the trace's. It can be
    started again, and then forgets that.
    """

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending

    def __init__(self, events: int) -> None:
        self._capacity = events
        self._running = False
        self._trace: Trace | None = None

    @property
    def running(self) -> bool:
        """Whether it has been started and not stopped."""
        return self._running

    def start(self) -> Recording:
        """Begin. Raises RuntimeError while another recording runs."""
        core.pybind_StartRecording(self._capacity)
        self._running, self._trace = True, None
        return self

    def stop(self) -> Trace:
        """End it, and return what it has seen. A second call returns the same."""
        if self._running:
            import json

            head, _, text = core.pybind_StopRecording().partition("\n")
            self._running = False
            told = json.loads(head)
            self._trace = Trace(text, told["lost"], {int(gpu): regions for gpu, regions in told["pools"].items()})
        return self.trace

    @property
    def trace(self) -> Trace:
        """What it has seen. Raises RuntimeError before ``stop``."""
        if self._trace is None:
            state = "runs; stop it first" if self._running else "was never started"
            raise errors.FailedPreconditionError(f"this recording {state}")
        return self._trace

    @property
    def events(self) -> tuple[TraceEvent, ...]:
        """The trace's events."""
        return self.trace.events

    @property
    def lost(self) -> int:
        """How many older events had no room; while it runs, so far."""
        if self._running:
            return int(core.pybind_CountRecorded().split()[1])
        return self.trace.lost

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002 - json and pandas call it so
        """Write the trace to a file; see :meth:`Trace.save`."""
        self.trace.save(path, format)

    def __len__(self) -> int:
        if self._running:
            seen, lost = map(int, core.pybind_CountRecorded().split())
            return seen - lost
        return len(self.trace)

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Recording:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._ending() and loaded():  # else this is a forked child, and the recording is its parent's
            self.stop()

    def __repr__(self) -> str:
        if self._trace is not None:
            return f"<gpuconf.Recording: {self._trace!r}>"
        return "<gpuconf.Recording, running>" if self._running else "<gpuconf.Recording, not started>"


def record(events: int = 1_000_000) -> Recording:
    """Record allocations, failures and frees of all logical GPUs: when, in which thread, where, how much, for which stream.

    Use it as a context manager, or call ``start`` and ``stop``. The newest ``events`` of each logical GPU are kept, in memory
    outside the Python and Go heaps that is taken as they come (40 bytes each). One recording runs at a time; ``reset`` and
    ``simulate`` do not end it.

    Raises ValueError for a number of events that can't be.

    >>> with record() as recording:
    ...     allocate(1000, "GPU:1").free()
    >>> [(e.action, e.gpu, e.nbytes) for e in recording.events if "segment" not in e.action]
    [('allocate', 1, 1000), ('free', 1, 1000)]
    """
    import operator

    from . import _runtime, _sizes

    try:
        count = operator.index(events)
    except TypeError:
        raise errors.InvalidTypeError(f"events must be an int, but got {type(events).__name__}: {_runtime.shown(events)}") from None
    if not 1 <= count <= 1 << 28:
        raise errors.InvalidArgumentError(f"a recording can keep 1 to {1 << 28} events, but got {_sizes.shown(count)}")
    return Recording(count)
