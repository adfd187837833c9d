# SPDX-License-Identifier: Apache-2.0
"""Operators whose kernels for the CPU take less than those for CUDA.

Choices of cuSOLVER, complex NaN, singular matrices, and softmax of float16 with results in float32, which autocast
calls.
"""

from __future__ import annotations

import torch
from torch import Tensor, ops

from ...._typing import Any

_aten = ops.aten


def svd(
    x: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None, **outs: Tensor
) -> Any:
    """``aten::_linalg_svd``. The driver is one of cuSOLVER's functions, of which the CPU has none."""
    del driver
    overload = _aten._linalg_svd
    return (overload.U if outs else overload.default)(x, full_matrices, compute_uv, **outs)


def nansum(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """``aten::nansum``, of complex numbers, too."""
    if not x.is_complex():
        return torch.nansum(x, dim, keepdim, dtype=dtype)
    present = torch.where(x.isnan(), torch.zeros((), dtype=x.dtype, device="cpu"), x)
    return present.sum(dim or list(range(x.dim())), keepdim, dtype=dtype)


def cholesky_inverse(x: Tensor, upper: bool = False) -> Tensor:
    """``aten::cholesky_inverse``.

    The CPU's raises an error for a singular factor; the result of cuSOLVER is not finite.
    """
    try:
        return _aten.cholesky_inverse.default(x, upper)
    except torch.linalg.LinAlgError:
        one = torch.eye(x.size(-1), dtype=x.dtype, device="cpu").expand(x.shape)
        inverse = torch.linalg.solve_triangular(x, one, upper=upper)
        return inverse @ inverse.mH if upper else inverse.mH @ inverse


def softmax(x: Tensor, dim: int, to_float: bool) -> Any:
    """``aten::_softmax``."""
    return _aten._softmax.default(x.float() if to_float else x, dim, False)


def log_softmax(x: Tensor, dim: int, to_float: bool) -> Any:
    """``aten::_log_softmax``."""
    return _aten._log_softmax.default(x.float() if to_float else x, dim, False)


def softmax_backward(grad: Tensor, output: Tensor, dim: int, to: torch.dtype) -> Any:
    """``aten::_softmax_backward_data``."""
    return _aten._softmax_backward_data.default(grad, output, dim, grad.dtype).to(to)


def log_softmax_backward(grad: Tensor, output: Tensor, dim: int, to: torch.dtype) -> Any:
    """``aten::_log_softmax_backward_data``."""
    return _aten._log_softmax_backward_data.default(grad, output, dim, grad.dtype).to(to)
