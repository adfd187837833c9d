# SPDX-License-Identifier: Apache-2.0
"""A packing: which sizes share a card; how to find a good one, and lower bounds, below which there is none."""

from __future__ import annotations

import math
import random
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence


class Packing:
    """The sizes on each card that is in use, the fullest first, and the sizes for which there was no room."""

    def __init__(self, contents: Sequence[list[int]], unplaced: Sequence[int] = ()) -> None:
        self.contents: list[list[int]] = sorted(filter(None, contents), key=sum, reverse=True)
        self.unplaced: list[int] = sorted(unplaced, reverse=True)

    @property
    def used(self) -> int:
        """The number of cards that are in use."""
        return len(self.contents)

    @property
    def cost(self) -> tuple[int, int]:
        """What a better packing has less of."""
        return sum(self.unplaced), self.used


# Lower bounds: no packing uses fewer cards.
#
# Each bound weighs the sizes so that what fits onto a card of some capacity never weighs more than that card can bear.
# Then the largest cards must bear the weight of all sizes together. Four families of weights need no solver:
#
# - the sizes themselves: the sum of all cannot be more than the cards' capacities
# - Martello and Toth's L2: a size near the largest card's counts as the whole card, and small sizes count nothing
# - two families of dual feasible functions, by Fekete and Schepers and by Carlier, Clautiaux and Moukrim
#
# They are superadditive: the weight of a sum is at least the sum of the weights. So a card bears the weight of its
# capacity. The prices of a linear program (patterns.py) are weights too, where a knapsack finds what a card bears.

_MOST_TRIES = 100  # of one family


def lower_bound(sizes: Iterable[int], cards: Sequence[int]) -> int:
    """Return the best of these bounds. ``cards`` are the capacities, the largest first."""
    counts = Counter(sizes)
    return max(cards_for(sum(f(size) * n for size, n in counts.items()), cards, f) for f in _families(counts, cards[0]))


def cards_for(weight: float, cards: Sequence[int], bears: Callable[[int], float]) -> int:
    """Return how many cards bear a weight. If all of them do not, more of the largest are added."""
    most = {capacity: bears(capacity) for capacity in set(cards)}
    for used, capacity in enumerate(cards):
        if weight <= 0:
            return used
        weight -= most[capacity]
    return len(cards) + max(int(-(-weight // most[cards[0]])), 0)


def _families(counts: Counter[int], largest: int) -> Iterator[Callable[[int], int]]:
    yield lambda size: size
    halves = sorted(size for size in counts if 2 * size <= largest)
    some = halves[:: -(-len(halves) // _MOST_TRIES)] if halves else []
    yield from (_martello_toth(largest, size) for size in some)
    yield from (_fekete_schepers(largest, k) for k in range(1, _MOST_TRIES + 1))
    yield from (_carlier(largest, size) for size in some)


def _martello_toth(largest: int, small: int) -> Callable[[int], int]:
    def weight(size: int) -> int:
        return largest if size > largest - small else 0 if size < small else size

    return weight


def _fekete_schepers(largest: int, k: int) -> Callable[[int], int]:
    def weight(size: int) -> int:
        parts, rest = divmod((k + 1) * size, largest)
        return parts * largest if rest else k * size

    return weight


def _carlier(largest: int, part: int) -> Callable[[int], int]:
    def weight(size: int) -> int:
        if 2 * size > largest:
            return 2 * (largest // part - (largest - size) // part)
        return largest // part if 2 * size == largest else 2 * (size // part)

    return weight


# First-fit decreasing: the largest size goes first, each onto the first card that has room.


def first_fit(sizes: Iterable[int], cards: Sequence[int]) -> Packing:
    """Pack sizes onto cards, given by their capacities."""
    return Packing(*place(sizes, cards))


def place(sizes: Iterable[int], rooms: Sequence[int]) -> tuple[list[list[int]], list[int]]:
    """Return what goes into each room, and the sizes for which there is none."""
    leaves = 1
    while leaves < len(rooms):
        leaves *= 2
    most = [0] * leaves + list(rooms) + [0] * (leaves - len(rooms))  # the most room: node n covers nodes 2n and 2n+1
    for node in range(leaves - 1, 0, -1):
        most[node] = max(most[2 * node], most[2 * node + 1])
    contents: list[list[int]] = [[] for _ in rooms]
    unplaced = []
    for size in sorted(sizes, reverse=True):
        if most[1] < size:
            unplaced.append(size)
            continue
        node = 1
        while node < leaves:
            node = 2 * node if most[2 * node] >= size else 2 * node + 1
        contents[node - leaves].append(size)
        most[node] -= size
        while node := node // 2:
            most[node] = max(most[2 * node], most[2 * node + 1])
    return contents, unplaced


# Fill one card after the other as full as possible: with the largest size, and then with what leaves the least room.
#
# The sums that are possible are the bits of one number, so one more size is a shift. Large problems have far more sizes
# than a search needs: it draws from all that fit, evenly. Where several sums are equally good, chance decides: always
# to prefer the large sizes would leave only small ones, or the other way round.

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


# Pack a few cards again, at random, so that one of them gets emptier, until it is empty.

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
