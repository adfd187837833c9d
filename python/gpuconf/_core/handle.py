# SPDX-License-Identifier: Apache-2.0
"""Handles of core objects that close when the Python object is dropped: jobs, recordings, ledgers and claims."""

from __future__ import annotations

import sys
from _weakref import ReferenceType  # of weakref, whose import takes longer than this module's
from collections.abc import Callable

from .. import errors
from .._typing import Any
from .block import Entered
from .message import loads
from .native import core, keep, loaded


class _Ref(ReferenceType):  # type: ignore[type-arg]
    """A weak reference that outlives a handle whose close was interrupted."""

    __slots__ = ("drop", "receipt")

    drop: Callable[[int], object]
    receipt: list[int]


# A handle is closed by its __del__, which an exception from a signal handler may interrupt, even before its first line.
# So each handle has a weak reference here. Its callback is not Python code and cannot be interrupted: it adds the
# reference to the list of handles left to close.
_held: set[_Ref] = set()
_abandoned: list[_Ref] = []


class Handle:
    """An object in the core, identified by a number. :meth:`close`, or dropping the handle, closes it.

    ``drop`` is the core function that closes it. The number is written to a receipt in one step, so an exception from a
    signal handler cannot lose it.
    """

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending
    # Also set on the class: __del__ runs even if __init__ of a subclass raised, as in a forked child.
    _ref: _Ref | None = None

    def __init__(self, drop: Callable[[int], object]) -> None:
        close_abandoned()
        self._receipt: list[int] = []
        ref = _Ref(self, _abandoned.append)
        ref.drop, ref.receipt = drop, self._receipt
        _held.add(ref)
        self._ref = ref

    def open(self, function: Callable[..., int], *args: Any) -> None:
        """Get the number from a core function."""
        keep(self._receipt, function, *args)

    @property
    def number(self) -> int:
        """The number in the core. The handle must be open."""
        return self._receipt[0]

    @property
    def closed(self) -> bool:
        """True if there is nothing to close, because the handle is closed or was never opened."""
        return self._ref is None or not self._receipt

    def close(self) -> None:
        """Close the handle. Does nothing on a second call, or in a forked child."""
        ref = self._ref
        if ref is None:
            return
        _drop(ref)
        _held.discard(ref)
        self._ref = None  # last: if this is interrupted, the next call completes it

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise errors.InvalidTypeError(
            "recordings, jobs, ledgers and claims cannot be copied or pickled; the trace of a recording can"
        )

    def __del__(self) -> None:
        if not self._ending():
            self.close()


def _drop(ref: _Ref) -> None:
    if ref.receipt and loaded():
        try:  # noqa: SIM105 - contextlib would add steps at which a signal handler can interrupt
            ref.drop(ref.receipt[0])
        except (errors.InvalidArgumentError, errors.InternalError):
            pass  # already closed before a signal handler's exception, or the core has stopped


def close_abandoned() -> None:
    """Close what no object holds any more because an exception from a signal handler interrupted ``__del__``."""
    while _abandoned:
        ref = _abandoned[-1]
        _drop(ref)
        _held.discard(ref)
        if ref in _abandoned:
            _abandoned.remove(ref)


# Long-running work of the core that Ctrl-C can interrupt at any time.

# The length of one wait in Go. Python handles signals between two waits.
_STEP_MS = 20


class Job(Entered, Handle):
    """A job of the core, which runs on its own thread. Use it as a context manager: leaving the block ends the job."""

    def __init__(self, function: Callable[..., int], *args: Any) -> None:
        super().__init__(core.pybind_CloseJob)
        self.open(function, *args)

    def feed(self, *texts: str) -> None:
        """Pass a job its input, before it starts."""
        for text in texts:
            core.pybind_FeedJob(self.number, text)

    def finish(self, progress: Callable[[float], None] | None = None) -> dict[str, Any]:
        """Wait for the job and return its result. Raises what the job raises.

        ``progress`` is called all the time with how much is done, from 0 to 1.
        """
        while not core.pybind_WaitJob(self.number, _STEP_MS):
            if progress is not None:
                progress(core.pybind_JobProgress(self.number) / 1000)
        result: dict[str, Any] = loads(core.pybind_JobResult(self.number))
        return result

    def pages(self) -> list[str]:
        """Return the events that the job produced, as CSV without a header, in pages of a few thousand lines."""
        pages: list[str] = []
        while page := core.pybind_JobPage(self.number, len(pages)):
            pages.append(page)
        return pages

    def _leave(self, *_: object) -> None:
        self.close()
