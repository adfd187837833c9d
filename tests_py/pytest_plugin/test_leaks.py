"""What stays allocated after a test, and failing tests whose traceback holds device memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

LEAKS = """
@pytest.mark.gpu_leak
def test_c(gpu_simulate):
    import ctypes
    gpu_simulate("2xT4")
    gpuconf.config.list_logical_devices()
    library = ctypes.CDLL(gpuconf.library_path())
    library.gpuconf_malloc.restype = ctypes.c_void_p
    assert library.gpuconf_malloc(ctypes.c_size_t(MIB), 1, None)
@pytest.mark.gpu_leak
def test_after_c(gpu_simulate):
    gpu_simulate("T4")
def test_leaks(gpu):
    with memory.tag("cache"):
        KEPT.append(memory.allocate(3 * MIB))
    KEPT.append(memory.allocate(1000))
def test_after(gpu): memory.allocate(5 * MIB).free()
@pytest.mark.gpu_leak
def test_strict(gpu): KEPT.append(memory.allocate(MIB))
@pytest.mark.gpu_leak(allow="1MiB")
def test_allowed(gpu): KEPT.append(memory.allocate(MIB))
@pytest.mark.gpu_leak(allow=1000)
def test_too_much(gpu): KEPT.append(memory.allocate(MIB))
@pytest.mark.gpu_leak
def test_clean(gpu): memory.allocate(MIB).free()
@pytest.mark.gpu_leak
def test_frees_more(gpu): KEPT.pop().free()
@pytest.mark.gpu_leak
def test_garbage(gpu):
    import warnings
    warnings.simplefilter("ignore")
    cycle = [memory.allocate(MIB)]
    cycle.append(cycle)
@pytest.fixture(scope="module")
def model():
    with memory.allocate(7 * MIB) as buffer:
        yield buffer
@pytest.fixture(scope="module")
def careless_model():
    KEPT.append(memory.allocate(2 * MIB))
@pytest.mark.gpu_leak
def test_first_to_use_a_wide_fixture(model): pass
@pytest.mark.gpu_leak
def test_second(model, careless_model): pass
"""
THREE = "GPU:0: 3.00MiB (3145728 bytes) in 1 block of gpuconf cache"
ONE = "GPU:0: 1.00MiB (1048576 bytes) in 1 block of gpuconf (untagged)"


def test_leaks_are_reported_and_only_the_mark_makes_them_failures(suite: Callable[..., Any]) -> None:
    ran = suite(LEAKS, "--gpuconf-simulate=H100-80GB")
    assert ran.code == 1
    # A wide fixture that frees nothing leaks when it is torn down, after the module's last test.
    assert {name for name, came in ran.outcomes.items() if came != "passed"} == {
        "test_strict",
        "test_too_much",
        "test_c",
        "test_second",
    }
    assert set(ran.outcomes.values()) == {"passed", "error"}
    summary = ran.out[ran.out.rindex("= GPU memory left allocated =") :]
    assert "test_suite.py::test_strict  " + ONE in summary
    assert "test_after" not in summary
    assert "\n--gpuconf-report shows where it was allocated\n" in summary
    assert ran.properties["test_leaks"] == {
        "gpuconf.leaked_bytes": str(3145728 + 1024),
        "gpuconf.leaked_blocks": "2",
        "gpuconf.leak": "GPU:0: 1.0KiB (1024 bytes) in 1 block of gpuconf (untagged); " + THREE,
    }
    assert ran.properties["test_clean"] == {}
    text = ran.texts["test_strict"]
    assert "1.00MiB (1048576 bytes) of GPU memory left allocated:\n" in text
    if pytest.version_tuple >= (9,):  # pytest 8 has no text there
        assert "ERROR test_suite.py::test_strict - 1.00MiB (1048576 bytes)" in ran.out, (
            "the test's name is there already"
        )
    assert ONE in text
    assert "and gpu_leak allows 1000 bytes" in ran.texts["test_too_much"]
    assert "GPU:1: 1.00MiB (1048576 bytes) in 1 block of c (untagged)" in ran.texts["test_c"]
    assert "GPU:0: 2.00MiB (2097152 bytes) in 1 block of gpuconf (untagged)" in ran.texts["test_second"]


FRAMES = """
def load():
    return memory.allocate(1 << 50)
def test_another_error(gpu):
    try: load()
    except MemoryError as error: raise ValueError("too large") from error
def test_too_large(gpu): load()
def test_no_size_fits(gpu): memory.fit_batch(lambda n: load(), 1)
def test_not_our_error(gpu):
    class Odd:
        def __index__(self): raise ZeroDivisionError
    memory.allocate(Odd())
