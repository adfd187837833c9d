# SPDX-License-Identifier: Apache-2.0
"""Products with another type of result, fused dropout, and samplers of cuDNN."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...._typing import Any
from .table import formula

_aten = torch.ops.aten


@formula("mm.dtype", "mm.dtype_out", "bmm.dtype", "bmm.dtype_out")
def mm(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """``aten::mm.dtype`` and ``aten::bmm.dtype``."""
    return torch.matmul(a.to(dtype), b.to(dtype))


@formula("addmm.dtype", "addmm.dtype_out", "baddbmm.dtype", "baddbmm.dtype_out")
def addmm(c: Tensor, a: Tensor, b: Tensor, dtype: torch.dtype, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``aten::addmm.dtype`` and ``aten::baddbmm.dtype``."""
    return torch.matmul(a.to(dtype), b.to(dtype)) * alpha + c.to(dtype) * beta


@formula("_fused_dropout")
def fused_dropout(x: Tensor, keep: float, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """``aten::_fused_dropout``. ``keep`` is the probability that a value stays."""
    mask = torch.empty(x.shape, dtype=torch.uint8, device="cpu").bernoulli_(keep, generator=generator)
    return x * mask * (1 / keep), mask


@formula("_masked_scale")
def masked_scale(x: Tensor, mask: Tensor, scale: float) -> Tensor:
    """``aten::_masked_scale``."""
    return x * mask * scale


@formula("_embedding_bag", "_embedding_bag_forward_only")
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


@formula("log_sigmoid_backward", "log_sigmoid_backward.grad_input")
def log_sigmoid_backward(grad: Tensor, x: Tensor, _buffer: Tensor) -> Any:
    """``aten::log_sigmoid_backward``.

    Only the CPU's forward pass keeps the buffer that the CPU's backward pass reads.
    """
    return _aten.log_sigmoid_backward.default(grad, x, torch.exp(-x.abs()))


@formula("cudnn_grid_sampler")
def grid_sampler(x: Tensor, grid: Tensor) -> Any:
    """``aten::cudnn_grid_sampler``: bilinear, with zeros outside."""
    return _aten.grid_sampler_2d.default(x, grid, 0, 0, True)


@formula("cudnn_grid_sampler_backward")
def grid_sampler_backward(x: Tensor, grid: Tensor, grad: Tensor) -> Any:
    """``aten::cudnn_grid_sampler_backward``."""
    return _aten.grid_sampler_2d_backward.default(grad, x, grid, 0, 0, True, [True, True])


@formula("cudnn_affine_grid_generator")
def affine_grid(theta: Tensor, n: int, c: int, h: int, w: int) -> Any:
    """``aten::cudnn_affine_grid_generator``."""
    return _aten.affine_grid_generator.default(theta, [n, c, h, w], True)


@formula("cudnn_affine_grid_generator_backward")
def affine_grid_backward(grad: Tensor, n: int, c: int, h: int, w: int) -> Any:
    """``aten::cudnn_affine_grid_generator_backward``."""
    return _aten.affine_grid_generator_backward.default(grad, [n, c, h, w], True)


@formula("_cudnn_ctc_loss", "_cudnn_ctc_loss.Tensor")
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


# Convolutions of cuDNN, and PyTorch's own depthwise ones.

Ints = Sequence[int]
_convolution = torch.ops.aten.convolution.default


@formula("cudnn_convolution")
def cudnn_convolution(
    x: Tensor, weight: Tensor, padding: Ints, stride: Ints, dilation: Ints, groups: int, *_: bool
) -> Tensor:
    """``aten::cudnn_convolution``."""
    return _convolution(x, weight, None, stride, padding, dilation, False, [0] * len(padding), groups)


@formula("cudnn_convolution_transpose")
def cudnn_convolution_transpose(
    x: Tensor, weight: Tensor, padding: Ints, output_padding: Ints, stride: Ints, dilation: Ints, groups: int, *_: bool
) -> Tensor:
    """``aten::cudnn_convolution_transpose``."""
    return _convolution(x, weight, None, stride, padding, dilation, True, output_padding, groups)


@formula("cudnn_convolution_relu")
def cudnn_convolution_relu(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Tensor:
    """``aten::cudnn_convolution_relu``."""
    return torch.relu(_convolution(x, weight, bias, stride, padding, dilation, False, [0] * len(padding), groups))


@formula("cudnn_convolution_add_relu")
def cudnn_convolution_add_relu(
    x: Tensor,
    weight: Tensor,
    z: Tensor,
    alpha: Any,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Tensor:
    """``aten::cudnn_convolution_add_relu``."""
    product = _convolution(x, weight, bias, stride, padding, dilation, False, [0] * len(padding), groups)
    return torch.relu(product + z * (1 if alpha is None else alpha))


@formula("_conv_depthwise2d", "conv_depthwise3d")
def depthwise(
    x: Tensor, weight: Tensor, _size: Ints, bias: Tensor | None, stride: Ints, padding: Ints, dilation: Ints
) -> Tensor:
    """``aten::_conv_depthwise2d`` and ``aten::conv_depthwise3d``."""
    channels = x.size(1)
    return _convolution(x, weight, bias, stride, padding, dilation, False, [0] * len(padding), channels)


# Operators whose kernels for the CPU take less than those for CUDA.
#
# Choices of cuSOLVER, complex NaN, singular matrices, and softmax of float16 with results in float32, which autocast
# calls.


@formula("_linalg_svd", "_linalg_svd.U")
def svd(
    x: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None, **outs: Tensor
) -> Any:
    """``aten::_linalg_svd``. The driver is one of cuSOLVER's functions, of which the CPU has none."""
    del driver
    overload = _aten._linalg_svd
    return (overload.U if outs else overload.default)(x, full_matrices, compute_uv, **outs)


@formula("nansum")
def nansum(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """``aten::nansum``, of complex numbers, too."""
    if not x.is_complex():
        return torch.nansum(x, dim, keepdim, dtype=dtype)
    present = torch.where(x.isnan(), torch.zeros((), dtype=x.dtype, device="cpu"), x)
    return present.sum(dim or list(range(x.dim())), keepdim, dtype=dtype)


@formula("cholesky_inverse")
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


def _define_softmax(name: str) -> None:
    forward, backward = getattr(_aten, name).default, getattr(_aten, f"{name}_backward_data").default
    formula(name)(lambda x, dim, to_float: forward(x.float() if to_float else x, dim, False))
    formula(f"{name}_backward_data")(lambda grad, output, dim, to: backward(grad, output, dim, grad.dtype).to(to))


_define_softmax("_softmax")
_define_softmax("_log_softmax")
