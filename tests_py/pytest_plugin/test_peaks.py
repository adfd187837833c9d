"""``gpu_peak``: limits, and the baseline's file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

LIMITS = """
@pytest.mark.gpu_peak("8MiB")
def test_its_own_machine(gpu_simulate):
    gpu_simulate("2xT4")
    memory.allocate(16 * MIB, "GPU:1").free()
@pytest.mark.gpu_peak("8MiB")
def test_before_a_reset(gpu): # which forgot it, so that the test passed
    memory.allocate(9 * MIB).free()
    gpuconf.reset()
@pytest.mark.gpu_peak("8MiB")
def test_on_a_machine_of_its_own():
    with gpuconf.simulate("T4"):
        memory.allocate(9 * MIB).free()
@pytest.fixture(scope="session")
def wide():
    memory.allocate(64 * MIB).free()
    with memory.allocate(32 * MIB) as buffer:
        yield buffer
@pytest.fixture
def narrow(gpu):
    with memory.allocate(4 * MIB) as buffer:
        yield buffer
@pytest.mark.gpu_peak("8MiB")
def test_below(gpu, wide):
    for _ in range(3):
        memory.allocate(8 * MIB).free()
@pytest.mark.gpu_peak("8MiB")
def test_fixtures_of_the_test_count(wide, narrow): memory.allocate(5 * MIB).free()
@pytest.mark.gpu_peak(limit=8 << 20)
def test_above(gpu):
    a = memory.allocate(8 * MIB)
    b = memory.allocate(256)
    a.free(); b.free()
@pytest.mark.gpu_peak("8MiB")
def test_fails_anyway(gpu):
    memory.allocate(16 * MIB).free()
    assert 0
@pytest.mark.gpu_peak("8MiB")
def test_uses_none(): pass
def test_unmarked(gpu): memory.allocate(16 * MIB).free()
@pytest.mark.gpu_peak("8MiB")
def test_walk(gpu, gpu_oom_each): memory.allocate(8 * MIB).free()
"""
FAILED = dict.fromkeys(
    (
        "test_fixtures_of_the_test_count",
        "test_above",
        "test_its_own_machine",
        "test_before_a_reset",
        "test_on_a_machine_of_its_own",
    ),
    "failed",
)


def test_a_peak_above_its_limit_fails(suite: Callable[..., Any]) -> None:
    ran = suite(LIMITS, "--gpuconf=simulate")
    assert {name: came for name, came in ran.outcomes.items() if came != "passed"} == {
        **FAILED,
        "test_fails_anyway": "failed",
    }, ran.out
    told = "peak 8.00MiB (8388864 bytes) of GPU memory is 0.0 % above the limit of 8.00MiB (8388608 bytes)"
    largest = ran.texts["test_above"].partition(f"\n{told}:\n")[2].splitlines()[0]
    assert largest.startswith("  8.00MiB (8388608 bytes) at ")
    assert largest.endswith("(test_above), 1 block")
    assert ran.properties["test_above"]["gpuconf.peak"] == told
    for name in ("test_before_a_reset", "test_on_a_machine_of_its_own"):
        assert "peak 9.00MiB" in ran.texts[name]
    assert "::error" not in ran.out


def test_a_limit_for_all_tests_and_the_lines(suite: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    ran = suite(LIMITS, "--gpuconf=simulate", "--gpuconf-report", ini="gpuconf_peak = 10MiB")
    failed = {name for name, came in ran.outcomes.items() if came == "failed"}
    assert failed == {*FAILED, "test_unmarked", "test_fails_anyway"}, ran.out
    assert "  16.00MiB (16777216 bytes) at " in ran.texts["test_unmarked"]
    assert "(test_unmarked), 1 block" in ran.texts["test_unmarked"]
    assert "::error file=test_suite.py,line=" in ran.out


BASELINE = """
SIZES = [int(n) for n in os.environ["SIZES"].split(",")]
@pytest.mark.gpu_peak
def test_step(gpu):
    held = [memory.allocate(n * MIB) for n in SIZES]
    if len(SIZES) == 1:
        held += [memory.allocate(3 * MIB)]
    for buffer in held:
        buffer.free()
@pytest.mark.gpu_peak(tolerance="50%")
def test_tolerant(gpu):
    memory.allocate(sum(SIZES) * MIB).free()
