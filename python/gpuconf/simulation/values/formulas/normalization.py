# SPDX-License-Identifier: Apache-2.0
"""Batch normalization by cuDNN and across processes, and backward passes of other normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...._typing import Any
from .table import formula

_aten = torch.ops.aten


@formula("cudnn_batch_norm")
def cudnn_batch_norm(*args: Any) -> tuple[Any, ...]:
    """``aten::cudnn_batch_norm``. Nothing is kept in the reserve."""
    return (*_aten.native_batch_norm.default(*args), None)


@formula("cudnn_batch_norm_backward")
def cudnn_batch_norm_backward(x: Tensor, grad: Tensor, *args: Any) -> Any:
    """``aten::cudnn_batch_norm_backward``, which PyTorch only calls of a training step."""
    *statistics, epsilon, _reserve = args
    return batch_norm_backward(grad.to(x.dtype), x, *statistics, True, epsilon, [True, True, True])


def _as_the_cpu_keeps(x: Tensor, weight: Tensor | None, *statistics: Tensor | None) -> list[Tensor | None]:
    """Return statistics in the type in which the CPU keeps them, unlike CUDA: the input's, unless the weight's is
    wider.
    """
    kind = x.dtype if weight is None else torch.promote_types(x.dtype, weight.dtype)
    return [None if one is None else one.to(kind) for one in statistics]


def _rows(x: Tensor) -> Tensor:
    """Return the values of each channel as a row, in the type in which sums are made."""
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    return wide.transpose(0, 1).reshape(x.size(1), -1)


def _by_channel(values: Tensor, like: Tensor) -> Tensor:
    return values.reshape(1, -1, *[1] * (like.dim() - 2))


@formula("batch_norm_stats")
def stats(x: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """``aten::batch_norm_stats``."""
    rows = _rows(x)
    return rows.mean(1), (rows.var(1, unbiased=False) + epsilon).rsqrt()


@formula("batch_norm_elemt")
def elemt(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, _epsilon: float
) -> Tensor:
    """``aten::batch_norm_elemt``."""
    scale = invstd if weight is None else invstd * weight
    found = (x - _by_channel(mean, x)) * _by_channel(scale, x)
    return (found if bias is None else found + _by_channel(bias, x)).to(x.dtype)


@formula("batch_norm_gather_stats_with_counts")
def gather_stats_with_counts(*args: Any) -> tuple[Tensor, Tensor]:
    """``aten::batch_norm_gather_stats_with_counts``: the statistics of all processes from those of each."""
    _x, mean, invstd, running_mean, running_var, momentum, epsilon, counts = args
    shares = counts.to(mean.dtype).reshape(-1, 1)
    total = shares.sum()
    variance = invstd.pow(-2) - epsilon
    all_mean = (mean * shares).sum(0) / total
    all_variance = ((variance + (mean - all_mean) ** 2) * shares).sum(0) / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(all_mean * momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(all_variance * total / (total - 1) * momentum)
    return all_mean, (all_variance + epsilon).rsqrt()


@formula("batch_norm_gather_stats")
def gather_stats(x: Tensor, mean: Tensor, *args: Any) -> tuple[Tensor, Tensor]:
    """``aten::batch_norm_gather_stats``: each process has as many values."""
    *others, count = args
    counts = torch.full((mean.size(0),), count, dtype=mean.dtype, device="cpu")
    return gather_stats_with_counts(x, mean, *others, counts)


@formula("batch_norm_backward_reduce")
def backward_reduce(*args: Any) -> tuple[Tensor | None, ...]:
    """``aten::batch_norm_backward_reduce``."""
    grad, x, mean, invstd, weight, for_x, for_weight, for_bias = args
    rows = _rows(grad)
    sums = rows.sum(1)
    products = (rows * (_rows(x) - mean.reshape(-1, 1))).sum(1)
    kind = grad.dtype if weight is None else weight.dtype
    grad_weight = (products * invstd).to(kind) if for_weight else None
    return (sums if for_x else None, products if for_x else None, grad_weight, sums.to(kind) if for_bias else None)


@formula("batch_norm_backward_elemt")
def backward_elemt(*args: Any) -> Any:
    """``aten::batch_norm_backward_elemt``."""
    grad, x, mean, invstd, weight, sums, products, counts = args
    total = counts.sum().to(mean.dtype)
    scale = invstd if weight is None else invstd * weight
    slope = products / total * invstd * invstd
    centered = (x - _by_channel(mean, x)) * _by_channel(slope, x)
    return ((grad - _by_channel(sums / total, x) - centered) * _by_channel(scale, x)).to(x.dtype)


@formula("native_layer_norm_backward")
def layer_norm_backward(
    grad: Tensor, x: Tensor, shape: Sequence[int], mean: Tensor, rstd: Tensor, weight: Tensor | None, *rest: Any
) -> Any:
    """``aten::native_layer_norm_backward``."""
    kept = _as_the_cpu_keeps(x, weight, mean, rstd)
    return _aten.native_layer_norm_backward.default(grad, x, shape, *kept, weight, *rest)


@formula("native_group_norm_backward")
def group_norm_backward(grad: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, *rest: Any) -> Any:
    """``aten::native_group_norm_backward``."""
    return _aten.native_group_norm_backward.default(grad, x, *_as_the_cpu_keeps(x, weight, mean, rstd), weight, *rest)


@formula("native_batch_norm_backward")
def batch_norm_backward(grad: Tensor, x: Tensor, weight: Tensor | None, *args: Any) -> Any:
    """``aten::native_batch_norm_backward``."""
    running_mean, running_var, mean, invstd, *rest = args
    kept = _as_the_cpu_keeps(x, weight, mean, invstd)
    return _aten.native_batch_norm_backward.default(grad, x, weight, running_mean, running_var, *kept, *rest)


@formula("batch_norm_backward")
def batch_norm_with_update_backward(*args: Any) -> Any:
    """``aten::batch_norm_backward``, of ``_batch_norm_with_update``. The last argument is cuDNN's reserve."""
    return batch_norm_backward(*args[:-1])


@formula("_fused_rms_norm_backward")
def rms_norm_backward(
    grad: Tensor, x: Tensor, shape: Sequence[int], rstd: Tensor, weight: Tensor | None, mask: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """``aten::_fused_rms_norm_backward``."""
    wide = rstd.dtype
    inner = list(range(x.dim() - len(shape), x.dim()))
    outer = list(range(x.dim() - len(shape)))
    normal = x.to(wide) * rstd
    scaled = grad.to(wide) if weight is None else grad.to(wide) * weight.to(wide)
    grad_x = (scaled - normal * (scaled * normal).mean(inner, keepdim=True)) * rstd if mask[0] else None
    grad_weight = None
    if mask[1] and weight is not None:
        product = grad.to(wide) * normal
        grad_weight = (product.sum(outer) if outer else product).to(weight.dtype)
    return None if grad_x is None else grad_x.to(x.dtype), grad_weight
