# SPDX-License-Identifier: Apache-2.0
"""Nested tensors: the operator whose kernel for CUDA launches one of its own."""

from __future__ import annotations

import torch

from ..._typing import Any


def padded(_keys: Any, nested: torch.Tensor, padding: float, output_size: Any = None) -> torch.Tensor:
    """``aten::to_padded_tensor``, by operators that are computed."""
    parts = nested.unbind()
    if not parts:
        raise RuntimeError("to_padded_tensor: at least one constituent tensor should have non-zero numel")
    sizes = output_size or (
        len(parts),
        *(max(of_each) for of_each in zip(*(part.shape for part in parts), strict=True)),
    )
    result = torch.full(tuple(sizes), padding, dtype=nested.dtype, device=nested.device)
    for row, part in zip(result, parts, strict=False):
        row[tuple(slice(size) for size in part.shape)].copy_(part)
    return result
