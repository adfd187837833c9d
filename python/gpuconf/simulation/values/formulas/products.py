# SPDX-License-Identifier: Apache-2.0
"""Products with another type of result, fused dropout, and samplers of cuDNN."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...._typing import Any

_aten = torch.ops.aten


def mm(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """``aten::mm.dtype`` and ``aten::bmm.dtype``."""
    return torch.matmul(a.to(dtype), b.to(dtype))


def addmm(c: Tensor, a: Tensor, b: Tensor, dtype: torch.dtype, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``aten::addmm.dtype`` and ``aten::baddbmm.dtype``."""
    return torch.matmul(a.to(dtype), b.to(dtype)) * alpha + c.to(dtype) * beta


def fused_dropout(x: Tensor, keep: float, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """``aten::_fused_dropout``. ``keep`` is the probability that a value stays."""
    mask = torch.empty(x.shape, dtype=torch.uint8, device="cpu").bernoulli_(keep, generator=generator)
    return x * mask * (1 / keep), mask


def masked_scale(x: Tensor, mask: Tensor, scale: float) -> Tensor:
    """``aten::_masked_scale``."""
    return x * mask * scale


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    by_frequency: bool = False,
    mode: int = 0,
    sparse: bool = False,
    weights: Tensor | None = None,
    with_end: bool = False,
    padding: int = -1,
) -> tuple[Tensor, ...]:
    """``aten::_embedding_bag``.

    CUDA's kernels always say which bag each index is in, and have a size for each offset.
    """
    arguments = (weight, indices, offsets, by_frequency, mode, sparse, weights, with_end, padding)
    out, bags, sizes, largest = _aten._embedding_bag.default(*arguments)
    if bags.numel() == 0 and indices.numel():
        starts = offsets[:-1] if with_end else offsets
        bags = torch.bucketize(torch.arange(indices.numel(), dtype=starts.dtype, device="cpu"), starts, right=True) - 1
    sizes = torch.cat((sizes, sizes.new_zeros(offsets.numel() - sizes.numel())))
    return out, bags, sizes, largest


def log_sigmoid_backward(grad: Tensor, x: Tensor, _buffer: Tensor) -> Any:
    """``aten::log_sigmoid_backward``.

    Only the CPU's forward pass keeps the buffer that the CPU's backward pass reads.
    """
    return _aten.log_sigmoid_backward.default(grad, x, torch.exp(-x.abs()))


def grid_sampler(x: Tensor, grid: Tensor) -> Any:
    """``aten::cudnn_grid_sampler``: bilinear, with zeros outside."""
    return _aten.grid_sampler_2d.default(x, grid, 0, 0, True)


def grid_sampler_backward(x: Tensor, grid: Tensor, grad: Tensor) -> Any:
    """``aten::cudnn_grid_sampler_backward``."""
    return _aten.grid_sampler_2d_backward.default(grad, x, grid, 0, 0, True, [True, True])


def affine_grid(theta: Tensor, n: int, c: int, h: int, w: int) -> Any:
    """``aten::cudnn_affine_grid_generator``."""
    return _aten.affine_grid_generator.default(theta, [n, c, h, w], True)


def affine_grid_backward(grad: Tensor, n: int, c: int, h: int, w: int) -> Any:
    """``aten::cudnn_affine_grid_generator_backward``."""
    return _aten.affine_grid_generator_backward.default(grad, [n, c, h, w], True)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[int] | Tensor,
    target_lengths: Sequence[int] | Tensor,
    blank: int,
    _deterministic: bool,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:
    """``aten::_cudnn_ctc_loss``: the loss, and the gradient of its sum."""
    lengths = [one.tolist() if isinstance(one, Tensor) else list(one) for one in (input_lengths, target_lengths)]
    targets = targets.long()
    loss, alpha = _aten._ctc_loss.default(log_probs, targets, *lengths, blank, zero_infinity)
    ones = torch.ones_like(loss)
    grad = _aten._ctc_loss_backward.default(ones, log_probs, targets, *lengths, loss, alpha, blank, zero_infinity)
    return loss, grad
