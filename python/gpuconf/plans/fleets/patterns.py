# SPDX-License-Identifier: Apache-2.0
"""Column generation: which mixes of sizes fill cards best, by OR-tools' linear solver, and how often to use each, by
CP-SAT.

Sizes are rounded up to a coarser unit, and then to the largest of their group, so that a problem of any size has few
rows. A pattern is what may share a card: how many of each group. The linear program covers all groups with as few cards
as possible. From its prices of the groups, a knapsack finds better patterns, until there are no more. What remains is
to use each pattern a whole number of times: as often as the program says, rounded down, and CP-SAT chooses the rest.

The last prices are weights for the lower bound: a size has the price of the largest rounded size that it reaches.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from ortools.linear_solver import pywraplp
from ortools.sat.python import cp_model

from ..._typing import Any
from .packing import Packing, cards_for


def solve(model: Any, seconds: float) -> Any:
    """Return the solver with the best solution that it found in this time, or None without one.

    False if there is none.
    """
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(seconds, 0.1)
    solver.parameters.catch_sigint_signal = False  # it would end the search only, and the program would go on
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(solver.solve, model)
        try:
            status = answer.result()
        except BaseException:  # Ctrl-C, which no handler sees while the solver has this thread
            solver.stop_search()
            raise
    if status == cp_model.INFEASIBLE:
        return False
    return solver if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None


# Decide small problems exactly, by CP-SAT.

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


Pattern = tuple[tuple[int, int], ...]  # (group, how many)

_MOST_SIZES = 400  # that are not grouped
_GROUPS = 200  # otherwise: more take longer than they gain
_MOST_UNITS = 4096  # in the largest card
_SMALL = 64  # a size below this fraction of the largest card is left out: it goes where there is room
_COLUMNS_A_STEP = 40
_PRICES = 1 << 24  # prices are whole numbers for the bound, so that it is exact
_UNPLACED = 10  # the cost of leaving out a size as large as the largest card, in cards
_CHOOSING = 5.0  # seconds


class Patterns:
    """A linear program of patterns for one problem."""

    def __init__(self, sizes: Sequence[int], cards: Sequence[int]) -> None:
        self._sizes, self._cards = sizes, cards
        self._kinds = Counter(cards)  # in the order of the cards, the largest first
        self._unit = -(-cards[0] // _MOST_UNITS)
        self._make_groups([size for size in sizes if size * _SMALL > cards[0]])
        self._patterns: dict[tuple[int, Pattern], Any] = {}  # of a kind of card: its variable
        self._amounts: list[float] = []  # of each pattern, in the last solution
        if self._rounded:
            self._make_program()

    def _make_groups(self, sizes: list[int]) -> None:
        units = sorted(-(-size // self._unit) for size in sizes)
        ends = sorted(set(units))
        if len(ends) > _MOST_SIZES:
            ends = sorted({units[(i + 1) * len(units) // _GROUPS - 1] for i in range(_GROUPS)})
        self._rounded = ends  # the size of each group
        self._members: list[list[int]] = [[] for _ in ends]
        for size in sorted(sizes):
            self._members[bisect_left(ends, -(-size // self._unit))].append(size)

    def _make_program(self) -> None:
        self._program = program = pywraplp.Solver.CreateSolver("GLOP")
        infinity = program.infinity()
        self._rows = [program.Constraint(len(members), infinity) for members in self._members]
        self._limits = [program.Constraint(-infinity, count) for count in self._kinds.values()]
        for row, size in zip(self._rows, self._rounded, strict=True):
            left_out = program.NumVar(0, infinity, "")
            row.SetCoefficient(left_out, 1)
            program.Objective().SetCoefficient(left_out, 1 + _UNPLACED * size * self._unit / self._cards[0])
        program.Objective().SetMinimization()

    def add(self, contents: Iterable[Sequence[int]]) -> None:
        """Add the patterns of a packing, as far as they still fit when rounded."""
        for content in contents:
            groups = Counter(self._group(size) for size in content if size * _SMALL > self._cards[0])
            used = sum(self._rounded[group] * n for group, n in groups.items())
            for kind, capacity in enumerate(self._kinds):
                if groups and used <= capacity // self._unit:
                    self._add(kind, tuple(sorted(groups.items())))

    def _group(self, size: int) -> int:
        return bisect_left(self._rounded, -(-size // self._unit))

    def _add(self, kind: int, pattern: Pattern) -> bool:
        if (kind, pattern) in self._patterns:
            return False
        column = self._patterns[kind, pattern] = self._program.NumVar(0, self._program.infinity(), "")
        self._program.Objective().SetCoefficient(column, 1)
        self._limits[kind].SetCoefficient(column, 1)
        for group, n in pattern:
            self._rows[group].SetCoefficient(column, n)
        return True

    def generate(self, deadline: float) -> int:
        """Add patterns until none helps, or the time (of ``time.monotonic``) is over. Returns a lower bound."""
        bound = 0
        while self._rounded and time.monotonic() < deadline:
            self._program.Solve()
            prices = np.array([max(row.dual_value(), 0.0) for row in self._rows])
            costs = [1 - limit.dual_value() for limit in self._limits]
            self._amounts = [column.solution_value() for column in self._patterns.values()]
            bound = max(bound, self._bound(prices))
            worth, last = _knapsack(self._rounded, prices, self._cards[0] // self._unit)
            if not sum(self._improve(kind, cost, prices, worth, last) for kind, cost in enumerate(costs)):
                break
        return bound

    def _improve(self, kind: int, cost: float, prices: Any, worth: Any, last: Any) -> int:
        """Add the patterns that cost less than they are worth, for each group the best one that contains it."""
        room = list(self._kinds)[kind] // self._unit
        fitting = bisect_right(self._rounded, room)
        rests = room - np.array(self._rounded[:fitting], dtype=np.int64)
        values = prices[:fitting] + worth[rests]
        added = 0
        for group in np.argsort(-values):
            if values[group] <= cost + 1e-7 or added == _COLUMNS_A_STEP:
                break
            pattern = Counter({int(group): 1}) + _chosen(self._rounded, last, int(rests[group]))
            added += self._add(kind, tuple(sorted(pattern.items())))
        return added

    def _bound(self, prices: Any) -> int:
        """Return the lower bound of some prices, which need not be the best ones."""
        whole = np.floor(prices * _PRICES).astype(np.int64)
        worth, _ = _knapsack(self._rounded, whole, self._cards[0] // self._unit)
        reached = [bisect_right(self._rounded, size // self._unit) for size in self._sizes]
        weight = sum(int(whole[:n].max()) for n in reached if n)
        return cards_for(weight, self._cards, lambda capacity: int(worth[capacity // self._unit]))

    def packing(self, deadline: float) -> Packing:
        """Return a packing of the patterns that the last program uses. Small sizes are left out of it."""
        demand = [len(members) for members in self._members]
        amounts = dict(zip(self._patterns, self._amounts, strict=False))  # the latest patterns may not have one
        whole = {key: int(amount + 1e-6) for key, amount in amounts.items()}
        for (_, pattern), n in whole.items():
            for group, count in pattern:
                demand[group] -= n * count
        chosen = [pattern for (_, pattern), n in whole.items() for _ in range(n)]
        rest = {key: amounts[key] - n for key, n in whole.items()}
        available = [
            count - sum(n for (k, _), n in whole.items() if k == kind)
            for kind, count in enumerate(self._kinds.values())
        ]
        chosen += _choose(demand, rest, available, min(deadline - time.monotonic(), _CHOOSING))
        return self._filled(chosen)

    def _filled(self, patterns: list[Pattern]) -> Packing:
        """Put sizes in the places of the patterns."""
        left = [list(members) for members in self._members]
        contents = [
            [left[group].pop() for group, n in pattern for _ in range(min(n, len(left[group])))] for pattern in patterns
        ]
        return Packing(contents, [size for members in left for size in members])


def _choose(
    demand: list[int], amounts: dict[tuple[int, Pattern], float], available: list[int], seconds: float
) -> list[Pattern]:
    """Choose patterns that cover a demand, near the amounts of the linear program."""
    model = cp_model.CpModel()
    covers: list[list[Any]] = [[] for _ in demand]
    kinds: list[list[Any]] = [[] for _ in available]
    counts = {}
    for (kind, pattern), amount in amounts.items():
        most = max((-(-demand[group] // count) for group, count in pattern if demand[group] > 0), default=0)
        if most > 0:
            variable = counts[kind, pattern] = model.new_int_var(0, most, "")
            model.add_hint(variable, round(amount))
            kinds[kind].append(variable)
            for group, count in pattern:
                covers[group].append(count * variable)
    left_out = []
    for cover, needed in zip(covers, demand, strict=True):
        if needed > 0:
            left_out.append(model.new_int_var(0, needed, ""))
            model.add(sum(cover) + left_out[-1] >= needed)
    for variables, most in zip(kinds, available, strict=True):
        model.add(sum(variables) <= most)
    model.minimize(sum(counts.values()) + _UNPLACED * sum(left_out))
    solver = solve(model, max(seconds, 1.0))
    if not solver:
        return []
    return [pattern for (_, pattern), variable in counts.items() for _ in range(solver.value(variable))]


def _knapsack(sizes: Sequence[int], values: Any, room: int) -> tuple[Any, Any]:
    """Return, for each room up to the given one, the most value that fits, and the group that was put in last (-1:
    none).

    As no size is smaller than the first, that many rooms can be computed at a time: they depend on smaller ones only.
    """
    column = np.array(sizes)[:, None]
    worth = np.zeros(room + 1, dtype=values.dtype)
    last = np.full(room + 1, -1)
    for low in range(sizes[0], room + 1, sizes[0]):
        high = min(low + sizes[0], room + 1)
        fitting = bisect_right(sizes, high - 1)
        rests = np.arange(low, high) - column[:fitting]
        totals = np.where(rests >= 0, worth[rests] + values[:fitting, None], -1)
        best = totals.argmax(axis=0)
        found = totals[best, np.arange(high - low)]
        most = np.maximum(np.maximum.accumulate(found), worth[low - 1])
        worth[low:high] = most
        last[low:high] = np.where(most > found, -1, best)
    return worth, last


def _chosen(sizes: Sequence[int], last: Any, room: int) -> Counter[int]:
    """Return what a knapsack contains."""
    content: Counter[int] = Counter()
    while room >= sizes[0]:
        group = int(last[room])
        if group < 0:
            room -= 1
        else:
            content[group] += 1
            room -= sizes[group]
    return content
