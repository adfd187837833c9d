"""The fixtures for simulated GPUs, memory and failing allocations."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

FIXTURES = """
def test_memory_before_a_reset(gpu_simulate, gpu_memory):
    gpu_simulate("T4")
    memory.allocate(5 * MIB).free()
    gpuconf.reset()
    memory.allocate(MIB).free()
    assert gpu_memory.peak == 5 * MIB # it was 1 MiB
def test_no_gpu_before(): assert gpuconf.config.list_physical_devices("GPU") == []
def test_sim(gpu_simulate):
    assert repr(gpu_simulate("2xH100-80GB")) == "gpuconf.simulate('2xH100-80GB')"
    gpuconf.config.set_logical_device_configuration(
        gpuconf.config.list_physical_devices("GPU")[0],
        [gpuconf.config.LogicalDeviceConfiguration(memory_limit=64)] * 3)
    assert len(gpuconf.config.list_logical_devices("GPU")) == 4
    KEPT.append(memory.allocate(MIB))
def test_fresh(gpu_simulate):
    gpu_simulate("2xH100-80GB")
    assert len(gpuconf.config.list_logical_devices("GPU")) == 2
    assert memory.stats().bytes_in_use == 0
    assert KEPT[0].freed
def test_twice(gpu_simulate):
    gpu_simulate("T4")
    KEPT.append(memory.allocate(MIB))
    gpu_simulate("3xT4")
    assert len(gpuconf.visible_devices()) == 3
def test_tensors(gpu_simulate):
    gpu_simulate("T4")
    gpuconf.constant([1.0])
def test_wrong(gpu_simulate):
    with pytest.raises(ValueError, match="unknown GPU model"):
        gpu_simulate("Voodoo2")
def test_a_marked_test_with_its_own_machine(gpu_simulate): gpu_simulate("T4")
test_a_marked_test_with_its_own_machine = pytest.mark.gpu(test_a_marked_test_with_its_own_machine)
def test_no_gpu_after(): assert gpuconf.config.list_physical_devices("GPU") == []

def test_memory(gpu_simulate, gpu_memory):
    gpu_simulate("T4")
    assert (gpu_memory.start, gpu_memory.peak, gpu_memory.end) == (0, 0, 0)
    with memory.allocate(MIB):
        memory.allocate(4 * MIB).free()
        assert (gpu_memory.peak, gpu_memory.end) == (5 * MIB, MIB)
    assert (gpu_memory.peak, gpu_memory.end) == (5 * MIB, 0)
def test_memory_without_devices(gpu_memory): assert gpu_memory.peak == 0

def test_oom_after(gpu_simulate, gpu_oom_after):
    gpu_simulate("T4")
    gpu_oom_after(2)
    with memory.allocate(MIB):
        with pytest.raises(gpuconf.errors.ResourceExhaustedError, match="injected"):
            memory.allocate(MIB)
        memory.allocate(MIB).free()
    gpu_oom_after(1)
def test_oom_ends_with_the_test(gpu_simulate):
    gpu_simulate("T4")
    memory.allocate(MIB).free()
@pytest.mark.parametrize("n", ["x", -1, 1.0, True, 1 << 70])
def test_oom_of_nonsense(gpu_simulate, gpu_oom_after, n):
    gpu_simulate("T4")
    with pytest.raises(ValueError, match="gpu_oom_after takes the number of an allocation, at least 1, but got"):
        gpu_oom_after(n)
"""


MISTAKES = """
def test_sim(gpu_simulate):
    gpu_simulate("Voodoo2")
def test_many(gpu_simulate):
    gpu_simulate("Voodoo2, " * 9999)
def test_type(gpu_simulate):
    gpu_simulate(2)
def test_oom(gpu_oom_after):
    gpu_oom_after("x")