"""


def test_baselines(suite: Callable[..., Any], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pytester.path / "gpuconf-memory.json"
    monkeypatch.setenv("SIZES", "1,2")
    first = suite(BASELINE, "--gpuconf-simulate=T4")
    assert first.code == 0
    assert (
        "gpuconf: no baseline in gpuconf-memory.json for 2 tests on this GPU: --gpuconf-update writes it" in first.out
    )
    assert not file.exists()
    updated = suite(BASELINE, "--gpuconf-simulate=T4", "--gpuconf-update")
    assert updated.code == 0
    assert "gpuconf: gpuconf-memory.json is written, with peaks of 2 tests of this run" in updated.out
    entry = json.loads(file.read_text())["tests"]["test_suite.py::test_step"]["Tesla T4"]
    assert entry["peak_bytes"] == 3 << 20
    ((name, line, _, *rest),) = entry["lines"]  # Python 3.12 has no frame of its own for the list
    assert (name, line, rest) == ("test_suite.py", 11, ["gpuconf", "", 3 << 20, 2])
    again = suite(BASELINE, "--gpuconf-simulate=T4")
    assert (again.code, "no baseline" in again.out) == (0, False)

    monkeypatch.setenv("SIZES", "1,2,1")  # grows by a third
    grown = suite(BASELINE, "--gpuconf-simulate=T4")
    assert grown.outcomes == {"test_step": "failed", "test_tolerant": "passed"}, grown.out
    told = grown.texts["test_step"].splitlines()[-3:]
    above = (
        "peak 4.00MiB (4194304 bytes) of GPU memory is 1.00MiB (1048576 bytes), 33.3 %, above the baseline of 3.00MiB "
        "(3145728 bytes):"
    )
    assert told[0] == above
    assert told[1].startswith("  +1.00MiB at test_suite.py:11 (")
    assert told[1].endswith("), +1 block of gpuconf (untagged)")
    assert told[2] == "  Tesla T4; --gpuconf-update accepts the new peak"

    monkeypatch.setenv("SIZES", "1")  # 3 MiB more at one line, and 2 MiB less at another
    told = suite(BASELINE, "--gpuconf-simulate=T4").texts["test_step"].splitlines()[-3:-1]
    assert told[0].startswith("  +3.00MiB at test_suite.py:13 (test_step), +1 block")
    assert told[1].startswith("  -2.00MiB at test_suite.py:11 (")

    assert suite(BASELINE, "--gpuconf-simulate=A100", "--gpuconf-update").code == 0
    assert len(json.loads(file.read_text())["tests"]["test_suite.py::test_step"]) == 2
    assert json.loads(file.read_text())["tests"]["test_suite.py::test_step"]["Tesla T4"] == entry


def test_an_update_without_a_measurement_writes_nothing(suite: Callable[..., Any], pytester: pytest.Pytester) -> None:
    skipped = "@pytest.mark.gpu(n=2)\n@pytest.mark.gpu_peak\ndef test_it(gpu): pass\n"
    assert suite(skipped, "--gpuconf-simulate=T4", "--gpuconf-update").outcomes == {"test_it": "skipped"}
    assert not (pytester.path / "gpuconf-memory.json").exists()


ONE_OUTCOME = """
kept = []
@pytest.mark.gpu_peak("1MiB")
def test_above(gpu): memory.allocate(2 * MIB).free()
@pytest.mark.xfail(reason="known", strict=True)
@pytest.mark.gpu_peak("1MiB")
def test_expected(gpu): memory.allocate(2 * MIB).free()
@pytest.mark.xfail(reason="known", strict=True)
@pytest.mark.gpu_peak("1MiB")
def test_below(gpu): memory.allocate(1 * MIB).free()
@pytest.mark.gpu_leak
@pytest.mark.gpu_peak("1MiB")
def test_both(gpu): kept.append(memory.allocate(2 * MIB))
class TestUnit(unittest.TestCase):
    @pytest.mark.gpu_peak("1MiB")
    def test_unit(self): memory.allocate(2 * MIB).free()
    @pytest.mark.gpu_peak("1MiB")
    def test_unit_fails(self):
        memory.allocate(2 * MIB).free()
        self.fail("its own reason")
