"""Classes whose objects only functions create: calling the class raises an error that names the functions.

``memory.Trace(5)`` and ``Plan(x, y)`` accepted anything, and failed later in a method; ``v1.Tensor()`` was a tensor of
no graph, and ``Simulation("H100", "")`` in a ``with`` statement simulated nothing.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gpuconf
import pytest
from gpuconf import memory
from gpuconf.compat import v1

CLASSES: dict[type[Any], str] = {
    memory.Buffer: "gpuconf.memory.allocate()",
    memory.Recording: "gpuconf.memory.record()",
    memory.Trace: "gpuconf.memory.record() or load_trace()",
    gpuconf.Plan: "gpuconf.plan()",
    gpuconf.Simulation: "gpuconf.simulate()",
    gpuconf.Tensor: "gpuconf.constant()",
    v1.Tensor: "gpuconf.compat.v1.constant()",
    v1.Operation: "gpuconf.compat.v1.constant()",
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
@pytest.mark.parametrize("arguments", [(), (5,), ("text", "text"), (None, {}, [])], ids=len)
def test_a_class_is_not_called(kind: type[Any], arguments: tuple[Any, ...]) -> None:
    for keywords in ({}, {"lost": 1}):
        with pytest.raises(TypeError) as caught:
            kind(*arguments, **keywords)
        assert isinstance(caught.value, gpuconf.errors.InvalidTypeError)
        assert str(caught.value).startswith(f"{kind.__name__} objects cannot be created directly: ")
        assert CLASSES[kind] in str(caught.value)


def test_copies_of_values_are_still_made(one_gpu: None) -> None:
    with memory.record() as recording:
        memory.allocate(1000).free()
    plan = gpuconf.plan(recording)
    for copied in (
        copy.copy(recording.trace),
        copy.deepcopy(recording.trace),
        pickle.loads(pickle.dumps(recording.trace)),
    ):
        assert copied.events == recording.events
    for copied in (copy.copy(plan), copy.deepcopy(plan), pickle.loads(pickle.dumps(plan))):
        assert copied.to_dict() == plan.to_dict()
        assert copied.timeline() == plan.timeline()


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
@pytest.mark.parametrize(
    "begin",
    [lambda: gpuconf.lease("1GiB"), lambda: gpuconf.simulate("T4"), lambda: memory.measure("GPU:0")],
    ids=["lease", "simulate", "measure"],
)
def test_what_a_block_ends_is_not_copied(begin: Any, way: Any, one_gpu: None) -> None:
    """Leaving or dropping a copy of an entered lease released the memory, and its own end raised an error."""
    with begin() as entered, pytest.raises(TypeError, match="cannot be copied or pickled"):
        way(entered)


def test_a_finished_measurement_is_a_value(one_gpu: None) -> None:
    with memory.measure() as measured:
        memory.allocate(1000).free()
    for copied in (copy.copy(measured), copy.deepcopy(measured), pickle.loads(pickle.dumps(measured))):
        assert copied.to_dict() == measured.to_dict()


def test_results_are_plain_tuples_with_names(one_gpu: None) -> None:
    """Named tuples can be constructed directly, as in tests of programs that use them."""
    stats = memory.stats()
    assert memory.MemoryStats(*stats) == memory.MemoryStats(**stats.to_dict()) == stats
