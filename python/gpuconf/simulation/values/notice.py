# SPDX-License-Identifier: Apache-2.0
"""The line that is logged when PyTorch first uses a simulated GPU, and warnings that PyTorch gives on a card."""

from __future__ import annotations

import os
import sys
import warnings

import torch

from ..._core import notices

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
        lambda: notices.log("warning", f"PyTorch runs on simulated GPUs ({machine}): {_WHAT[values]}")
    )
