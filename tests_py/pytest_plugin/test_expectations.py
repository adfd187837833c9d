"""What a suite expects of its tests' memory: known leaks, runs to warm up, and a limit for all tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

KNOWN = """
xfail = pytest.mark.xfail
@xfail(reason="a known leak")
@pytest.mark.gpu_leak
def test_leaks(gpu): KEPT.append(memory.allocate(MIB))
@xfail(reason="a known leak", strict=True)
@pytest.mark.gpu_leak
def test_leaks_strictly(gpu): KEPT.append(memory.allocate(MIB))
@xfail(reason="a known peak", strict=True)
@pytest.mark.gpu_peak("1MiB")
def test_peak(gpu): memory.allocate(2 * MIB).free()
@xfail
@pytest.mark.gpu_leak
def test_mended(gpu): pass
@xfail(strict=True, reason="mended")
@pytest.mark.gpu_leak
def test_mended_strictly(gpu): pass
@xfail
@pytest.mark.gpu_leak
def test_fails(gpu): assert 0
@xfail(raises=KeyError)
@pytest.mark.gpu_leak
def test_another_failure_is_expected(gpu): KEPT.append(memory.allocate(MIB))
@pytest.fixture
def broken():
    yield
    raise RuntimeError("broken")
@xfail
@pytest.mark.gpu_leak
def test_fixture(gpu, broken): pass
"""


def test_a_known_leak(suite: Callable[..., Any]) -> None:
    ran = suite(KNOWN, "--gpuconf-simulate=T4", "-rA")
    outcomes = [line for line in ran.out.splitlines() if line.startswith(("XFAIL", "XPASS", "FAILED", "ERROR"))]
    lines = [line.split(" - ")[0].replace(" at teardown of", "") for line in outcomes]
    assert sorted(lines) == [
        "ERROR test_suite.py::test_another_failure_is_expected",
        "ERROR test_suite.py::test_mended_strictly",
        "XFAIL test_suite.py::test_fails",
        "XFAIL test_suite.py::test_fixture",
        "XFAIL test_suite.py::test_leaks",
        "XFAIL test_suite.py::test_leaks_strictly",
        "XFAIL test_suite.py::test_peak",
        "XPASS test_suite.py::test_another_failure_is_expected",
        "XPASS test_suite.py::test_mended",
    ], ran.out
    assert "[XPASS(strict)] mended" in ran.out
    assert "a known leak" in ran.out


WARM = """
RUNS = []
@pytest.fixture
def number():
    RUNS.append(1)
    return len(RUNS)
@pytest.fixture(scope="module")
def wide(): return object()
@pytest.mark.gpu_leak(warmup=2)
def test_fills_a_cache(gpu, number, wide):
    if number < 3: KEPT.append(memory.allocate(MIB))
@pytest.mark.gpu_leak
def test_does_not_warm_up(gpu): KEPT.append(memory.allocate(MIB))
@pytest.mark.gpu_peak("1MiB", warmup=1)
def test_peak(gpu, number): memory.allocate((2 if number == 4 else 1) * MIB).free()
@pytest.mark.gpu_leak(warmup=1)
def test_fails_at_first(gpu, number): assert number > 6
def test_runs(): assert len(RUNS) == 6
@pytest.mark.gpu_leak(warmup=-1)
def test_wrong(gpu): pass
"""


def test_runs_to_warm_up(suite: Callable[..., Any]) -> None:
    ran = suite(WARM, "--gpuconf-simulate=T4")
    wrong = {"test_does_not_warm_up": "error", "test_fails_at_first": "failed", "test_wrong": "error"}
    assert {name: came for name, came in ran.outcomes.items() if came != "passed"} == wrong, ran.out
    assert "gpu_leak(warmup=...) must be a number of runs, at most 1000, but got -1" in ran.texts["test_wrong"]


ALL = """
def test_leaks(gpu): KEPT.append(memory.allocate(2 * MIB))
@pytest.mark.gpu_leak(allow="2MiB")
def test_may(gpu): KEPT.append(memory.allocate(2 * MIB))
def test_frees(gpu): memory.allocate(2 * MIB).free()
"""


def test_a_limit_for_all_tests(suite: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for options, ini in ((("--gpuconf-leak=1MiB",), ""), ((), "gpuconf_leak = 1048576")):
        ran = suite(ALL, "--gpuconf-simulate=T4", *options, ini=ini)
        assert ran.outcomes == {"test_leaks": "error", "test_may": "passed", "test_frees": "passed"}, ran.out
        assert "left allocated, and --gpuconf-leak allows 1.00MiB (1048576 bytes)" in ran.texts["test_leaks"]
        assert "::error file=test_suite.py,line=8,title=GPU memory::left allocated: GPU:0: 2.00MiB" in ran.out
    assert set(suite(ALL, "--gpuconf-simulate=T4", "--gpuconf-leak=2MiB").outcomes.values()) == {"passed"}
    assert "ERROR: --gpuconf-leak 'much'" in suite(ALL, "--gpuconf-leak=much").err


@pytest.mark.parametrize("name", ["leak", "peak", "memory"])
def test_an_invalid_key_is_named_as_a_key(suite: Callable[..., Any], name: str) -> None:
    """Not as an option, which the run does not have."""
    assert f"ERROR: the key gpuconf_{name} 'much'" in suite(ALL, ini=f"gpuconf_{name} = much").err


@pytest.mark.parametrize("library", ["numba.cuda.cudadrv.driver", "cupy", "torch", "none"])
def test_the_hint_to_simulate(suite: Callable[..., Any], library: str) -> None:
    """Only where simulated GPUs are of use: PyTorch's, if it is built for CUDA."""
    loaded = (
        f"import types\nsys.modules[{library!r}] = types.SimpleNamespace(version=types.SimpleNamespace(cuda=None))\n"
    )
    ran = suite(loaded + "def test_it(gpu): pass")
    assert ran.outcomes == {"test_it": "skipped"}
    assert ("--gpuconf=simulate simulates one" in ran.texts["test_it"]) == (library == "none")