"""


def test_a_report_ends_at_the_line_that_called_gpuconf(suite: Callable[..., Any]) -> None:
    """It used to end in three functions of gpuconf's, with their source."""
    ran = suite(FRAMES, "--gpuconf-simulate=T4")
    called = {
        "test_too_large": "return memory.allocate(1 << 50)",
        "test_no_size_fits": "memory.fit_batch(lambda n: load(), 1)",
        "test_another_error": "return memory.allocate(1 << 50)",
    }
    for name, last in called.items():
        assert any(line.startswith(">") and last in line for line in ran.texts[name].splitlines())
        assert "ResourceExhaustedError" in ran.texts[name]
        assert "gpuconf/memory/" not in ran.texts[name], name
    assert "gpuconf/_core/sizes.py" in ran.texts["test_not_our_error"]
    full = suite(FRAMES, "--gpuconf-simulate=T4", "--full-trace")
    assert "gpuconf/memory/_buffer.py" in full.texts["test_too_large"]


FAILING = """
import traceback
def fill(gpu):
    limit = memory.stats(gpu.name).bytes_limit
    return memory.allocate(limit * 9 // 10, gpu.name)
def test_holds_90_percent(gpu):
    held = fill(gpu)
    assert held is None
def test_has_room(gpu):
    fill(gpu).free()
def test_chain(gpu):
    def inner():
        held = fill(gpu)
        raise KeyError("first")
    try:
        inner()
    except KeyError as error:
        raise ValueError("second") from error
def test_has_room_again(gpu):
    fill(gpu).free()
def test_context(gpu):
    def inner():
        held = fill(gpu)
        raise KeyError("first")
    try:
        inner()
    except KeyError:
        raise ValueError("second")
def test_has_room_still(gpu):
    fill(gpu).free()
@pytest.fixture
def broken(gpu):
    held = fill(gpu)
    raise RuntimeError("in a fixture")
def test_fixture_fails(broken): pass
def test_room_after_a_fixture(gpu):
    fill(gpu).free()
@pytest.mark.xfail
def test_expected(gpu):
    held = fill(gpu)
    raise OSError
def test_room_after_xfail(gpu):
    fill(gpu).free()
class TestCase(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def take(self, gpu): self.gpu = gpu
    def test_case_1(self):
        held = fill(self.gpu)
        self.assertTrue(False)
    def test_case_2(self):
        fill(self.gpu).free()
"""
if pytest.version_tuple >= (9,):  # which has subtests
    FAILING += """
def test_a_subtest_fails(gpu, subtests):
    with subtests.test("inner"):
        def inner():
            held = fill(gpu)
            assert held is None
        inner()
def test_room_after_a_subtest(gpu):
    fill(gpu).free()
"""


def test_a_failing_tests_memory_is_free_for_the_next_one(suite: Callable[..., Any]) -> None:
    """Without the plugin each test that follows runs out of memory: pytest and Python keep the traceback."""
    ran = suite(FAILING, "--gpuconf-simulate=H100-80GB", "-W", "error")
    failed = {"test_holds_90_percent", "test_chain", "test_context", "test_case_1"}
    assert {name for name, came in ran.outcomes.items() if came == "failed"} - {"test_a_subtest_fails"} == failed
    assert ("test_a_subtest_fails" in ran.outcomes) == (pytest.version_tuple >= (9,))
    assert {name for name, came in ran.outcomes.items() if came == "error"} == {"test_fixture_fails"}
    assert "GPU memory left allocated" not in ran.out
    assert "held       = <gpuconf.Buffer of" in suite(FAILING, "-l", "--gpuconf-simulate=H100-80GB").out


KEEPERS = """
from hypothesis import HealthCheck, given, settings, strategies as st
def in_use(): return memory.stats().bytes_in_use
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
@given(st.integers(1, 3))
@pytest.mark.gpu_leak
def test_given(gpu, n):
    held = memory.allocate(n * MIB)
    assert n < 2
def test_nothing_is_left_of_it(gpu): assert in_use() == 0
@pytest.mark.gpu_leak
def test_kept_by_a_plugin(gpu):
    held = memory.allocate(MIB)
    assert not held
def test_nothing_is_left_of_that(gpu): assert in_use() == 0
@pytest.mark.gpu_leak
def test_fails_and_leaks(gpu):
    KEPT.append(memory.allocate(MIB))
    assert 0
"""
if pytest.version_tuple >= (9,):  # which has subtests
    KEEPERS += """
@pytest.mark.gpu_leak
def test_subtest(gpu, subtests):
    with subtests.test("inner"):
        held = memory.allocate(2 * MIB)
        assert not held
"""
# As pytest-rerunfailures does, which keeps what it may have to repeat.
KEEPING = """
def pytest_runtest_makereport(item, call):
    vars(item).setdefault("call", []).append(call.excinfo)
def pytest_exception_interact(node, call):
    vars(node).setdefault("call", []).append(call.excinfo)
"""


