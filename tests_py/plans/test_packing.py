"""How `gpuconf plan --fleet` packs jobs onto cards."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import fleet_problems
import pytest
from gpuconf.plans.fleets import phases
from gpuconf.plans.fleets.lease_packing import _by_jobs, assign
from gpuconf.plans.fleets.pack import Search
from gpuconf.plans.fleets.packing import Packing, best_fill, first_fit, improve, lower_bound
from gpuconf.plans.fleets.patterns import Patterns
from gpuconf.plans.fleets.recorded_jobs import Need
from hypothesis import given, settings
from hypothesis import strategies as st

CLASSES: dict[str, Callable[[random.Random], fleet_problems.Problem]] = {
    "ten each": lambda chance: fleet_problems.ten_each(chance, 40),
    "uniform": lambda chance: fleet_problems.uniform(chance, 60, 150),
    "triplets": lambda chance: fleet_problems.triplets(chance, 60, 1000),
    "hard": lambda chance: fleet_problems.hard(chance, 60, 1000),
    "mixed": lambda chance: fleet_problems.mixed(chance, 60),
}


def check(packing: Packing, sizes: list[int], cards: list[int]) -> None:
    """Every size is on a card or left out, and no card holds more than it can."""
    placed = [size for content in packing.contents for size in content]
    assert Counter(placed) + Counter(packing.unplaced) == Counter(sizes)
    assert all(sum(content) <= card for content, card in zip(packing.contents, cards, strict=False))
    assert len(packing.contents) <= len(cards)


def fewest(sizes: list[int], cards: list[int]) -> int | None:
    """Return the best number of cards, by trying all packings; None if the sizes do not fit."""
    ordered = sorted(sizes, reverse=True)

    @cache
    def fits(number: int, rooms: tuple[int, ...]) -> bool:
        if number == len(ordered):
            return True
        size = ordered[number]
        return any(
            room >= size and fits(number + 1, tuple(sorted((*rooms[:i], room - size, *rooms[i + 1 :]))))
            for i, room in enumerate(rooms)
        )

    return next((n for n in range(len(cards) + 1) if fits(0, tuple(sorted(cards[:n])))), None)


problems = st.tuples(
    st.lists(st.integers(1, 20), min_size=1, max_size=8),
    st.lists(st.sampled_from([20, 15, 12]), min_size=1, max_size=5).map(
        lambda cards: sorted([20, *cards], reverse=True)
    ),
)


@settings(max_examples=150, deadline=None)
@given(problems, st.integers(0, 1000))
def test_every_packing_is_one_and_no_bound_is_too_high(problem: tuple[list[int], list[int]], seed: int) -> None:
    sizes, cards = problem
    best = fewest(sizes, cards)
    bound = lower_bound(sizes, cards)
    if best is not None:
        assert bound <= best
    else:  # the bound counts more of the largest cards
        assert bound <= (fewest(sizes, cards[:1] * (len(cards) + len(sizes) - len(cards)) + cards) or 0) + len(cards)
    for packing in (first_fit(sizes, cards), best_fill(sizes, cards, random.Random(seed))):
        check(packing, sizes, cards)
        better = improve(packing, cards, bound, float("inf"), random.Random(seed)) if len(sizes) < 4 else packing
        check(better, sizes, cards)
        assert better.cost <= packing.cost


@settings(max_examples=40, deadline=None)
@given(problems)
def test_small_problems_are_solved(problem: tuple[list[int], list[int]]) -> None:
    sizes, cards = problem
    best = fewest(sizes, cards)
    found = Search(sizes, cards, seconds=20)
    check(found.best, sizes, cards)
    if best is not None:
        assert (found.best.used, found.bound, found.best.unplaced) == (best, best, [])
    else:
        assert found.best.unplaced


@settings(max_examples=40, deadline=None)
@given(problems)
def test_the_bound_of_the_linear_program_is_never_too_high(problem: tuple[list[int], list[int]]) -> None:
    sizes, cards = problem
    patterns = Patterns(sizes, cards)
    patterns.add(first_fit(sizes, cards).contents)
    bound = patterns.generate(float("inf"))
    best = fewest(sizes, cards)
    if best is not None:
        assert bound <= best
    check(patterns.packing(0), sizes, cards)


@pytest.mark.parametrize("name", CLASSES)
def test_known_problems(name: str) -> None:
    """The benchmark has the large ones, and enough time for them."""
    problem = CLASSES[name](random.Random(2))
    assert sum(problem.sizes) == sum(problem.cards)
    found = Search(problem.sizes, problem.more, seconds=1.2)
    check(found.best, problem.sizes, problem.more)
    assert found.bound == len(problem.cards)
    assert not found.best.unplaced
    assert found.best.used <= len(problem.cards) * 1.1, "first-fit decreasing uses up to 17% more"
    assert found.best.used <= found.first.used


def test_grouped_sizes_keep_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more sizes than groups, the prices hold for sizes between the groups."""
    from gpuconf.plans.fleets import patterns as module

    monkeypatch.setattr(module, "_MOST_SIZES", 20)
    monkeypatch.setattr(module, "_GROUPS", 20)
    problem = fleet_problems.hard(random.Random(3), 60)
    patterns = Patterns(problem.sizes, problem.more)
    patterns.add(first_fit(problem.sizes, problem.more).contents)
    assert 50 <= patterns.generate(float("inf")) <= 60
    check(patterns.packing(0), problem.sizes, problem.more)


