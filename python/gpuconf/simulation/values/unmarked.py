# SPDX-License-Identifier: Apache-2.0
"""What ran on simulated GPUs without a value: launches and calls of CUDA's libraries outside the operations that are
computed.

The libraries that stand in for CUDA's count them by name. They are named once, when the process ends. In a strict
simulation each is an error, which PyTorch raises.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from multiprocessing import util

from ..._core import message
from ..._typing import Any

QUIET_BUT_READS, QUIET = 1, 2
_address: Any = None


class State(threading.local):
    """``inside`` is true while an operation runs: what PyTorch's kernels call themselves is not computed on its own.

    ``answers`` are what the operation reads next on the host. The others are those of the library (runtime.h).
    """

    def __init__(self) -> None:
        self.inside = False
        self.answers: list[Any] = []
        shared = (ctypes.c_int * 3)() if _address is None else (ctypes.c_int * 3).from_address(_address())
        self.mark, self.quiet, self.missed = (ctypes.c_int.from_buffer(shared, place) for place in (0, 4, 8))


state: State = State()


def use_marks_of(library: Any) -> None:
    """Let marks be those of the replacement libraries, in every thread from now on."""
    global _address
    found = library.gpuconf_runtime_mark_address
    found.restype = ctypes.c_void_p
    found.argtypes = []
    _address = found
    state.__init__()  # type: ignore[misc]  # of this thread


_lines: dict[str, str] = {}  # the first Python line of each name
_kept: list[Any] = []
_LAUNCHERS = ("/torch/", "/triton/", os.path.dirname(__file__))  # the line that called them is named


def install(library: Any, *, strict: bool) -> None:
    """Use the marks and counters of the library. It may be called once for each framework that uses the library."""
    use_marks_of(library)
    if _kept:
        return
    callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_note)
    _kept.extend((callback, library))
    library.gpuconf_runtime_on_unmarked(callback)
    library.gpuconf_runtime_strict(int(strict))
    library.gpuconf_runtime_unmarked.restype = ctypes.c_uint64
    atexit.register(_report)
    util.register_after_fork(_report, _report_in_child)


def _report_in_child(_report_of_parent: Any) -> None:
    """Name them, too, when a process that `multiprocessing` has forked ends: it runs no function of `atexit`."""
    util.Finalize(None, _report, exitpriority=0)


def _note(name: bytes) -> None:
    try:
        frame = sys._getframe(1)
    except ValueError:
        return  # a thread of C++
    while frame.f_back is not None and any(folder in frame.f_code.co_filename for folder in _LAUNCHERS):
        frame = frame.f_back
    text, place = name.decode("utf-8", "replace"), f"{frame.f_code.co_filename}:{frame.f_lineno}"
    if not _lines:  # the others are named at the end
        print(f"gpuconf: {text} has no value on simulated GPUs ({place})", file=sys.stderr, flush=True)
    _lines.setdefault(text, place)


def counted() -> dict[str, int]:
    """Return how often each function ran without a value."""
    library = _kept[1] if _kept else None
    counts: dict[str, int] = {}
    name, count = ctypes.create_string_buffer(256), ctypes.c_uint64()
    index = 0
    while (
        library is not None and library.gpuconf_runtime_unmarked_name(index, name, len(name), ctypes.byref(count)) == 0
    ):
        counts[name.value.decode("utf-8", "replace")] = count.value
        index += 1
    return counts


def count() -> int:
    """Return how much ran without a value."""
    return _kept[1].gpuconf_runtime_unmarked() if _kept else 0


def doubt() -> str:
    """Return what an error says about values that may be of kernels which compute nothing."""
    names = list(counted())
    some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"gpuconf: these compute nothing on simulated GPUs, and may be what the indices depend on: {some}"


def _report() -> None:
    found = counted()
    if not found:
        return
    lines = [
        f"{name}: {count} times, first from {_lines.get(name, 'a thread without Python')}"
        for name, count in found.items()
    ]
    text = "these have no value on simulated GPUs, and what depends on them is wrong:\n  " + "\n  ".join(lines)
    print(f"gpuconf: {text}", file=sys.stderr)
    message.log("warning", text)