def test_memory_that_others_tracebacks_hold_is_no_leak(suite: Callable[..., Any]) -> None:
    """Hypothesis keeps the exceptions of its examples, and plugins those of subtests and reruns."""
    ran = suite(KEEPERS, "--gpuconf=simulate", conftest=KEEPING)
    wrong = {"test_given": "failed", "test_kept_by_a_plugin": "failed", "test_fails_and_leaks": "error"}
    assert {name: came for name, came in ran.outcomes.items() if came != "passed" and "subtest" not in name} == wrong, (
        ran.out
    )
    report = ran.out.partition("short test summary info")[0]  # which has the whole line once more where CI is set
    assert report.count("of GPU memory left allocated:") == 1, ran.out


def test_the_report_of_memory(suite: Callable[..., Any]) -> None:
    ran = suite(
        """
def test_large(gpu): memory.allocate(5 * MIB).free()
def test_small(gpu): memory.allocate(3 * MIB).free()
def test_simulated(gpu_simulate):
    gpu_simulate("T4")
    memory.allocate(4 * MIB).free()
def test_none(): pass
def test_leaks(gpu):
    for _ in range(2):
        KEPT.append(memory.allocate(MIB))
def test_records_itself(gpu):
    with memory.record() as recording:
        memory.allocate(MIB).free()
    assert [e.action for e in recording.events if "segment" not in e.action][-2:] == ["allocate", "free"]
def test_leaks_on_its_own_machine(gpu_simulate):
    gpu_simulate("2xT4")
    KEPT.append(memory.allocate(MIB, "GPU:1"))
""",
        "--gpuconf-simulate=H100-80GB",
        "--gpuconf-report",
    )
    assert ran.code == 0, ran.out
    assert "--gpuconf-report shows" not in ran.out
    table = ran.out[ran.out.index("= GPU memory of tests =") :].splitlines()[1:5]
    order = ("large", "simulated", "small", "leaks")
    assert [line.split("  ")[-1] for line in table] == [f"test_suite.py::test_{name}" for name in order]
    twice = "GPU:0: 2.00MiB (2097152 bytes) in 2 blocks of gpuconf (untagged), allocated at "
    assert ran.properties["test_leaks"]["gpuconf.leak"].startswith(twice)
    assert ran.properties["test_leaks"]["gpuconf.leak"].endswith("test_suite.py:16 (test_leaks) (2 times)")
    assert ran.properties["test_leaks_on_its_own_machine"]["gpuconf.leak"].endswith("(test_leaks_on_its_own_machine)")
    assert table[0].startswith("peak 5.00MiB (5242880 bytes)")
    assert ran.properties["test_small"] == {"gpuconf.peak_bytes": "3145728"}


def test_the_report_shows_the_peak_that_is_checked(suite: Callable[..., Any]) -> None:
    """It added what an earlier test had left."""
    ran = suite(
        """
KEPT = []
def test_leaks(gpu):
    KEPT.append(memory.allocate(3 * MIB))
def test_next(gpu):
    memory.allocate(5 * MIB).free()
""",
        "--gpuconf-simulate=T4",
        "--gpuconf-report",
        "--gpuconf-peak=6MiB",
    )
    assert "peak 5.00MiB (5242880 bytes)  test_suite.py::test_next" in ran.out


LEASES = """
GIB = 1 << 30
def limit(): return memory.stats("GPU:0").bytes_limit
def leave_open():
    gpuconf.reset()
    return gpuconf.lease("1GiB").__enter__()
def test_first(): leave_open()
def test_is_not_limited(): assert limit() > 2 * GIB
def test_on_its_own_machine(gpu_simulate):
    gpu_simulate("A100-40GB")
    leave_open()
def test_is_not_limited_either(): assert limit() > 2 * GIB
def test_in_use():
    KEPT.extend([leave_open(), memory.allocate(MIB)])
def test_may_end_it():
    assert limit() == GIB
    KEPT.pop().free()
    KEPT.pop().release()
@pytest.fixture(scope="module")
def leased():
    gpuconf.reset()
    with gpuconf.lease("3GiB") as lease: yield lease
def test_of_a_fixture(leased): assert limit() == 3 * GIB
def test_of_a_fixture_again(leased): assert limit() == 3 * GIB
"""


def test_a_lease_that_a_test_leaves_open_is_ended(suite: Callable[..., Any]) -> None:
    """It limited all tests after it, in silence."""
    ran = suite(LEASES, "--gpuconf-simulate=H100-80GB")
    assert ran.code == 0, ran.out
    named = [line for line in ran.out.splitlines() if "PytestWarning: gpuconf: the test left" in line]
    assert len(named) == 3, ran.out
    assert named[0].endswith("open. It has ended now: write `with gpuconf.lease(...):`")
    assert "open, and it stays so: cannot end the lease of 1.00GiB" in named[2]
