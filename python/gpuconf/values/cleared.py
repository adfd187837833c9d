# SPDX-License-Identifier: Apache-2.0
"""Memory that a program requests without a value, as ``torch.empty`` does: it reads as zero, never as what a freed block held.

So a result of a kernel that nothing computes, of Triton for example, is zero. The memory is cleared in its stream, by PyTorch's own
kernel; with ``values="none"`` only where small tensors have been written.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch

from .._typing import Any
from . import moves, small
from .thread import state

NAMES = ("aten::empty.memory_format", "aten::empty_strided")
# PyTorch has no kernel that fills these.
_UNFILLED = {one for name, one in vars(torch).items() if re.fullmatch(r"u?int[1-7]|bits\w+|float4\w+", name)}


def clearing(original: Callable[..., Any], zero: Callable[..., Any]) -> Callable[..., Any]:
    """Make the kernel of an operator that allocates. ``zero`` is that of ``zero_``; both take a dispatch key set first."""

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        result = original(keys, *args, **named)
        if state.inside or result.dtype in _UNFILLED or _is_filled_by_pytorch():
            return result
        if not result.numel() or (moves.only_small and small.is_never_written(result)):
            return result
        return zero(keys, result)

    return kernel


def _is_filled_by_pytorch() -> bool:
    """Whether PyTorch fills the memory itself, with values that show a use of it."""
    return torch.are_deterministic_algorithms_enabled() and bool(torch.utils.deterministic.fill_uninitialized_memory)
