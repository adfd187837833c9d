# SPDX-License-Identifier: Apache-2.0
"""Decide small problems exactly, by CP-SAT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ortools.sat.python import cp_model

from ..._typing import Any
from .cpsat import solve
from .packing import Packing

_MOST_VARIABLES = 3000


def is_small(sizes: Sequence[int], used: int) -> bool:
    """Return whether a problem is small enough."""
    return len(set(sizes)) * used <= _MOST_VARIABLES


def fits(sizes: Sequence[int], cards: Sequence[int], seconds: float) -> Packing | None:
    """Return a packing onto these cards, which leaves all out if there is none, or None if the time was too short to
    know.
    """
    model = cp_model.CpModel()
    counts = Counter(sizes)
    rows: list[dict[int, Any]] = []  # for each card, how many of each size
    loads: list[Any] = []
    for card, capacity in enumerate(cards):
        rows.append({size: model.new_int_var(0, min(n, capacity // size), "") for size, n in counts.items()})
        loads.append(sum(size * n for size, n in rows[-1].items()))
        model.add(loads[-1] <= capacity)
        if card and cards[card - 1] == capacity:  # equal cards are interchangeable
            model.add(loads[-2] >= loads[-1])
    for size, n in counts.items():
        model.add(sum(row[size] for row in rows) == n)
    solver = solve(model, seconds)
    if not solver:
        return Packing([], sizes) if solver is False else None
    return Packing([[size for size, n in row.items() for _ in range(solver.value(n))] for row in rows])
