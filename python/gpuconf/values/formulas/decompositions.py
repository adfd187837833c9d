# SPDX-License-Identifier: Apache-2.0
"""Operators whose kernels for the CPU take less than those for CUDA: choices of cuSOLVER, complex NaN, singular matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from ..._typing import Any


def svd(x: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None, **outs: Tensor) -> Any:
    """``aten::_linalg_svd``. The driver is one of cuSOLVER's functions, of which the CPU has none."""
    del driver
    overload = torch.ops.aten._linalg_svd
    return (overload.U if outs else overload.default)(x, full_matrices, compute_uv, **outs)


def nansum(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """``aten::nansum``, of complex numbers, too."""
    if not x.is_complex():
        return torch.nansum(x, dim, keepdim, dtype=dtype)
    present = torch.where(x.isnan(), torch.zeros((), dtype=x.dtype, device="cpu"), x)
    return present.sum(dim or list(range(x.dim())), keepdim, dtype=dtype)


def cholesky_inverse(x: Tensor, upper: bool = False) -> Tensor:
    """``aten::cholesky_inverse``. The CPU's raises an error for a singular factor; the result of cuSOLVER is not finite."""
    try:
        return torch.ops.aten.cholesky_inverse.default(x, upper)
    except torch.linalg.LinAlgError:
        one = torch.eye(x.size(-1), dtype=x.dtype, device="cpu").expand(x.shape)
        inverse = torch.linalg.solve_triangular(x, one, upper=upper)
        return inverse @ inverse.mH if upper else inverse.mH @ inverse
