"""Things in the core that end when the Python object that holds them is dropped: jobs and recordings."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable

from .. import errors
from .._typing import Any
from .native import keep, loaded


class _Ref(weakref.ref):  # type: ignore[type-arg]
    """What outlives a handle whose close was cut short."""

    __slots__ = ("drop", "receipt")

    drop: Callable[[int], object]
    receipt: list[int]


# A handle is closed by its __del__. An exception of a signal handler can come into that, before its first line too. So each handle
# has a weak reference here. Its callback is not Python code and can't be interrupted: it puts the reference on the list of those
# that are left to close.
_held: set[_Ref] = set()
_abandoned: list[_Ref] = []


class Handle:
    """A thing in the core, by its number. It is closed by :meth:`close`, or when this object is dropped.

    ``drop`` is the function of the core that closes it. The number goes into a receipt in one step, so no exception of a signal
    handler can lose it.
    """

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending
    _ref: _Ref | None = None  # in the class too: a subclass that refuses to be made, as in a forked child, is dropped all the same

    def __init__(self, drop: Callable[[int], object]) -> None:
        close_abandoned()
        self._receipt: list[int] = []
        ref = _Ref(self, _abandoned.append)
        ref.drop, ref.receipt = drop, self._receipt
        _held.add(ref)
        self._ref = ref

    def open(self, function: Callable[..., int], *args: Any) -> None:
        """Take the number from a function of the core."""
        keep(self._receipt, function, *args)

    @property
    def number(self) -> int:
        """The core's number. The handle must have been opened."""
        return self._receipt[0]

    @property
    def closed(self) -> bool:
        """Whether there is nothing to close: not any more, or not yet."""
        return self._ref is None or not self._receipt

    def close(self) -> None:
        """Close it. A second call does nothing, nor does one in a forked child."""
        ref = self._ref
        if ref is None:
            return
        _drop(ref)
        _held.discard(ref)
        self._ref = None  # last: what cuts this short leaves it to the next call

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise errors.InvalidTypeError("a recording or a job can't be copied or pickled; its trace can")

    def __del__(self) -> None:
        if not self._ending():
            self.close()


def _drop(ref: _Ref) -> None:
    if ref.receipt and loaded():
        try:  # noqa: SIM105 - contextlib would be more steps that a signal handler can come between
            ref.drop(ref.receipt[0])
        except (errors.InvalidArgumentError, errors.InternalError):
            pass  # it was closed, and then a signal handler's exception came; or the core has stopped


def close_abandoned() -> None:
    """Close what no object holds any more, because an exception of a signal handler has cut its end short."""
    while _abandoned:
        ref = _abandoned[-1]
        _drop(ref)
        _held.discard(ref)
        if ref in _abandoned:
            _abandoned.remove(ref)