def test_without_or_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.linear_solver", None)
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    for name in ("patterns", "exact"):
        monkeypatch.delitem(sys.modules, f"gpuconf.plans.fleets.{name}", raising=False)
    problem = fleet_problems.triplets(random.Random(2), 60)
    steps: list[Any] = []
    found = Search(problem.sizes, problem.more, 0.5, steps.append)
    check(found.best, problem.sizes, problem.more)
    assert found.best.used < found.first.used
    assert steps == ["filling cards", "improving the packing", "improving the packing"]


def test_the_parts_of_a_job_are_on_different_cards() -> None:
    """First-fit decreasing puts equal sizes next to each other."""
    cards = [10] * 6
    sizes, parts = [5, 5, 3, 2], [2, 1, 2, 3]
    packing = first_fit([size for size, n in zip(sizes, parts, strict=True) for _ in range(n)], cards)
    found = assign(packing, cards, sizes, parts)
    for job, n in enumerate(parts):
        assert sum(job in jobs for jobs in found) == n
    assert all(len(jobs) == len(set(jobs)) and sum(sizes[job] for job in jobs) <= 10 for jobs in found)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10), st.integers(1, 4)), min_size=1, max_size=12), st.integers(4, 8))
def test_jobs_of_several_cards(jobs: list[tuple[int, int]], n: int) -> None:
    cards = [10] * n
    sizes, parts = [size for size, _ in jobs], [count for _, count in jobs]
    packing = first_fit([size for size, count in jobs for _ in range(count)], cards)
    found = assign(packing, cards, sizes, parts)
    placed = Counter(job for on_card in found for job in on_card)
    assert all(placed[job] in (0, count) for job, count in enumerate(parts))
    assert all(len(on_card) == len(set(on_card)) and sum(sizes[job] for job in on_card) <= 10 for on_card in found)
    if sum(size * count for size, count in jobs) * 3 <= 10 * n:
        assert len(placed) == len(jobs), "there is room enough"


def test_what_a_job_needs_over_time_is_rounded_up() -> None:
    """Rounded down, two jobs of a byte more than half a card each would share it."""
    need = Need(1, 10_000, "pytorch", "", ((1.0, 1001), (2.0, 999)))
    first, last = phases.curves([need], 0, 1000)[0][:: phases.SLOTS - 1]
    assert (first, last) == (2, 1)
    assert phases.curves([need], 1, 1000)[0][-1] == 1
    assert phases.curves([need], 2, 1000)[0][-1] == 2


def test_all_parts_of_a_job_that_is_left_out_count() -> None:
    """Else leaving out a job of four parts would look as good as leaving out one of one part."""
    found = _by_jobs([10, 10], [6, 6], [2, 4], [0, 1])
    assert found.cost == (24, 2)
    assert found.jobs == [[0], [0]]
