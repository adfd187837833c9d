# SPDX-License-Identifier: Apache-2.0
"""Pack jobs whose limits are leases.

On each card, limits and reserves fit into what can be leased, with the contexts of leases.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from .pack import Search
from .packing import Packing
from .recorded_jobs import FleetGpus


def assign(packing: Packing, cards: Sequence[int], sizes: Sequence[int], parts: Sequence[int]) -> list[list[int]]:
    """Return the jobs on each card. Jobs are given by the size of a part and the number of parts."""
    found = [_by_places(packing, cards, sizes, parts)]
    if max(parts, default=1) > 1:
        jobs = range(len(sizes))
        found.append(_by_jobs(cards, sizes, parts, sorted(jobs, key=lambda job: (-sizes[job], -parts[job]))))
        found.append(_by_jobs(cards, sizes, parts, sorted(jobs, key=lambda job: (-parts[job], -sizes[job]))))
    return min(found, key=lambda assignment: assignment.cost).jobs


def _by_jobs(cards: Sequence[int], sizes: Sequence[int], parts: Sequence[int], order: Sequence[int]) -> _Assignment:
    """Place one job after the other, each part onto the first card that has room and no part of the job."""
    assignment = _Assignment(cards, sizes)
    for job in order:
        fitting = list(islice(assignment.with_room(sizes[job]), parts[job]))
        if len(fitting) == parts[job]:
            for card in fitting:
                assignment.put(job, card)
        else:
            assignment.unplaced += sizes[job] * parts[job]
    return assignment


def _by_places(packing: Packing, cards: Sequence[int], sizes: Sequence[int], parts: Sequence[int]) -> _Assignment:
    """Give the places of a packing to jobs.

    Among equal sizes, the jobs with the most parts choose first, the cards with the most places. A part without a place
    goes where there is room; only if that fails, its job is left out.
    """
    assignment = _Assignment(cards, sizes)
    places: dict[int, Counter[int]] = {}
    for card, content in enumerate(packing.contents):
        for size in content:
            places.setdefault(size, Counter())[card] += 1
    by_size: dict[int, list[int]] = {}
    for job, size in enumerate(sizes):
        by_size.setdefault(size, []).append(job)
    missing = []
    for size, jobs in by_size.items():
        free = [(-n, card) for card, n in places.get(size, Counter()).items()]
        heapq.heapify(free)
        for job in sorted(jobs, key=lambda job: -parts[job]):
            picks = [heapq.heappop(free) for _ in range(min(parts[job], len(free)))]
            for n, card in picks:
                assignment.put(job, card)
                if n < -1:
                    heapq.heappush(free, (n + 1, card))
            if len(picks) < parts[job]:
                missing.append((job, parts[job] - len(picks)))
    for job, n in sorted(missing, key=lambda pair: -sizes[pair[0]]):
        assignment.find_room(job, n)
    return assignment


class _Assignment:
    def __init__(self, cards: Sequence[int], sizes: Sequence[int]) -> None:
        self.jobs: list[list[int]] = [[] for _ in cards]
        self.unplaced = 0  # the size of all jobs that are left out
        self._rooms = list(cards)
        self._sizes = sizes

    @property
    def cost(self) -> tuple[int, int]:
        """What a better assignment has less of."""
        return self.unplaced, sum(map(bool, self.jobs))

    def with_room(self, size: int) -> Iterator[int]:
        """Yield the cards that have room."""
        return (card for card, room in enumerate(self._rooms) if room >= size)

    def put(self, job: int, card: int) -> None:
        self.jobs[card].append(job)
        self._rooms[card] -= self._sizes[job]

    def find_room(self, job: int, parts: int) -> None:
        """Put the missing parts onto the fullest cards that have room, or remove the others."""
        size = self._sizes[job]
        free = [card for card in self.with_room(size) if job not in self.jobs[card]]
        if len(free) >= parts:
            for card in sorted(free, key=lambda card: (not self.jobs[card], self._rooms[card]))[:parts]:
                self.put(job, card)
            return
        self.unplaced += size * parts
        for card, jobs in enumerate(self.jobs):
            if job in jobs:
                jobs.remove(job)
                self._rooms[card] += size
                self.unplaced += size


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
    most = max(card.leasable for card in cards)
    room_of = [min(card.memory, card.leasable + card.context) // unit for card in cards]
    order = sorted(range(len(cards)), key=lambda card: -room_of[card])
    rooms = [room_of[card] for card in order]
    fitting = [
        job for job, limit in enumerate(limits) if limit <= most and sizes[job] <= rooms[0] and parts[job] <= len(rooms)
    ]
    packing = Search([sizes[job] for job in fitting for _ in range(parts[job])], rooms, progress=progress)
    assigned = assign(packing.best, rooms, [sizes[job] for job in fitting], [parts[job] for job in fitting])
    placed: list[list[int]] = [[] for _ in rooms]
    for card, held in zip(order, assigned, strict=True):
        placed[card] = [fitting[job] for job in held]
    return Packed(placed, packing.bound, packing.first)
