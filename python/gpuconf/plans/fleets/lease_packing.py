# SPDX-License-Identifier: Apache-2.0
"""Pack jobs whose limits are leases.

On each card, limits and reserves fit into what can be leased, with the contexts of leases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .assign import assign
from .fleet_cards import FleetGpus
from .pack import pack as pack_sizes
from .packing import Packing


class Packed(NamedTuple):
    """The jobs on each card by their places in the list of jobs, a lower bound, and what first-fit decreasing alone
    finds.
    """

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
    """Pack jobs, given by their limits and the number of cards of each.

    ``unit`` is the size in which the search counts.

    ``reserve`` is at least what a lease takes for a context on each of the cards.
    """
    sizes = [-(-(limit + reserve) // unit) for limit in limits]
    possible = [job for job, limit in enumerate(limits) if limit <= max(card.leasable for card in set(cards))]
    rooms = [min(card.memory, card.leasable + card.context) // unit for card in cards]
    return _packed(possible, sizes, parts, rooms, progress)


def _packed(
    jobs: Sequence[int],
    sizes: Sequence[int],
    parts: Sequence[int],
    rooms: Sequence[int],
    progress: Callable[[str], None],
) -> Packed:
    order = sorted(range(len(rooms)), key=lambda card: -rooms[card])
    cards = [rooms[card] for card in order]
    fitting = [job for job in jobs if sizes[job] <= cards[0] and parts[job] <= len(cards)]
    packing = pack_sizes([sizes[job] for job in fitting for _ in range(parts[job])], cards, progress=progress)
    placed: list[list[int]] = [[] for _ in rooms]
    for card, held in zip(
        order,
        assign(packing.best, cards, [sizes[job] for job in fitting], [parts[job] for job in fitting]),
        strict=True,
    ):
        placed[card] = [fitting[job] for job in held]
    return Packed(placed, packing.bound, packing.first)
