"""Sessions, graphs and errors behave as TensorFlow's did when ``make oracle`` recorded it.

Entering a session twice was accepted, ``Session(37)`` too, leaving ``as_default()`` out of order was a RuntimeError,
and ``list_devices``, ``make_callable``, feeds, ``control_dependencies``, names as bytes and most of ``tf.errors`` were
missing.
"""

from __future__ import annotations

import json

import gpuconf.compat.v1
import pytest
from oracle import machine, sessions
from oracle.outcomes import Outcome

RECORDED = json.loads(sessions.FILE.read_text())["stories"]


@pytest.mark.parametrize("name", sessions.STORIES)
def test_a_story_goes_as_with_tensorflow(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The environment also selects the machine; it is restored afterwards.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    gpus, lines = sessions.STORIES[name]
    assert [line for line, *_ in RECORDED[name]] == list(lines), (
        "the stories have changed: make oracle records TensorFlow's answers"
    )
    machine.Gpuconf().fresh(gpus)
    told = sessions.play(gpuconf.compat.v1, gpuconf.compat.v2, lines)
    different = [
        f"{line}\n  TensorFlow: {Outcome(value, tuple(error), message)}\n  gpuconf:    {ours}"
        for (line, value, error, message), ours in zip(RECORDED[name], told, strict=True)
        if not sessions.alike(line, Outcome(value, tuple(error), message), ours)
    ]
    assert different == []


def test_a_planted_difference_is_seen() -> None:
    """The comparison distinguishes values, classes and texts."""
    value, error = Outcome("1"), Outcome(None, ("RuntimeError",), "too late")
    assert not sessions.alike("f()", value, Outcome("2"))
    assert not sessions.alike("f()", value, error)
    assert not sessions.alike("f()", error, Outcome(None, ("ValueError",), "too late"))
    assert not sessions.alike("f()", error, Outcome(None, ("RuntimeError",), "too early"))
    assert not sessions.alike("~f()", error, Outcome(None, ("ValueError",), "too early"))
    assert not sessions.alike("f()", Outcome(None, ("TypeError",), "a"), Outcome(None, ("TypeError",), "b"))
    assert sessions.alike("~f()", error, Outcome(None, ("RuntimeError",), "too early"))
    assert sessions.alike("f()", error, Outcome(None, ("RuntimeError", "FailedPreconditionError"), "too late: wait"))
