# SPDX-License-Identifier: Apache-2.0
"""The tracebacks that the interpreter and IPython keep after an error, and the locals of their frames."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType, TracebackType

from .._core import native
from .._typing import Any
from ._tag import GENERATORS


def instances(kind: type) -> list[Any]:
    """Return the objects of a class and its subclasses, without running code of theirs.

    A tuple that another thread is building is among the collector's objects, and a reference to it makes ``tuple()``
    fail there with SystemError. The core's function (``pybind/_gpuconf/tracked.c``) lets no other thread run; it works
    in a forked
    child too.
    """
    core = native.extension()
    if core is None:
        return [each for each in gc.get_objects() if issubclass(type(each), kind)]
    found: list[Any] = core.instances(kind)
    return found


# The IPython shell that this process runs in.


def shell() -> Any:
    """Return IPython's shell if this process runs in one, else None. Imports nothing."""
    module = sys.modules.get("IPython.core.interactiveshell")
    cls = getattr(module, "InteractiveShell", None)
    if cls is None or not cls.initialized():
        return None
    return cls.instance()


def stored_exceptions() -> Iterator[BaseException]:
    """Yield the exceptions that the interpreter and IPython keep: the last uncaught one, and the one that is being
    handled.
    """
    for error in (getattr(sys, "last_exc", None), getattr(sys, "last_value", None), sys.exc_info()[1]):
        if isinstance(error, BaseException):
            yield error
    outcome = getattr(shell(), "last_execution_result", None)
    for name in ("error_before_exec", "error_in_exec"):
        error = getattr(outcome, name, None)
        if isinstance(error, BaseException):
            yield error


def stored_tracebacks() -> Iterator[TracebackType]:
    """Yield the tracebacks that are kept without their exception."""
    kept = [getattr(sys, "last_traceback", None)]
    kept += [getattr(getattr(shell(), printer, None), "tb", None) for printer in ("InteractiveTB", "SyntaxTB")]
    for found in kept:
        if isinstance(found, TracebackType):
            yield found


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, the causes and contexts of it, and the exceptions of a group."""
    seen: set[int] = set()
    todo: list[Any] = [error]
    while todo:
        each = todo.pop()
        if not isinstance(each, BaseException) or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        todo += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def clear_stored() -> int:
    """Clear the locals of the finished frames of all stored tracebacks, and return the number of frames."""
    found = [each.__traceback__ for error in stored_exceptions() for each in chain(error)]
    return _clear([*found, *stored_tracebacks()])


def clear(error: BaseException) -> int:
    """Clear the locals of the finished frames of one exception and its chain, and return the number of frames."""
    return _clear([each.__traceback__ for each in chain(error)])


def clear_through(filename: str) -> int:
    """Clear the locals of the finished frames of all tracebacks that pass through a file.

    Libraries keep exceptions that no program catches: Hypothesis those of its examples, plugins of pytest those of
    subtests and reruns.
    """
    tracebacks = []
    for traceback in instances(TracebackType):
        each = traceback
        while each is not None and each.tb_frame.f_code.co_filename != filename:
            each = each.tb_next
        if each is not None:
            tracebacks.append(traceback)
    return _clear(tracebacks)


def _clear(tracebacks: list[TracebackType | None]) -> int:
    frames: dict[int, FrameType] = {}
    for traceback in tracebacks:
        while traceback is not None:
            frames[id(traceback.tb_frame)] = traceback.tb_frame
            traceback = traceback.tb_next
    suspended = _suspended(frames)
    cleared = 0
    for number, frame in frames.items():
        if number in suspended:
            continue  # clearing it would close the generator, which the program may still use
        try:
            frame.clear()
        except RuntimeError:
            continue  # still running
        # Up to Python 3.12, a snapshot of the locals remains in the frame if f_locals has been read. Reading it again
        # updates the snapshot. (Module frames have the module's own dictionary there, which clear() leaves alone.)
        _ = frame.f_locals
        cleared += 1
    return cleared


def _suspended(frames: dict[int, FrameType]) -> set[int]:
    """Return which frames belong to a generator or a coroutine that has not finished."""
    if not any(frame.f_code.co_flags & GENERATORS for frame in frames.values()):
        return set()
    kept = (id(getattr(each, frame)) for kind, frame in _FRAME_OF for each in instances(kind))
    return {number for number in kept if number in frames}


_FRAME_OF = ((GeneratorType, "gi_frame"), (CoroutineType, "cr_frame"), (AsyncGeneratorType, "ag_frame"))
