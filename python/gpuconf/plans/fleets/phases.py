# SPDX-License-Identifier: Apache-2.0
"""Pack jobs whose needs change over time: jobs with staggered peaks share a card.

All jobs start together. Time is divided into slots, and a job needs the most that it has in use during a slot. In each
slot, the needs of a card's jobs must not exceed its memory. Jobs are placed one after the other, by two orders and two
choices of
a card.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ..._core import extras
from ..._typing import Any
from .bounds import lower_bound
from .recorded_jobs import Need

SLOTS = 48


def curves(needs: Sequence[Need], reserve: int, unit: int) -> list[list[int]]:
    """Return what each job needs in each slot, in units, rounded up. A job that has ended needs nothing."""
    longest = max((need.curve[-1][0] for need in needs if need.curve), default=0.0) or 1.0
    rows = []
    for need in needs:
        slots = [0] * SLOTS
        began = 0.0
        for end, nbytes in need.curve or ((0.0, need.limit),):
            first, last = (min(int(time / longest * SLOTS), SLOTS - 1) for time in (began, end))
            units = -(-(min(nbytes, need.limit) + reserve) // unit)
            for slot in range(first, last + 1):
                slots[slot] = max(slots[slot], units)
            began = end
        rows.append(slots)
    return rows


def pack(needs: Sequence[Sequence[int]], parts: Sequence[int], cards: Sequence[int]) -> tuple[list[list[int]], int]:
    """Return the jobs on each card, and a lower bound. ``cards`` are the capacities, the largest first."""
    try:
        import numpy as np
    except ImportError as error:
        raise extras.missing("phases need", "NumPy", "fleet", error) from None
    wanted = np.array(needs, dtype=np.int64).reshape(len(needs), SLOTS)
    orders = (np.argsort(-wanted.max(axis=1), kind="stable"), np.argsort(-wanted.sum(axis=1), kind="stable"))
    found = [_placed(np, wanted, parts, cards, order, closest) for order, closest in product(orders, (False, True))]
    per_slot = ([int(size) for size, n in zip(slot, parts, strict=True) for _ in range(n) if size] for slot in wanted.T)
    bound = max((lower_bound(sizes, cards) for sizes in per_slot if sizes), default=0)
    placed = [sum(map(len, jobs)) for jobs in found]
    used = [sum(map(bool, jobs)) for jobs in found]
    return found[min(range(len(found)), key=lambda i: (-placed[i], used[i]))], bound


def _placed(
    np: Any, wanted: Any, parts: Sequence[int], cards: Sequence[int], order: Any, closest: bool
) -> list[list[int]]:
    """Place each job on the first card that has room or, of those in use, the one whose free memory over time is most
    like it.
    """
    rooms = np.repeat(np.array(cards, dtype=np.int64)[:, None], SLOTS, axis=1)
    contents: list[list[int]] = [[] for _ in cards]
    used = 0  # cards from here on are empty
    for job in order.tolist():
        seen = min(used + parts[job], len(cards))
        fitting = np.flatnonzero((rooms[:seen] >= wanted[job]).all(axis=1))
        if closest:
            likeness = (rooms[fitting] * wanted[job]).sum(axis=1) / np.linalg.norm(
                rooms[fitting].astype(float), axis=1
            ).clip(1)
            fitting = fitting[np.lexsort((-likeness, fitting >= used))]
        if len(fitting) < parts[job]:
            continue
        for card in fitting[: parts[job]].tolist():
            contents[card].append(job)
            rooms[card] -= wanted[job]
            used = max(used, card + 1)
    return contents
