# SPDX-License-Identifier: Apache-2.0
"""Find a packing with few cards, and how far it can be from the best one."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from .packing import Packing, best_fill, first_fit, improve, lower_bound, place

SECONDS = 40.0  # for one problem, unless it is solved earlier
_FILL = 0.25  # of that time, at most, to fill all cards
_EXACT = 0.25  # to decide a small problem
_SOON = 0.2  # for improvements without a linear program, which is for what they leave
_PATTERNS = 0.4  # for the linear program
_NEAR = 1.005  # the linear program cannot do much for a packing with so few cards


class Search:
    """Sizes packed onto as few cards as can be found: the best packing and the best lower bound.

    ``cards`` are the capacities, the largest first; each size fits onto the first. ``first`` is the packing of
    first-fit decreasing alone.

    With OR-tools, the result is nearly always within 1% of the best one. Without it, first-fit decreasing is improved
    as far as that goes.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        cards: Sequence[int],
        seconds: float = SECONDS,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._sizes, self._cards, self._progress = sizes, cards, progress
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._chance = random.Random(0)  # the same problem has the same result, as far as the time suffices
        self.first: Packing = first_fit(sizes, cards)
        self.best: Packing = self.first
        self.bound: int = lower_bound(sizes, cards) if sizes else 0
        for step in (self._fill, self._exact, lambda: self._improve(_SOON), self._patterns, lambda: self._improve(1)):
            if not self.solved:
                step()

    @property
    def solved(self) -> bool:
        """Whether no packing can be better."""
        return self.best.cost == (0, self.bound)

    def _found(self, packing: Packing) -> None:
        self.best = min(self.best, packing, key=lambda p: p.cost)

    def _fill(self) -> None:
        self._progress("filling cards")
        filled = best_fill(self._sizes, self._cards, self._chance, self._until(_FILL))
        self._found(_completed(filled, self._cards))

    def _until(self, part: float) -> float:
        """Return the end of a step that may take a part of the time."""
        return min(time.monotonic() + part * self._seconds, self._deadline)

    def _patterns(self) -> None:
        if self.best.cost <= (0, int(self.bound * _NEAR)):
            return
        try:
            from .patterns import Patterns
        except ImportError:
            return
        self._progress("solving the linear program")
        patterns = Patterns(self._sizes, self._cards)
        for packing in (self.first, self.best):
            patterns.add(packing.contents)
        self.bound = max(self.bound, patterns.generate(self._until(_PATTERNS)))
        self._progress("choosing patterns")
        self._found(_completed(patterns.packing(self._deadline), self._cards))

    def _exact(self) -> None:
        """Try all cards if sizes are left out, and then one card less each time, if the problem is small enough to
        decide.
        """
        try:
            from .patterns import fits, is_small
        except ImportError:
            return
        end = self._until(_EXACT)
        self._progress("looking for a better packing")
        while not self.solved and is_small(self._sizes, self.best.used):
            missing = bool(self.best.unplaced)
            packing = fits(
                self._sizes, self._cards if missing else self._cards[: self.best.used - 1], end - time.monotonic()
            )
            if packing is None or (missing and packing.unplaced):
                return
            if packing.unplaced:
                self.bound = self.best.used
            self._found(packing)

    def _improve(self, part: float) -> None:
        self._progress("improving the packing")
        self._found(improve(self.best, self._cards, self.bound, self._until(part), self._chance))


def _completed(packing: Packing, cards: Sequence[int]) -> Packing:
    """Put what is left out into the room that is left."""
    contents = packing.contents + [[] for _ in cards[packing.used :]]
    added, unplaced = place(
        packing.unplaced, [capacity - sum(content) for capacity, content in zip(cards, contents, strict=True)]
    )
    return Packing([content + more for content, more in zip(contents, added, strict=True)], unplaced)
