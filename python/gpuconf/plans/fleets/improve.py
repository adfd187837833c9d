# SPDX-License-Identifier: Apache-2.0
"""Pack a few cards again, at random, so that one of them gets emptier, until it is empty."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from .fill import best_fill
from .packing import Packing

_CARDS = 12  # that are packed again at a time, at most
_MOST_IN_VAIN = 1000  # steps


def improve(packing: Packing, cards: Sequence[int], bound: int, deadline: float, chance: random.Random) -> Packing:
    """Return a packing with as few cards as can be found before the deadline (of ``time.monotonic``)."""
    in_vain = 0
    while packing.cost > (0, bound) and in_vain < _MOST_IN_VAIN and time.monotonic() < deadline:
        now = _step(packing, cards, chance)
        packing, in_vain = now, in_vain + 1 if now is packing else 0
    return packing


def _step(packing: Packing, cards: Sequence[int], chance: random.Random) -> Packing:
    n = packing.used
    rooms = list(cards[:n])
    count = min(n, chance.randint(2, _CARDS))
    # The emptiest, and others.
    chosen = (
        {n - 1, *chance.sample(range(n), count - 1)} if not packing.unplaced else set(chance.sample(range(n), count))
    )
    few = sorted(chosen)
    sizes = [size for card in few for size in packing.contents[card]] + packing.unplaced
    again = best_fill(sizes, [rooms[card] for card in few], chance)
    before = [sum(packing.contents[card]) for card in few]
    after = [sum(content) for content in again.contents]
    if (sum(again.unplaced), -sum(x * x for x in after)) >= (sum(packing.unplaced), -sum(x * x for x in before)):
        return packing
    kept = [content for card, content in enumerate(packing.contents) if card not in chosen]
    return Packing(kept + again.contents, again.unplaced)
