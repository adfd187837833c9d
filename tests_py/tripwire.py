"""An exception at one chosen step inside gpuconf, as if a signal's handler raised it there.

For programs that tests run in processes of their own; they find this module with ``env=PATH``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpuconf

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

PATH = {"PYTHONPATH": str(Path(__file__).parent)}
INSIDE = str(Path(gpuconf.__file__).parent)


class Interrupt(Exception):  # noqa: N818 - it stands for KeyboardInterrupt
    """What the step raises."""


class Trip:
    """Raises at one step inside gpuconf: before a line, an instruction, or the first of a function."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.at: str | None = None  # the function in which it raised

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> Trip | None:
        if not frame.f_code.co_filename.startswith(INSIDE):
            return None
        frame.f_trace_opcodes = True
        if event != "exception":
            self.left -= 1
            if self.left == 0:
                self.at = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
                raise Interrupt
        return self


def interrupted(use: Callable[[], object], at: int) -> tuple[str | None, Interrupt | None]:
    """Call use, and interrupt it at a step.

    Returns the function of that step, None if the call has fewer steps, and the exception with its traceback, which
    keeps all frames and their objects alive; None if something has caught it.
    """
    trip, caught = Trip(at), None
    sys.settrace(trip)
    try:
        use()
    except Interrupt as error:
        caught = error
    finally:
        sys.settrace(None)
    try:
        return trip.at, caught
    finally:
        del caught  # the exception's traceback has this frame: only the caller keeps them alive
