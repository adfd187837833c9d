"""Calls with recorded results of TensorFlow: recorded.json, which the comparison with TensorFlow writes (make
oracle).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from oracle import record
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
