# SPDX-License-Identifier: Apache-2.0
"""The state of each thread: whether it is inside an operation, and the mark by which the replacement libraries know
that.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

from ..._typing import Any

_address: Any = None


class State(threading.local):
    """``inside`` is true while an operation runs: what PyTorch's kernels call themselves is not computed on its own.

    ``copying`` is true while that is a copy, whose kernel copies what it has made contiguous. ``answers`` are what the
    operation reads next on the host, and ``targets`` the addresses of the storages that it writes to.
    """

    def __init__(self) -> None:
        self.inside = False
        self.copying = False
        self.answers: list[Any] = []
        self.targets: Sequence[int] = ()
        self.mark: ctypes.c_int = ctypes.c_int(0) if _address is None else ctypes.c_int.from_address(_address())


state: State = State()


def use_marks_of(library: Any) -> None:
    """Let marks be those of the replacement libraries, in every thread from now on."""
    global _address
    found = library.gpuconf_runtime_mark_address
    found.restype = ctypes.c_void_p
    found.argtypes = []
    _address = found
    state.__init__()  # type: ignore[misc]  # of this thread
