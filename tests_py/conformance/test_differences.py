"""The list of deliberate differences: each has a reason and a test, and nothing else is
excused.
"""

from __future__ import annotations

from collections import Counter

import pytest
from oracle import differences, excuses, forked

ROWS = differences.load()


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_each_difference_has_a_reason_and_a_test(row: differences.Row) -> None:
    assert row.why
    assert row.test
    for test in row.test:
        assert (differences.ROOT / test).exists()


def test_names_are_unique() -> None:
    assert [name for name, times in Counter(row.id for row in ROWS).items() if times > 1] == []


def test_the_comparison_excuses_only_what_is_listed() -> None:
    assert {*excuses.names(), *forked.KNOWN} <= {row.id for row in ROWS}


def test_the_table_has_a_row_for_each_number() -> None:
    assert [row.number for row in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) > 50
