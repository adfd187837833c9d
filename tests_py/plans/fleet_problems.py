"""Packing problems whose best number of cards is known.

The classes are those of the bin packing library BPPLIB, made anew: each card is cut into pieces, so that all cards
together are the best packing. Nothing is left over, which makes these problems the hard ones.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import NamedTuple

MIB_80GB = 80 << 10  # a card of 80 GiB, in MiB


class Problem(NamedTuple):
    sizes: list[int]
    cards: list[int]  # the best packing; a packing may use more of the last ones
    more: list[int]


def _problem(chance: random.Random, cards: list[int], cut: Callable[[int], list[int]]) -> Problem:
    sizes = [size for card in cards for size in cut(card)]
    chance.shuffle(sizes)
    return Problem(sizes, cards, cards + cards[-1:] * (len(cards) // 2 + 1))


def ten_each(chance: random.Random, n: int, card: int = MIB_80GB) -> Problem:
    """Ten pieces a card, cut anywhere."""

    def cut(card: int) -> list[int]:
        cuts = [0, *sorted(chance.sample(range(1, card), 9)), card]
        return [b - a for a, b in itertools.pairwise(cuts)]

    return _problem(chance, [card] * n, cut)


def uniform(chance: random.Random, n: int, card: int = MIB_80GB) -> Problem:
    """Falkenauer's uniform class: sizes of 20 to 100 of 150."""
    return _problem(chance, [card] * n, lambda card: _between(chance, card, card * 20 // 150, card * 100 // 150))


def triplets(chance: random.Random, n: int, card: int = MIB_80GB) -> Problem:
    """Falkenauer's triplets: one size of 38% to 49% and two of at least 25% fill a card."""

    def cut(card: int) -> list[int]:
        first = chance.randint(card * 38 // 100, card * 49 // 100)
        second = chance.randint(card // 4, (card - first) // 2)
        return [first, second, card - first - second]

    return _problem(chance, [card] * n, cut)


def hard(chance: random.Random, n: int, card: int = 100_000) -> Problem:
    """Scholl's hard class: sizes of 20% to 35%, so that three to five share a card."""
    return _problem(chance, [card] * n, lambda card: _between(chance, card, card * 20 // 100, card * 35 // 100))


def mixed(chance: random.Random, n: int) -> Problem:
    """Cards of three sizes, in three to ten pieces each."""

    def cut(card: int) -> list[int]:
        cuts = [0, *sorted(chance.sample(range(1, card), chance.choice([2, 3, 4, 5, 9]))), card]
        return [b - a for a, b in itertools.pairwise(cuts)]

    kinds = (MIB_80GB, MIB_80GB // 2, 24 << 10)
    return _problem(chance, [kind for kind in kinds for _ in range(n // 3)], cut)


def _between(chance: random.Random, card: int, low: int, high: int) -> list[int]:
    """Cut a card into sizes from low to high."""
    while True:
        pieces: list[int] = []
        rest = card
        while rest > high or (rest and not pieces) or (rest >= 2 * low and chance.random() < 0.5):
            if rest < 2 * low:
                break
            pieces.append(chance.randint(low, min(high, rest - low)))
            rest -= pieces[-1]
        if low <= rest <= high:
            return [*pieces, rest]
