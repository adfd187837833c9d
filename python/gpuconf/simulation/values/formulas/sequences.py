# SPDX-License-Identifier: Apache-2.0
"""Attention over (batch, sequence, heads, width), or over sequences of several lengths one after the other, as nested
tensors are.

Where a sequence begins, the cumulated lengths say. Each is an attention of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ...._typing import Any
from .attention import Call, new_seed
from .results import Part, Seed, read_seed
from .table import formula

_MASKS = ("", "top", "bottom")


class _Sums:
    """The logarithms of the sums of each sequence: one row after the other, or padded."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Tensor]) -> None:
        self.parts: list[Tensor] = parts

    def fill(self, target: Tensor) -> None:
        """Write them into a CPU tensor of (heads, all rows) or (sequences, heads, rows)."""
        if target.dim() == 2:
            Part(torch.cat([one.squeeze(0) for one in self.parts], 1)).fill(target)
        else:
            for place, one in zip(target, self.parts, strict=False):
                Part(one.squeeze(0)).fill(place)


def _edges(lengths: Tensor) -> Iterator[slice]:
    ends = lengths.tolist()
    return (slice(begin, end) for begin, end in itertools.pairwise(ends))


def _split(x: Tensor, lengths: Tensor | None) -> list[Tensor]:
    """Return each sequence as (batch, heads, rows, width)."""
    if lengths is None:
        return [x.transpose(1, 2)]
    flat = x.reshape(-1, *x.shape[-2:])
    return [flat[edge].transpose(0, 1).unsqueeze(0) for edge in _edges(lengths)]


def _join(parts: list[Tensor], lengths: Tensor | None, like: Tensor) -> Tensor:
    if lengths is None:
        return parts[0].transpose(1, 2)
    joined = torch.zeros_like(like).reshape(-1, *like.shape[-2:])
    for edge, one in zip(_edges(lengths), parts, strict=True):
        joined[edge] = one.squeeze(0).transpose(0, 1)
    return joined.reshape(like.shape)


def _refuse(name: str, *unknown: object) -> None:
    if any(one is not None for one in unknown):
        raise NotImplementedError(
            f"gpuconf: {name} with such arguments is not computed on simulated GPUs. Use padded tensors and a mask"
        )


def _forward(
    tensors: Sequence[Tensor],
    lengths: tuple[Tensor | None, Tensor | None],
    bias: Tensor | None,
    dropout: float,
    *how: Any,
) -> tuple[Tensor, Any, Seed | None]:
    seed = new_seed()
    outs, sums = [], []
    for number, (q, k, v) in enumerate(zip(*_all(tensors, lengths), strict=True)):
        out, logs = Call((q, k, v), bias, how[0], dropout, seed + number, *how[1:]).forward()
        outs.append(out)
        sums.append(logs)
    out = _join(outs, lengths[0], tensors[0].new_empty(*tensors[0].shape[:-1], tensors[2].size(-1)))
    return out, Part(sums[0]) if lengths[0] is None else _Sums(sums), Seed(seed) if dropout else None


def _all(tensors: Sequence[Tensor], lengths: tuple[Tensor | None, Tensor | None]) -> tuple[list[Tensor], ...]:
    return tuple(_split(one, lengths[at > 0]) for at, one in enumerate(tensors[:3]))


def _backward(
    grad: Tensor,
    tensors: Sequence[Tensor],
    out: Tensor,
    lengths: tuple[Tensor | None, Tensor | None],
    bias: Tensor | None,
    dropout: float,
    seed_of: Tensor,
    *how: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    seed = read_seed(seed_of) if dropout else 0
    found = []
    rows = zip(*_all(tensors, lengths), _split(grad, lengths[0]), _split(out, lengths[0]), strict=True)
    for number, (q, k, v, of_out, its) in enumerate(rows):
        found.append(Call((q, k, v), bias, how[0], dropout, seed + number, *how[1:]).backward(of_out, its))
    of_tensors = [_join([one[at] for one in found], lengths[at > 0], tensors[at]) for at in range(3)]
    return of_tensors[0], of_tensors[1], of_tensors[2], found[0][3]


def _window(left: int | None, right: int | None) -> tuple[int, int]:
    return -1 if left is None else left, -1 if right is None else right


@formula("_flash_attention_forward")
def flash(
    *args: Any,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
    num_splits: int | None = None,  # noqa: ARG001
    **unknown: Any,
) -> tuple[Any, ...]:
    """``aten::_flash_attention_forward``."""
    query, key, value, cum_q, cum_k, _max_q, _max_k, dropout, is_causal, _debug = args
    _refuse("_flash_attention_forward", *unknown.values())
    how = "bottom" if is_causal else "", scale, _window(window_size_left, window_size_right)
    out, sums, seed = _forward((query, key, value), (cum_q, cum_k), None, dropout, *how)
    return out, sums, seed, None, None


@formula("_flash_attention_backward")
def flash_backward(
    *args: Any, scale: float | None = None, window_size_left: int | None = None, window_size_right: int | None = None
) -> tuple[Tensor, ...]:
    """``aten::_flash_attention_backward``. Without cumulated lengths, PyTorch gives empty tensors."""
    grad, query, key, value, out, _sums, cum_q, cum_k, _max_q, _max_k, dropout, is_causal, seed, _unused = args
    lengths = (None, None) if cum_q is None or cum_q.numel() == 0 else (cum_q, cum_k)
    how = "bottom" if is_causal else "", scale, _window(window_size_left, window_size_right)
    return _backward(grad, (query, key, value), out, lengths, None, dropout, seed, *how)[:3]


@formula("_efficient_attention_forward")
def efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    cum_q: Tensor | None,
    cum_k: Tensor | None,
    _max_q: int | None,
    _max_k: int | None,
    dropout: float,
    mask: int,
    sums_wanted: bool = False,
    *,
    scale: float | None = None,
    seqlen_k: Tensor | None = None,
    window_size: int | None = None,
) -> tuple[Any, ...]:
    """``aten::_efficient_attention_forward``."""
    _refuse("_efficient_attention_forward", seqlen_k, window_size or None, None if cum_q is None else bias)
    out, sums, seed = _forward((query, key, value), (cum_q, cum_k), bias, dropout, _MASKS[mask], scale)
    return out, sums if sums_wanted else None, seed, None, None, None


@formula("_efficient_attention_backward")
def efficient_backward(
    *args: Any, scale: float | None = None, window_size: int | None = None, **_how: Any
) -> tuple[Any, ...]:
    """``aten::_efficient_attention_backward``."""
    grad, query, key, value, bias, out, cum_q, cum_k, _max_q, _max_k, _sums, dropout, seed, _offset, mask, for_bias = (
        args
    )
    _refuse("_efficient_attention_backward", window_size or None, None if cum_q is None else bias)
    found = _backward(grad, (query, key, value), out, (cum_q, cum_k), bias, dropout, seed, _MASKS[mask], scale)
    of_bias = found[3].sum_to_size(bias.shape).to(bias.dtype) if bias is not None and for_bias else None
    return (*found[:3], of_bias)
