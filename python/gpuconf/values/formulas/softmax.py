# SPDX-License-Identifier: Apache-2.0
"""Softmax of float16 with results in float32, which only PyTorch's kernels for CUDA have. Autocast calls it."""

from __future__ import annotations

from torch import Tensor, dtype, ops

from ..._typing import Any

_aten = ops.aten


def softmax(x: Tensor, dim: int, to_float: bool) -> Any:
    """``aten::_softmax``."""
    return _aten._softmax.default(x.float() if to_float else x, dim, False)


def log_softmax(x: Tensor, dim: int, to_float: bool) -> Any:
    """``aten::_log_softmax``."""
    return _aten._log_softmax.default(x.float() if to_float else x, dim, False)


def softmax_backward(grad: Tensor, output: Tensor, dim: int, to: dtype) -> Any:
    """``aten::_softmax_backward_data``."""
    return _aten._softmax_backward_data.default(grad, output, dim, grad.dtype).to(to)


def log_softmax_backward(grad: Tensor, output: Tensor, dim: int, to: dtype) -> Any:
    """``aten::_log_softmax_backward_data``."""
    return _aten._log_softmax_backward_data.default(grad, output, dim, grad.dtype).to(to)
