# SPDX-License-Identifier: Apache-2.0
"""``torch.compile`` on simulated GPUs: what it compiles are kernels, which have no values. Its functions run as they are."""

from __future__ import annotations

import torch

from .._core import notices
from .._typing import Any

_told = False


def install() -> None:
    """Let compiled functions and modules run without being compiled."""
    original = torch.compile

    def compile_nothing(*args: Any, **named: Any) -> Any:
        global _told
        if not _told:
            _told = True
            torch.compiler.set_stance("force_eager")
            notices.log(
                "warning",
                "torch.compile compiles nothing on simulated GPUs: functions run as they are, and take an eager run's memory",
            )
        return original(*args, **named)

    compile_nothing.__name__, compile_nothing.__doc__ = original.__name__, original.__doc__
    torch.compile = compile_nothing
