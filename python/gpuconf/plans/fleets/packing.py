# SPDX-License-Identifier: Apache-2.0
"""A packing: which sizes share a card.

A problem is a list of sizes and a list of cards, given by their capacities, the largest first. All are whole numbers of
one unit.

It is enough to count the cards that a packing uses: what is on a card may move to an unused card that is larger. So
some best packing uses the largest cards only, and a packing of n cards uses the first n: the fullest contents go onto
the largest
card.
"""

from __future__ import annotations

from collections.abc import Sequence


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