"""


def test_a_peak_is_the_test_s_own_failure(suite: Callable[..., Any]) -> None:
    """A peak above its limit fails the test itself; it was an error of the teardown, after the test had passed."""
    ran = suite(f"import unittest\n{ONE_OUTCOME}", "--gpuconf-simulate=T4")
    assert "5 failed, 1 xfailed, 1 error" in ran.out, ran.out  # the error is the leak's
    assert ran.outcomes["test_above"] == "failed"
    assert "its own reason" in ran.texts["test_unit_fails"]
    assert "of GPU memory" not in ran.texts["test_unit_fails"]
    assert "is 100.0 % above the limit of 1.00MiB" in ran.texts["test_unit"]


def test_a_baseline_can_be_required(
    suite: Callable[..., Any], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIZES", "1,2")
    without = suite(BASELINE, "--gpuconf-simulate=T4", "--gpuconf-require-baseline")
    assert without.outcomes == {"test_step": "failed", "test_tolerant": "failed"}
    told = "no baseline in gpuconf-memory.json for this test on Tesla T4: --gpuconf-update writes it"
    assert without.texts["test_step"].endswith(told)
    assert suite(BASELINE, "--gpuconf-simulate=T4", "--gpuconf-require-baseline", "--gpuconf-update").code == 0
    assert suite(BASELINE, "--gpuconf-simulate=T4", ini="gpuconf_require_baseline = true").code == 0


@pytest.mark.parametrize("workers", [(), ("-p", "xdist.plugin", "-p", "xdist.looponfail", "-n2")], ids=["one", "two"])
def test_an_update_removes_tests_that_are_gone(
    suite: Callable[..., Any], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    file = pytester.path / "gpuconf-memory.json"
    monkeypatch.setenv("SIZES", "1,2")
    assert suite(BASELINE, *workers, "--gpuconf-simulate=2xT4", "--gpuconf-update").code == 0
    written = json.loads(file.read_text())
    entry = written["tests"]["test_suite.py::test_step"]
    gone = ("test_suite.py::test_former", "former/test_file.py::test_it")
    pytester.mkdir("other").joinpath("test_other.py").write_text("def test_it(): pass\n")
    kept = "other/test_other.py::test_unseen"  # whose file this run does not collect
    file.write_text(json.dumps({"schema": 1, "tests": {**written["tests"], **dict.fromkeys((*gone, kept), entry)}}))
    selected = ("-k", "test_step", "test_suite.py")
    assert suite(BASELINE, *workers, "--gpuconf-simulate=2xT4", "--gpuconf-update", *selected).code == 0
    assert set(json.loads(file.read_text())["tests"]) == {*written["tests"], kept}, "a deselected test is not gone"


def test_workers_write_one_file(
    suite: Callable[..., Any], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIZES", "1,2")
    options = ("-p", "xdist.plugin", "-p", "xdist.looponfail", "-n2", "--gpuconf-simulate=2xT4")
    assert suite(BASELINE, *options, "--gpuconf-update").code == 0
    assert len(json.loads((pytester.path / "gpuconf-memory.json").read_text())["tests"]) == 2
    monkeypatch.setenv("SIZES", "2,2")
    assert suite(BASELINE, *options).outcomes["test_step"] == "failed"


def test_an_update_that_cannot_be_written_is_a_usage_error(suite: Callable[..., Any]) -> None:
    """It was an internal error, after all tests, whose summary was lost."""
    ran = suite(BASELINE, "--gpuconf=simulate", "--gpuconf-update", ini="gpuconf_baseline = none/memory.json")
    assert ran.outcomes == {}
    assert ran.err.startswith("ERROR: --gpuconf-update cannot write ")
    assert ran.err.rstrip().endswith("none/memory.json: no such folder, or no permission")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is damaged (Expecting property name"),
        ("[]", "is damaged ("),
        ('{"schema": 1}', "is damaged ('tests' is missing)"),
        ('{"schema": 1, "tests": {"a": {"b": {"peak_bytes": "much"}}}}', "is damaged (peak_bytes is 'much')"),
        ('{"schema": 1, "tests": {"a": {"b": {"peak_bytes": 1, "lines": [[1]]}}}}', "is damaged ("),
        ('{"schema": 2, "tests": {}}', "has schema 2, and this version of gpuconf reads 1: update gpuconf"),
    ],
)
@pytest.mark.parametrize("option", ["--gpuconf=auto", "--gpuconf-update"])
def test_a_damaged_file_is_a_usage_error(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, text: str, told: str, option: str
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    file = pytester.path / "gpuconf-memory.json"
    file.write_text(text)
    pytester.makepyfile("def test_it(): pass\n")
    done = pytester.runpytest_inprocess("-p", "gpuconf.pytest_plugin", option)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in done.stderr.lines if line]
    assert len(lines) == 1
    assert f"gpuconf: gpuconf-memory.json {told}" in lines[0]
    assert file.read_text() == text


def test_mistakes_in_the_mark(suite: Callable[..., Any]) -> None:
    marks = {
        'gpu_peak("much")': "gpu_peak 'much' is not a size: write bytes, '500MB', '6GiB'",
        "gpu_peak(1, 2)": "gpu_peak takes a limit such as '1.2GiB', or tolerance=0.05; got 2",
        "gpu_peak(peak=1)": "gpu_peak takes a limit such as '1.2GiB', or tolerance=0.05; got 'peak'",
        "gpu_peak(1, limit=1)": "gpu_peak takes a limit such as '1.2GiB', or tolerance=0.05; got two limits",
        'gpu_peak("1GiB", tolerance=0.1)': "gpu_peak takes a limit or a tolerance for the baseline, not both",
        "gpu_peak(tolerance=-1)": "gpu_peak(tolerance=...) must be a part of the peak such as 0.05 or '5%', but got -1",
        'gpu_peak(tolerance="x")': "gpu_peak(tolerance=...) must be a part of the peak such as 0.05 or '5%', but got "
        "'x'",
    }
    source = "".join(f"@pytest.mark.{mark}\ndef test_{n}(): pass\n" for n, mark in enumerate(marks))
    ran = suite(source, "--gpuconf-simulate=T4")
    assert ran.outcomes == {f"test_{n}": "error" for n in range(len(marks))}
    for n, text in enumerate(marks.values()):
        assert ran.texts[f"test_{n}"].splitlines()[1:] == [text]
    wrong = suite("def test_it(): pass\n", "--gpuconf-simulate=T4", ini="gpuconf_tolerance = much")
    assert "gpuconf_tolerance must be a part of the peak such as 0.05 or '5%', but got 'much'" in wrong.err
    wrong = suite("def test_it(): pass\n", "--gpuconf-simulate=T4", "--gpuconf-peak=much")
    assert "--gpuconf-peak 'much' must be a size of at least 1 MiB, such as '6GiB'" in wrong.err
