# SPDX-License-Identifier: Apache-2.0
"""``torch.compile`` on simulated GPUs: what it compiles are kernels, which have no values.

Its functions run as they are.

A rehearsal needs memory, not values, and may let it compile: PyTorch, Triton and the card's compiler work without a
card.
"""

from __future__ import annotations

import warnings

import torch

from ..._core import notices
from ..._typing import Any

_told = False
_original = torch.compile


def allow() -> None:
    """Let PyTorch compile. The hooks that it would warn of are those that watch a rehearsal."""
    torch.compile = _original
    warnings.filterwarnings("ignore", r"Using `torch.compile\(module\)` when there are global hooks")


def install() -> None:
    """Let compiled functions and modules run without being compiled."""

    def compile_nothing(*args: Any, **named: Any) -> Any:
        global _told
        if not _told:
            _told = True
            torch.compiler.set_stance("force_eager")
            notices.log(
                "warning",
                "torch.compile compiles nothing on simulated GPUs: functions run as they are, and take an eager run's "
                "memory",
            )
        return _original(*args, **named)

    compile_nothing.__name__, compile_nothing.__doc__ = _original.__name__, _original.__doc__
    torch.compile = compile_nothing
