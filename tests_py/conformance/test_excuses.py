"""Excuses explain the listed differences and hide no defect.

Earlier versions of "list-changed-later" and "look-alike" excused any later difference in a sequence: a wrong value, an
InternalError. TensorFlow's results are recorded; gpuconf's are computed now, or are planted defects.
"""

from __future__ import annotations

import pytest
from oracle import excuses, planted
from oracle.machine import Gpuconf
from oracle.outcomes import agree

RECORDED = planted.load()
REAL = [one for one in RECORDED if one.case.planted is None]
DEFECTS = [one for one in RECORDED if one.case.planted is not None]


def name(recorded: planted.Recorded) -> str:
    """A name for a case that shows its last call."""
    return f"{recorded.case.near}: {recorded.case.calls[-1]}"


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Gpuconf:
    """The side of gpuconf. The environment selects its machines; it is restored afterwards."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    return Gpuconf()


@pytest.mark.parametrize("recorded", REAL, ids=name)
def test_an_excuse_explains_what_its_row_describes(ours: Gpuconf, recorded: planted.Recorded) -> None:
    answer = planted.answer(ours, recorded.case)
    assert not agree(recorded.theirs, answer), "there is no difference to explain"
    assert excuses.find(recorded.found(answer)) == recorded.case.near


@pytest.mark.parametrize("recorded", REAL, ids=name)
def test_no_excuse_explains_a_defect_in_its_place(ours: Gpuconf, recorded: planted.Recorded) -> None:
    for defect in planted.defects(planted.answer(ours, recorded.case)):
        assert excuses.find(recorded.found(defect)) is None, defect


@pytest.mark.parametrize("recorded", DEFECTS, ids=name)
def test_no_excuse_explains_a_planted_defect(recorded: planted.Recorded) -> None:
    assert recorded.case.planted is not None
    assert not agree(recorded.theirs, recorded.case.planted), "there is no difference to explain"
    assert excuses.find(recorded.found(recorded.case.planted)) is None


def test_every_excuse_is_tried_with_a_difference_and_a_defect() -> None:
    assert {one.case.near for one in REAL} == set(excuses.names())
    assert {one.case.near for one in DEFECTS} == set(excuses.names())
