# SPDX-License-Identifier: Apache-2.0
"""Fill one card after the other as full as possible: with the largest size, and then with what leaves the least room.

The sums that are possible are the bits of one number, so one more size is a shift. Large problems have far more sizes
than a search needs: it draws from all that fit, evenly. Where several sums are equally good, chance decides: always to
prefer the large sizes would leave only small ones, or the other way round.
"""

from __future__ import annotations

import math
import random
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

from .packing import Packing

_MOST_SIZES = 120  # that one search combines


def best_fill(sizes: Iterable[int], cards: Sequence[int], chance: random.Random, deadline: float = math.inf) -> Packing:
    """Pack sizes onto cards, given by their capacities, the largest first. After the deadline the rest is left out."""
    left = _Left(sizes)
    contents = []
    for room in cards:
        largest = left.fitting(room)
        if not largest or time.monotonic() > deadline:
            continue
        content = [left.take(left.order[largest - 1])]
        content += map(left.take, _fullest(left, room - content[0], chance))
        contents.append(content)
    return Packing(contents, list(left.counts.elements()))


class _Left:
    """The sizes that are left."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self.counts = Counter(sizes)
        self.order = sorted(self.counts)

    def fitting(self, room: int) -> int:
        """Return how many of the different sizes fit."""
        return bisect_right(self.order, room)

    def take(self, size: int) -> int:
        self.counts[size] -= 1
        if not self.counts[size]:
            del self.counts[size], self.order[bisect_left(self.order, size)]
        return size


def _fullest(left: _Left, room: int, chance: random.Random) -> list[int]:
    """Return sizes that leave the least room."""
    fitting = left.fitting(room)
    step, start = max(fitting / _MOST_SIZES, 1), chance.random()
    drawn = (left.order[int((i + start) * step)] for i in range(int(fitting / step)))
    items = [size for size in drawn for _ in range(min(left.counts[size], room // size))]
    chance.shuffle(items)
    mask = (2 << room) - 1
    reached = [1]  # after each item; bit n: a sum of n is possible
    for size in items:
        reached.append((reached[-1] | reached[-1] << size) & mask)
        if reached[-1] >> room:
            break
    target = reached[-1].bit_length() - 1
    content = []
    for i in range(len(reached) - 1, 0, -1):
        size = items[i - 1]
        if size <= target and reached[i - 1] >> (target - size) & 1:
            content.append(size)
            target -= size
    return content
