# SPDX-License-Identifier: Apache-2.0
"""Pack jobs whose limits are leases. On each card, limits and reserves fit into the memory, and limits into what can be leased."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .assign import assign
from .cards import FleetGpus
from .pack import pack as pack_sizes
from .packing import Packing


class Packed(NamedTuple):
    """The jobs on each card by their places in the list of jobs, a lower bound, and what first-fit decreasing alone finds."""

    jobs: list[list[int]]
    bound: int
    first: Packing


def pack(
    limits: Sequence[int],
    parts: Sequence[int],
    reserve: int,
    cards: Sequence[FleetGpus],
    unit: int,
    progress: Callable[[str], None],
) -> Packed:
    """Pack jobs, given by their limits and the number of cards of each. ``unit`` is the size in which the search counts."""
    sizes = [-(-(limit + reserve) // unit) for limit in limits]
    possible = [job for job, limit in enumerate(limits) if limit <= max(card.leasable for card in set(cards))]
    found = _packed(possible, sizes, parts, [card.memory // unit for card in cards], progress)
    if all(sum(limits[job] for job in jobs) <= card.leasable for jobs, card in zip(found.jobs, cards, strict=True)):
        return found
    # With less room every limit fits: those of n jobs leave n - 1 reserves of what can be leased. It is rarely needed, because the
    # reserves of two or three jobs are about what the system keeps. The bound is that of the problem with more room.
    rooms = [min(card.memory, card.leasable + reserve) // unit for card in cards]
    less = _packed(possible, sizes, parts, rooms, progress)
    return Packed(less.jobs, found.bound, less.first)


def _packed(
    jobs: Sequence[int], sizes: Sequence[int], parts: Sequence[int], rooms: Sequence[int], progress: Callable[[str], None]
) -> Packed:
    order = sorted(range(len(rooms)), key=lambda card: -rooms[card])
    cards = [rooms[card] for card in order]
    fitting = [job for job in jobs if sizes[job] <= cards[0] and parts[job] <= len(cards)]
    found = pack_sizes([sizes[job] for job in fitting for _ in range(parts[job])], cards, progress=progress)
    placed: list[list[int]] = [[] for _ in rooms]
    for card, held in zip(
        order, assign(found.best, cards, [sizes[job] for job in fitting], [parts[job] for job in fitting]), strict=True
    ):
        placed[card] = [fitting[job] for job in held]
    return Packed(placed, found.bound, found.first)
