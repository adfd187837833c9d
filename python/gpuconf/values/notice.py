# SPDX-License-Identifier: Apache-2.0
"""The line that is logged when PyTorch first uses a simulated GPU."""

from __future__ import annotations

import torch

from .._core import notices

_WHAT = {
    "cpu": "the CPU computes what PyTorch does on them, so no time that is measured is a GPU's",
    "none": "only operations on small tensors are computed, other results read as zero",
}


def install(machine: str, values: str) -> None:
    """Log the line when PyTorch initializes CUDA."""
    torch.cuda._lazy_call(lambda: notices.log("warning", f"PyTorch runs on simulated GPUs ({machine}): {_WHAT[values]}"))
