# SPDX-License-Identifier: Apache-2.0
"""The line that is logged when PyTorch first uses a simulated GPU, and warnings that PyTorch gives on a card."""

from __future__ import annotations

import os
import sys
import warnings

import torch

from ..._core import message
from ..._typing import Any

_WHAT = {
    "cpu": "the CPU computes what PyTorch does on them, so no time that is measured is a GPU's",
    "none": "only operations on small tensors are computed, other results read as zero",
}


_HERE = os.path.dirname(__file__)


def warn(text: str) -> None:
    """Warn of the program's line that called an operator."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)


def install(machine: str, values: str) -> None:
    """Log the line when PyTorch initializes CUDA."""
    torch.cuda._lazy_call(
        lambda: message.log("warning", f"PyTorch runs on simulated GPUs ({machine}): {_WHAT[values]}")
    )


# ``torch.cuda.set_sync_debug_mode``, which notices calls that wait for a card.
#
# PyTorch's own functions notice waits in copies and streams. What the CPU computes instead of a kernel that waits is
# noticed here.

_TEXT = "called a synchronizing CUDA operation"
_WARN, _RAISE = 1, 2


def note() -> None:
    """Warn or raise, if the program wishes, as an operation does that waits on a card."""
    mode = torch._C._cuda_get_sync_debug_mode()
    if mode == _WARN:
        warn(_TEXT)
    elif mode == _RAISE:
        raise RuntimeError(_TEXT)


def is_noticed(error: BaseException) -> bool:
    """Whether an error is that of the debug mode."""
    return _TEXT in str(error)


def synchronize(stream: Any) -> None:
    """Wait for a stream where a card does not: without a notice."""
    mode = torch._C._cuda_get_sync_debug_mode()
    if not mode:
        stream.synchronize()
        return
    torch._C._cuda_set_sync_debug_mode(0)
    try:
        stream.synchronize()
    finally:
        torch._C._cuda_set_sync_debug_mode(mode)


# ``torch.compile`` on simulated GPUs: what it compiles are kernels, which have no values.
#
# Its functions run as they are.
#
# A rehearsal needs memory, not values, and may let it compile: PyTorch, Triton and the card's compiler work without a
# card.

_told = False
_original = torch.compile


def allow() -> None:
    """Let PyTorch compile. The hooks that it would warn of are those that watch a rehearsal."""
    torch.compile = _original
    warnings.filterwarnings("ignore", r"Using `torch.compile\(module\)` when there are global hooks")


def install_compiled() -> None:
    """Let compiled functions and modules run without being compiled."""

    def compile_nothing(*args: Any, **named: Any) -> Any:
        global _told
        if not _told:
            _told = True
            torch.compiler.set_stance("force_eager")
            message.log(
                "warning",
                "torch.compile compiles nothing on simulated GPUs: functions run as they are, and take an eager run's "
                "memory",
            )
        return _original(*args, **named)

    compile_nothing.__name__, compile_nothing.__doc__ = _original.__name__, _original.__doc__
    torch.compile = compile_nothing
