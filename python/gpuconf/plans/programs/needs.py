# SPDX-License-Identifier: Apache-2.0
"""What a program needs of a card, under each setting of PyTorch's allocator, and whether a card has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..._core.table import Table
from ..._typing import Any, NamedTuple
from .target_cards import MARGIN, NCCL, Beside, Card

# The most of a recorded run is 3.1 times its largest tensor: multi_token_attention in benchmarks/reports/accuracy.md.
WORKSPACES = 4
FITS, DOES_NOT_FIT, DEPENDS = "fits", "does not fit", "depends"
# A setting of PYTORCH_ALLOC_CONF, and the planner's policy that replays it.
SETTINGS = {"default": "pytorch", "expandable_segments": "pytorch-expandable"}


class _Verdict(NamedTuple):
    card: str
    setting: str
    needs_low: int  # of the GPU that needs most: the allocator's least memory, and what is beside it
    needs_high: int
    usable_low: int
    usable_high: int
    verdict: str


class Verdict(Table, _Verdict):
    """Whether one card holds the program under one setting of the allocator. Sizes are in bytes."""

    __slots__ = ()


def convolutions_of(report: Mapping[str, Any]) -> int:
    """Return how many convolutions of cuDNN a process ran."""
    return sum(n for name, n in report["paths"].items() if "conv" in name)


def beside(card: Card, gpu: Sequence[dict[str, Any]]) -> list[Beside]:
    """Return what is taken beside the allocators of the processes that share a GPU."""
    processes = len(gpu)
    context = card.context()
    rows = [Beside(context.what, context.low * processes, context.high * processes, context.source)]
    if any((one["world"] or 1) > 1 for one in gpu):
        rows.append(NCCL)
    convolutions = sum(one["convolutions"] for one in gpu)
    if convolutions:
        most = WORKSPACES * max(one["largest"] for one in gpu)
        source = f"beyond those counted: at most {WORKSPACES} times the largest tensor, as in docs/measurements.md"
        rows.append(Beside("workspaces of cuDNN", 0, most, source))
    return rows


def verdict(card: Card, setting: str, gpus: Sequence[Sequence[dict[str, Any]]]) -> Verdict:
    """Compare a card with the GPU that needs most. Each GPU is the processes on it, each with ``least`` by setting."""
    usable = card.usable()
    sums = []
    for gpu in gpus:
        least = sum(one["least"][setting] for one in gpu)
        more = beside(card, gpu)
        sums.append((least + sum(one.low for one in more), int(least * (1 + MARGIN)) + sum(one.high for one in more)))
    low, high = max(low for low, _ in sums), max(high for _, high in sums)
    found = FITS if high <= usable.low else DOES_NOT_FIT if low > usable.high else DEPENDS
    return Verdict(card.name, setting, low, high, usable.low, usable.high, found)
