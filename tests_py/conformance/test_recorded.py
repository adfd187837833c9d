"""Calls with recorded results of TensorFlow: recorded.json, which the comparison with TensorFlow writes (make oracle).

The cases that the comparison found: each was different once. The list of deliberate differences: each has a reason and
a test, and nothing else is excused.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import gpuconf as tf
import pytest
from oracle import differences, excuses, forked, record
from oracle.machine import Gpuconf
from oracle.outcomes import agree, outcome

RECORDED = json.loads(record.FILE.read_text())


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Gpuconf:
    """The side of gpuconf. The environment also selects its machines; it is restored afterwards."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    return Gpuconf()


@pytest.mark.parametrize("part", range(8))
def test_gpuconf_answers_as_tensorflow_did(ours: Gpuconf, part: int) -> None:
    for sequence in RECORDED["sequences"][part::8]:
        ours.fresh(sequence["gpus"])
        done: list[Any] = []
        for call, *answer in sequence["calls"]:
            done.append(call)
            theirs, our = record.outcome_of(answer), outcome(ours, call)
            told = "\n".join([f"{sequence['gpus']} GPUs", *done[-30:], f"TensorFlow: {theirs}", f"gpuconf:    {our}"])
            assert agree(theirs, our), told


def test_the_record_is_of_some_size() -> None:
    calls = [call for sequence in RECORDED["sequences"] for call in sequence["calls"]]
    assert len(calls) > 4000
    assert len([call for call in calls if len(call) == 3]) > 800
    assert RECORDED["tensorflow"] >= "2.21"


def test_numbers_of_other_libraries_are_numbers(two_gpus: None) -> None:
    class Number:
        def __index__(self) -> int:
            return 3

    tf.config.threading.set_intra_op_parallelism_threads(Number())  # type: ignore[arg-type]
    assert tf.config.threading.get_intra_op_parallelism_threads() == 3


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
