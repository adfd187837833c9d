# SPDX-License-Identifier: Apache-2.0
"""Record what a program does with device memory."""

from __future__ import annotations

import functools
import os
import sys
from _weakref import ReferenceType
from collections.abc import Callable
from types import TracebackType

from .. import errors
from .._core import abi, sizes, texts
from .._core.handle import Handle, Job
from .._core.native import core, loaded
from .._core.table import Made, make
from ._trace import Trace, TraceEvent

TYPE_CHECKING = False


class _Run(Handle):
    """One run of a recording. Dropping this object ends it."""

    _stacks = False  # also of one that a forked child fails to create, which is dropped at once

    def __init__(self, stacks: bool) -> None:
        super().__init__(core.pybind_DropRecording)
        self._stacks = stacks
        # At most one; if several threads stop the run, setdefault keeps the first trace.
        self._traces: dict[str, Trace] = {}

    def begin(self, events: int) -> None:
        """Start recording."""
        if self._stacks:
            abi.begin_stacks()
        self.open(core.pybind_StartRecording, events, self._stacks)

    def close(self) -> None:
        """Close the handle, and release the code objects of stacks."""
        ending = self._stacks and not self.closed and loaded()
        super().close()
        if ending:
            abi.end_stacks()

    def counts(self) -> tuple[int, int, bool]:
        """Return the number of events, how many of them were lost, and whether the run is active."""
        seen, lost, running = map(int, core.pybind_CountRecorded(self.number).split())
        return seen, lost, bool(running)

    @property
    def running(self) -> bool:
        """Whether the run is recording; false in a forked child."""
        if self.closed or not loaded():
            return False
        try:
            return self.counts()[2]
        except errors.InvalidArgumentError:
            return False  # another thread stopped it

    def end(self) -> None:
        """Stop recording. The recorded events remain."""
        if not self.closed and loaded():
            try:  # noqa: SIM105 - contextlib would be more steps that a signal handler can come between
                core.pybind_StopRecording(self.number)
            except errors.InvalidArgumentError:
                pass  # another thread stopped it, and has the trace

    def trace(self) -> Trace:
        """End the run and return its trace."""
        if not self._traces:
            try:
                core.pybind_StopRecording(self.number)
                with Job(core.pybind_OpenRecorded, self.number) as job:
                    summary = job.finish()
                    pools = {int(gpu): regions for gpu, regions in summary["pools"].items()}
                    self._traces.setdefault(
                        "trace", make(Trace, job.pages(), summary["events"], summary["lost"], pools, summary["names"])
                    )
            except errors.InvalidArgumentError:
                if not self._traces:  # otherwise another thread took the trace, and the core has dropped the recording
                    raise
        self.close()
        return self._traces["trace"]


class _Block(functools.partial):  # type: ignore[type-arg]
    """The ``__exit__`` that a ``with`` statement looks up before its block and calls after it.

    A signal handler can raise before the first line of a Python function, so an ``__exit__`` written in Python may not
    run at all. In that case the statement drops this object, and ``__del__`` ends the run. No traceback keeps the
    object alive, because a call of a ``partial`` has no frame.
    """

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending
    run: _Run | None = None  # what the block has started

    def __del__(self) -> None:
        if not self._ending() and self.run is not None:
            self.run.end()


class _Exit:
    """A descriptor that creates a _Block for each ``with`` statement."""

    def __get__(self, recording: Recording | None, owner: type[Recording]) -> Callable[..., None]:
        if recording is None:
            return _stop
        block = _Block(_stop, recording)
        recording._block = ReferenceType(block)
        return block


def _stop(recording: Recording, *_: object) -> None:
    if not recording._ending() and loaded():  # not loaded: a forked child, whose parent owns the recording
        recording.stop()