def test_last(): pass
"""


def test_a_mistake_in_a_fixture_shows_the_tests_line_and_what_is_wrong(suite: Callable[..., Any]) -> None:
    ran = suite(MISTAKES)
    assert ran.outcomes == {
        **dict.fromkeys(("test_sim", "test_many", "test_type", "test_oom"), "failed"),
        "test_last": "passed",
    }
    for name, text in {
        "test_sim": 'cannot simulate "Voodoo2": unknown GPU model "Voodoo2"; for another card write MODEL:MEMORY, ',
        "test_many": 'cannot simulate "Voodoo2, Voodoo2, ',
        "test_type": "spec must be a string with a model, such as '2xT4', but got int: 2",
        "test_oom": "gpu_oom_after takes the number of an allocation, at least 1, but got 'x'",
    }.items():
        shown = ran.texts[name]
        assert text in shown
        assert "pytest_plugin" not in shown
        assert "simulation/simulate.py" not in shown
        assert len([line for line in shown.splitlines() if line.startswith("E ")]) == 1
        assert len(shown) < 1500, shown


def test_fixtures(suite: Callable[..., Any]) -> None:
    ran = suite(FIXTURES, ini="gpuconf = auto")
    assert set(ran.outcomes.values()) == {"passed"}, ran.out
    assert "test_suite.py::test_sim  GPU:0: 1.00MiB (1048576 bytes) in 1 block of gpuconf (untagged)" in ran.out
    assert "test_suite.py::test_twice  GPU:0: 1.00MiB (1048576 bytes) in 1 block of gpuconf (untagged)" in ran.out
    assert ran.properties["test_memory"]["gpuconf.peak_bytes"] == str(5 << 20)


WALKS = """
SEEN = []
def load():
    a = memory.allocate(MIB)
    try:
        b = memory.allocate(MIB)
    except MemoryError:
        a.free()
        raise
    return a, b
def test_good(gpu, gpu_oom_each):
    SEEN.append(gpu_oom_each)
    for buffer in load():
        buffer.free()
def test_saw(): assert SEEN == [1, 2, 3, 0]
def test_recovers(gpu, gpu_oom_each):
    try:
        memory.allocate(MIB).free()
    except MemoryError as error:
        assert gpu_oom_each == 1 and "injected" in str(error)
def test_wrong_error(gpu, gpu_oom_each):
    with memory.allocate(MIB):
        try:
            memory.allocate(MIB).free()
        except MemoryError:
            raise KeyError("hidden")
@pytest.mark.gpu_leak
def test_leaks_on_failure(gpu, gpu_oom_each):
    a = memory.allocate(MIB)
    try:
        b = memory.allocate(MIB)
    except MemoryError:
        KEPT.append(a)
        raise
    a.free(); b.free()
@pytest.mark.gpu_leak
def test_cleans_up(gpu, gpu_oom_each):
    for buffer in load():
        buffer.free()
def test_fails_anyway(gpu, gpu_oom_each):
    memory.allocate(MIB).free()
    assert not "this"
