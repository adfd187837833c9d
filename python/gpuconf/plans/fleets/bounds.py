# SPDX-License-Identifier: Apache-2.0
"""Lower bounds: no packing uses fewer cards.

Each bound weighs the sizes so that what fits onto a card of some capacity never weighs more than that card can bear.
Then the largest cards must bear the weight of all sizes together. Four families of weights need no solver:

- the sizes themselves: the sum of all cannot be more than the cards' capacities
- Martello and Toth's L2: a size near the largest card's counts as the whole card, and small sizes count nothing
- two families of dual feasible functions, by Fekete and Schepers and by Carlier, Clautiaux and Moukrim

They are superadditive: the weight of a sum is at least the sum of the weights. So a card bears the weight of its
capacity. The prices of a linear program (patterns.py) are weights too, where a knapsack finds what a card bears.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

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
