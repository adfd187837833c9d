# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention: flash, memory-efficient and cuDNN's, forward and backward.

All have one formula. Scores are summed in float32, as the kernels for CUDA do. Without dropout the CPU's own flash
attention computes it, where it can. What the dropout left out is drawn again for the backward pass, from the seed that
the forward pass keeps where the kernels for CUDA keep theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ...._typing import Any
from ..generators import seed_of, seeded
from .results import Part, Seed, read_seed
from .table import formula

_fast = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_fast_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


class Call:
    """An attention over (batch, heads, sequence, width).

    ``causal`` is "", "top" or "bottom", where the last query sees all keys.
    """

    def __init__(
        self,
        tensors: tuple[Tensor, Tensor, Tensor],
        bias: Tensor | None,
        causal: str,
        dropout: float,
        seed: int,
        scale: float | None,
        window: tuple[int, int] = (-1, -1),
    ) -> None:
        query, key, value = tensors
        self.groups: int = query.size(1) // max(1, key.size(1))
        if self.groups > 1:
            key, value = key.repeat_interleave(self.groups, 1), value.repeat_interleave(self.groups, 1)
        self.query: Tensor = query
        self.key: Tensor = key
        self.value: Tensor = value
        self.bias: Tensor | None = bias
        self.dropout: float = dropout
        self.seed: int = seed
        self.scale: float = 1 / math.sqrt(query.size(-1)) if scale is None else scale
        self.causal: str = causal
        self.window: tuple[int, int] = window

    @property
    def is_fast(self) -> bool:
        """Whether the CPU's own flash attention computes the same."""
        square = self.causal in ("", "top") or self.query.size(2) == self.key.size(2)
        same = self.query.size(-1) == self.value.size(-1) and self.query.numel() > 0 and self.key.numel() > 0
        return self.dropout == 0 and square and same and self.bias is None and self.window == (-1, -1)

    def _mask(self) -> Tensor | None:
        rows, columns = self.query.size(2), self.key.size(2)
        left, right = self.window
        if not self.causal and left < 0 and right < 0:
            return None
        shift = columns - rows if self.causal == "bottom" or left >= 0 or right >= 0 else 0
        distance = torch.arange(columns, device="cpu") - torch.arange(rows, device="cpu").unsqueeze(1) - shift
        hidden = distance > 0 if self.causal else torch.zeros((rows, columns), dtype=torch.bool, device="cpu")
        if right >= 0:
            hidden = hidden | (distance > right)
        if left >= 0:
            hidden = hidden | (distance < -left)
        return hidden

    def weights(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the softmax of the scores, their logarithms of sums, and the factors of the dropout."""
        wide = torch.promote_types(self.query.dtype, torch.float32)
        scores = self.query.to(wide) @ self.key.to(wide).transpose(-1, -2) * self.scale
        if self.bias is not None and self.bias.dtype is torch.bool:
            scores = scores.masked_fill(~self.bias, -math.inf)
        elif self.bias is not None:
            scores = scores + self.bias.to(wide)
        hidden = self._mask()
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        sums = scores.logsumexp(-1)
        shares = torch.exp(scores - sums.unsqueeze(-1)).nan_to_num(0.0)  # a query that sees no key has the result 0
        if self.dropout == 0:
            return shares, sums, None
        kept = _drawn(shares.shape, self.seed) >= self.dropout
        return shares, sums, kept.to(wide) / (1 - self.dropout) if self.dropout < 1 else kept.to(wide)

    def forward(self) -> tuple[Tensor, Tensor]:
        """Return the output and the logarithms of the sums."""
        if self.is_fast:
            found: tuple[Tensor, Tensor] = _fast(
                self.query, self.key, self.value, 0.0, bool(self.causal), attn_mask=None, scale=self.scale
            )
            return found
        shares, sums, factors = self.weights()
        kept = shares if factors is None else shares * factors
        return (kept @ self.value.to(shares.dtype)).to(self.query.dtype), sums

    def backward(self, grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the gradients of query, key, value and of the scores."""
        shares, _, factors = self.weights()
        wide = shares.dtype
        grad = grad.to(wide)
        kept = shares if factors is None else shares * factors
        of_value = kept.transpose(-1, -2) @ grad
        of_kept = grad @ self.value.to(wide).transpose(-1, -2)
        if factors is not None:
            of_kept = of_kept * factors
        of_scores = shares * (of_kept - (grad * out.to(wide)).sum(-1, keepdim=True))
        of_query = of_scores @ self.key.to(wide) * self.scale
        of_key = of_scores.transpose(-1, -2) @ self.query.to(wide) * self.scale
        return of_query.to(self.query.dtype), self._grouped(of_key), self._grouped(of_value), of_scores

    def fast_backward(self, grad: Tensor, out: Tensor, sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of query, key and value, by the CPU's own flash attention."""
        rows = self.query.size(2)
        sums = sums.reshape(*self.query.shape[:2], -1)[..., :rows]
        found = _fast_backward(
            grad, self.query, self.key, self.value, out, sums, 0.0, bool(self.causal), attn_mask=None, scale=self.scale
        )
        return found[0], self._grouped(found[1]), self._grouped(found[2])

    def _grouped(self, grad: Tensor) -> Tensor:
        """Return the gradient of a key or value that several heads share."""
        if self.groups > 1:
            grad = grad.unflatten(1, (-1, self.groups)).sum(2)
        return grad.to(self.key.dtype)


def _drawn(shape: Sequence[int], seed: int) -> Tensor:
    """Return the numbers that say what a dropout leaves out."""
    return torch.rand(shape, generator=seeded(seed), dtype=torch.float32, device="cpu")


@formula("_fill_mem_eff_dropout_mask_")
def dropout_mask(out: Tensor, _dropout: float, seed: int, offset: int) -> Tensor:
    """``aten::_fill_mem_eff_dropout_mask_``: what an attention draws from a generator with this seed and offset."""
    return out.copy_(_drawn(out.shape, seed_of(seed, offset) & 0x7FFFFFFFFFFFFFFF))


def _forward(call: Call) -> tuple[Tensor, Part, Any]:
    out, sums = call.forward()
    return out, Part(sums), Seed(call.seed) if call.dropout else None


def new_seed() -> int:
    """Return the seed of the generator that an operation draws from."""
    return int(torch.default_generator.initial_seed()) & 0x7FFFFFFFFFFFFFFF


def _top(is_causal: bool) -> str:
    return "top" if is_causal else ""


@formula("_scaled_dot_product_flash_attention")
def flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout: float = 0.0,
    is_causal: bool = False,
    debug: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """``aten::_scaled_dot_product_flash_attention``. What the dropout left out is negative in the last result."""
    call = Call((query, key, value), None, _top(is_causal), dropout, new_seed(), scale)
    out, sums, seed = _forward(call)
    signed = None
    if debug and dropout:
        shares, _, factors = call.weights()
        signed = Part(torch.where(factors == 0, -shares, shares))
    return out, sums, None, None, None, None, seed, None, signed


@formula("_scaled_dot_product_flash_attention_backward")
def flash_backward(*args: Any, scale: float | None = None) -> tuple[Tensor, ...]:
    """``aten::_scaled_dot_product_flash_attention_backward``."""
    grad, query, key, value, out, sums, _cum_q, _cum_k, _max_q, _max_k, dropout, is_causal, seed, _offset = args
    return _gradients((query, key, value), None, is_causal, dropout, seed, scale, grad, out, sums)[:3]


def _gradients(
    tensors: tuple[Tensor, Tensor, Tensor],
    bias: Tensor | None,
    is_causal: bool,
    dropout: float,
    seed: Tensor,
    scale: float | None,
    grad: Tensor,
    out: Tensor,
    sums: Tensor,
) -> tuple[Tensor, ...]:
    call = Call(tensors, bias, _top(is_causal), dropout, read_seed(seed) if dropout else 0, scale)
    if call.is_fast and sums.numel() >= call.query[..., 0].numel():
        return call.fast_backward(grad, out, sums)
    return call.backward(grad, out)


@formula("_scaled_dot_product_efficient_attention")
def efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    compute_sums: bool,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """``aten::_scaled_dot_product_efficient_attention``."""
    out, sums, seed = _forward(Call((query, key, value), bias, _top(is_causal), dropout, new_seed(), scale))
    return out, sums if compute_sums else None, seed, seed and Seed(0)


@formula("_scaled_dot_product_efficient_attention_backward")
def efficient_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    out: Tensor,
    sums: Tensor,
    seed: Tensor,
    _offset: Tensor,
    dropout: float,
    mask: Sequence[bool],
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """``aten::_scaled_dot_product_efficient_attention_backward``."""
    found = _gradients((query, key, value), bias, is_causal, dropout, seed, scale, grad, out, sums)
    of_bias = found[3].sum_to_size(bias.shape).to(bias.dtype) if bias is not None and mask[3] else None
    return (*found[:3], of_bias)


@formula("_scaled_dot_product_cudnn_attention")
def cudnn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    compute_sums: bool,
    dropout: float = 0.0,
    is_causal: bool = False,
    _debug: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """``aten::_scaled_dot_product_cudnn_attention``."""
    out, sums, seed = _forward(Call((query, key, value), bias, _top(is_causal), dropout, new_seed(), scale))
    return out, sums if compute_sums else None, None, None, None, None, seed, None, None


@formula("_scaled_dot_product_cudnn_attention_backward")
def cudnn_backward(*args: Any, scale: float | None = None) -> tuple[Tensor, ...]:
    """``aten::_scaled_dot_product_cudnn_attention_backward``."""
    grad, query, key, value, out, sums, seed, _offset, bias, _cum_q, _cum_k, _max_q, _max_k, dropout, is_causal = args
    bias = None if bias is None or bias.numel() == 0 else bias
    return _gradients((query, key, value), bias, is_causal, dropout, seed, scale, grad, out, sums)[:3]