def test_skips(gpu, gpu_oom_each): pytest.skip("not now")
def test_none(gpu_oom_each): assert gpu_oom_each in (0, 1)
class TestCase(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def prepare(self, gpu, gpu_oom_each): SEEN.append(gpu_oom_each)
    def test_unittest(self):
        for buffer in load():
            buffer.free()
    def test_unittest_saw(self): self.assertEqual(SEEN[4:8], [1, 2, 3, 0])
SETUPS = []
@pytest.fixture(scope="module")
def wide(): SETUPS.append("wide")
@pytest.fixture
def fresh(gpu):
    SETUPS.append("fresh")
    with memory.allocate(MIB): # made by the fixture, not by the test
        yield
def test_wide(wide, fresh, gpu_oom_each):
    memory.allocate(MIB).free()
def test_wide_saw(): assert SETUPS == ["wide", "fresh", "fresh", "fresh"]
def test_own_machine(gpu_simulate, gpu_oom_each):
    gpu_simulate("2xT4")
    SEEN.append(gpu_oom_each)
    memory.allocate(MIB, "GPU:1").free()
def test_own_machine_saw(): assert SEEN[-3:] == [1, 2, 0]
def test_a_machine_after_a_walk(gpu_simulate): # the walk left a failure for the next test that simulates
    gpu_simulate("T4")
    for _ in range(3):
        memory.allocate(MIB).free()
def test_one_failure_on_two_machines(gpu_simulate, gpu_oom_each):
    gpu_simulate("T4")
    try:
        memory.allocate(MIB).free()
    except MemoryError:
        gpu_simulate("2xT4")
        with memory.allocate(MIB): pass # nothing else fails in this run
        assert gpu_oom_each == 1
        KEPT.append("recovered")
def test_recovered_on_the_second(): assert KEPT[-1:] == ["recovered"]
"""


def test_walks(suite: Callable[..., Any]) -> None:
    ran = suite(WALKS, "--gpuconf-simulate=H100-80GB")
    bad = {
        "test_wrong_error": "failed",
        "test_fails_anyway": "failed",
        "test_leaks_on_failure": "error",
        "test_skips": "skipped",
    }
    assert {name: came for name, came in ran.outcomes.items() if came != "passed"} == bad, ran.out
    assert "Allocation 2 of this test was made to fail (injected)." in ran.out
    assert ran.properties["test_wrong_error"]["gpuconf.injected_allocation"] == "2"
    assert ran.out.count("KeyError: 'hidden'") >= 1


GROUPS = """
import asyncio
async def load(gpu):
    with memory.allocate(MIB, gpu):
        await asyncio.sleep(0)
async def both(gpu):
    async with asyncio.TaskGroup() as group:
        group.create_task(load(gpu))
        group.create_task(load(gpu))
@pytest.mark.gpu_leak
def test_task_group(gpu, gpu_oom_each): asyncio.run(both(gpu))
async def worse(gpu):
    async def other():
        try:
            await load(gpu)
        except MemoryError:
            raise KeyError("other")
    async with asyncio.TaskGroup() as group:
        group.create_task(load(gpu))
        group.create_task(other())
def test_other_errors_in_a_group(gpu, gpu_oom_each): asyncio.run(worse(gpu))
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.TaskGroup came with Python 3.11")
def test_a_walk_accepts_a_group_of_out_of_memory_errors(suite: Callable[..., Any]) -> None:
    ran = suite(GROUPS, "--gpuconf=simulate")
    assert ran.outcomes == {"test_task_group": "passed", "test_other_errors_in_a_group": "failed"}, ran.out


NO_WALKS = """
from hypothesis import given, settings, strategies as st
@given(st.integers(1, 3))
def test_given(gpu, gpu_oom_each, n): memory.allocate(n * MIB).free()
def test_after(gpu, gpu_oom_each, gpu_oom_after):
    gpu_oom_after(2)
    memory.allocate(MIB).free()
    memory.allocate(MIB).free()
"""


def test_walks_that_are_refused(suite: Callable[..., Any]) -> None:
    ran = suite(NO_WALKS, "--gpuconf=simulate")
    told = {
        "test_given": "@given, which Hypothesis repeats itself: give this test fixed values",
        "test_after": "gpu_oom_after, which chooses the allocation that fails itself: use one of them",
    }
    assert ran.outcomes == dict.fromkeys(told, "error")
    for name, why in told.items():
        assert ran.texts[name].splitlines()[1:] == [f"gpu_oom_each cannot walk a test with {why}"]


NEVER = """
def test_refactored(gpu, gpu_oom_after):
    gpu_oom_after(3)
    memory.allocate(MIB).free()
def test_none(gpu_oom_after, gpu_simulate):
    gpu_oom_after(1)
def test_counts_on_its_own_machine(gpu_simulate, gpu_oom_after):
    gpu_oom_after(2)
    gpu_simulate("T4")
    memory.allocate(MIB).free()
    with pytest.raises(MemoryError, match="injected"):
        memory.allocate(MIB)
    gpu_simulate("2xT4")
    memory.allocate(MIB).free()
def test_fires(gpu_oom_after, gpu):
    gpu_oom_after(1)
    with pytest.raises(MemoryError):
        memory.allocate(MIB)
    gpuconf.reset()
def test_resets(gpu, gpu_oom_after):
    gpu_oom_after(1)
    gpuconf.reset()
def test_taken_back(gpu, gpu_oom_after):
    gpu_oom_after(1)
    gpu_oom_after(0)
def test_fails_anyway(gpu, gpu_oom_after):
    gpu_oom_after(1)
    assert not 1
def test_skips(gpu, gpu_oom_after):
    gpu_oom_after(1)
    pytest.skip("later")
def test_walks_nothing(gpu, gpu_oom_each): pass
def test_walks(gpu, gpu_oom_each): memory.allocate(MIB).free()
"""


def test_failures_that_never_happen_are_reported(suite: Callable[..., Any]) -> None:
    ran = suite(NEVER, "--gpuconf=simulate")
    assert {name: came for name, came in ran.outcomes.items() if came != "passed"} == {
        "test_fails_anyway": "failed",
        "test_skips": "skipped",
    }, ran.out
    assert ", 3 warnings in " in ran.out
    assert "gpuconf: gpu_oom_after(3) made no allocation fail: the test made 1 allocation after it." in ran.out
    assert "gpuconf: gpu_oom_after(1) made no allocation fail: the test made no allocations after it." in ran.out
    assert "gpuconf: gpu_oom_each made no allocation fail: the test makes none" in ran.out
    strict = suite(NEVER, "--gpuconf=simulate", "-W", "error")
    assert {name for name, came in strict.outcomes.items() if came == "error"} == {"test_refactored", "test_none"}
    assert strict.outcomes["test_walks_nothing"] == "failed"
