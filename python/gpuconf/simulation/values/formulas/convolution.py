# SPDX-License-Identifier: Apache-2.0
"""Convolutions of cuDNN, and PyTorch's own depthwise ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...._typing import Any

Ints = Sequence[int]
_convolution = torch.ops.aten.convolution.default


def cudnn_convolution(
    x: Tensor, weight: Tensor, padding: Ints, stride: Ints, dilation: Ints, groups: int, *_: bool
) -> Tensor:
    """``aten::cudnn_convolution``."""
    return _convolution(x, weight, None, stride, padding, dilation, False, [0] * len(padding), groups)


def cudnn_convolution_transpose(
    x: Tensor, weight: Tensor, padding: Ints, output_padding: Ints, stride: Ints, dilation: Ints, groups: int, *_: bool
) -> Tensor:
    """``aten::cudnn_convolution_transpose``."""
    return _convolution(x, weight, None, stride, padding, dilation, True, output_padding, groups)


def cudnn_convolution_relu(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Tensor:
    """``aten::cudnn_convolution_relu``."""
    return torch.relu(_convolution(x, weight, bias, stride, padding, dilation, False, [0] * len(padding), groups))


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


def depthwise(
    x: Tensor, weight: Tensor, _size: Ints, bias: Tensor | None, stride: Ints, padding: Ints, dilation: Ints
) -> Tensor:
    """``aten::_conv_depthwise2d`` and ``aten::conv_depthwise3d``."""
    channels = x.size(1)
    return _convolution(x, weight, bias, stride, padding, dilation, False, [0] * len(padding), channels)