class Recording(metaclass=Made):
    """A recording of all logical GPUs and all threads, between ``start`` and ``stop`` or during a ``with`` block.

    ``reset``, ``simulate`` and dropping the object end the recording. Afterwards ``trace`` is the result; ``events``,
    ``lost`` and ``save`` are those of the trace. Starting the recording again discards the trace.
    """

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending

    _made_by = "use gpuconf.memory.record()"

    def __init__(self, events: int, stacks: bool) -> None:
        self._capacity = events
        self._stacks = stacks
        self._run: _Run | None = None
        self._block: ReferenceType[_Block] | None = None  # of the newest with statement

    @property
    def running(self) -> bool:
        """Whether it is recording: started, and neither stopped nor ended by ``reset`` or ``simulate``."""
        return self._run is not None and self._run.running

    def start(self) -> Recording:
        """Start recording. Raises RuntimeError while another recording is running."""
        return self._begin(_Run(self._stacks))

    def _begin(self, run: _Run) -> Recording:
        before = self._run
        while _background:
            _background.pop().stop()
        try:
            run.begin(self._capacity)
            self._run = run
            return self
        except BaseException:
            run.close()
            self._run = before
            raise

    def stop(self) -> Trace:
        """Stop recording and return the trace. Later calls, from any thread, return the same trace."""
        if self._run is None:
            raise errors.FailedPreconditionError("this recording was never started: start it with `with recording:`")
        return self._run.trace()

    @property
    def trace(self) -> Trace:
        """The trace. Raises RuntimeError while the recording is running."""
        if self.running:
            raise errors.FailedPreconditionError("this recording is running; stop it first")
        return self.stop()

    @property
    def events(self) -> tuple[TraceEvent, ...]:
        """The trace's events."""
        return self.trace.events

    @property
    def lost(self) -> int:
        """The number of older events that were dropped for lack of room (so far, while recording)."""
        if self._run is not None and self._run.running:
            return self._run.counts()[1]
        return self.trace.lost

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002 - json and pandas call it so
        """Write the trace to a file; see :meth:`Trace.save`."""
        self.trace.save(path, format)

    def __len__(self) -> int:
        if self._run is not None and self._run.running:
            seen, lost, _ = self._run.counts()
            return seen - lost
        return len(self.trace)

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Recording:
        run = _Run(self._stacks)
        self._arm(run)
        return self._begin(run)

    def _arm(self, run: _Run) -> None:
        """Let the with statement end a run, before the run starts.

        A separate function, so that no traceback holds the block.
        """
        block = self._block() if self._block is not None else None
        if block is not None:
            block.run = run

    if TYPE_CHECKING:

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None: ...
    else:
        __exit__ = _Exit()

    def __repr__(self) -> str:
        if self._run is None:
            return "<gpuconf.Recording, not started>"
        if self._run._traces:
            return f"<gpuconf.Recording: {self._run.trace()!r}>"
        return "<gpuconf.Recording, running>" if self._run.running else "<gpuconf.Recording, ended>"


_background: list[Recording] = []  # at most one


def record_in_background(events: int) -> Recording:
    """Start a recording with stacks that ends when another one starts, which then need not know of it."""
    recording = make(Recording, events, True)
    recording.start()
    _background.append(recording)
    return recording


def record(events: int = 1_000_000, stacks: bool = False) -> Recording:
    """Record allocations, failures and frees of all logical GPUs: time, thread, address, size, stream, library and tag
    of each.

    Use it as a context manager, or call ``start`` and ``stop``. The newest ``events`` of each logical GPU are kept, in
    memory outside the Python and Go heaps that grows as needed (48 bytes per event). Only one recording can run at a
    time. ``reset`` and ``simulate`` end it; ``stop`` then returns the events up to that point. Dropping the Recording
    ends it too.

    With ``stacks``, each allocation also has the Python calls that led to it: the innermost 64, in a thread that runs
    Python code. Each distinct stack is stored once, up to 131,072. PyTorch and Numba release the GIL before they
    allocate; the thread then acquires it again, as PyTorch's own memory history does. In PyTorch's mode ``"segments"``,
    and for ``gpuconf_malloc``, only threads that hold the GIL have stacks.

    Raises ValueError for an invalid number of events.

    >>> with record() as recording:
    ...     allocate(1000, "GPU:1").free()
    >>> [(e.action, e.gpu, e.nbytes) for e in recording.events if "segment" not in e.action]
    [('allocate', 1, 1000), ('free', 1, 1000)]
    """
    hint = "; save() of the recording writes a file" if isinstance(events, str) else ""
    count = sizes.whole("events", events, hint)
    if not 1 <= count <= 1 << 28:
        raise errors.InvalidArgumentError(f"a recording can keep 1 to {1 << 28} events, but got {sizes.shown(count)}")
    if not isinstance(stacks, int):
        raise errors.InvalidTypeError(f"stacks must be True or False, but got {texts.shown(stacks)}")
    return make(Recording, count, bool(stacks))
