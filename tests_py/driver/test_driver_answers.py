"""The simulator's libcuda answers what NVIDIA's drivers answer without a device, for each driver version that it
supports.

The drivers' answers are committed (`make generate WHAT=driver`). The same prober asks the simulator. Differences are
listed in driver/differences.json, with a reason for each.
"""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import gpuconf
import pytest

from driver import compare, functions, observe
from driver.answers import Answers

BUILD = Path(__file__).resolve().parents[2] / "tests_go" / "machine" / "fakecuda" / "build.py"
ANSWERS = Answers.load()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the prober's user can read, who is another one where this is root. pytest closes its own to
    others.
    """
    with tempfile.TemporaryDirectory(prefix="gpuconf-answers-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def prober(place: Path) -> Path:
    return observe.build_prober(place)


def simulator(folder: Path, cuda: int) -> Path:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import build; print(build.build(sys.argv[2], "
        "version=int(sys.argv[3])))"
    )
    command = [sys.executable, "-c", program, BUILD.parent, folder, str(cuda)]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


@pytest.mark.parametrize("branch", sorted(ANSWERS.drivers))
def test_the_simulator_answers_as_the_driver(branch: str, prober: Path, place: Path) -> None:
    before = glob.glob("/dev/nvidia*")
    library = simulator(place, ANSWERS.cuda(branch))
    names = frozenset(form.exported for form in ANSWERS.forms) | frozenset(ANSWERS.unresolved)
    # Those for tests (fakecuda_*) do not begin with cu; cudbg* is the debugger's.
    # What the simulator has not written is in test_simulated_driver.py.
    calls = frozenset(name for name in names if not name.startswith("cudbg")) - observe.stubs_of(library)
    seen = observe.observe(library, prober, names, calls, {"FAKECUDA_GPUS": "0"})
    driver = ANSWERS.observation(branch, sorted({name for name, _ in seen.resolver}))
    found = compare.differences(seen, driver)
    assert compare.unexpected(branch, found) == {}
    assert glob.glob("/dev/nvidia*") == before


@pytest.mark.parametrize("branch", sorted(ANSWERS.drivers))
def test_the_shipped_library_answers_as_the_driver_of_its_version(branch: str, prober: Path, place: Path) -> None:
    """A specification chooses its version, and it exports all functions. Of the calls every twentieth is tried."""
    library, cuda = place / "libcuda.so.1", ANSWERS.cuda(branch)
    shutil.copy(Path(gpuconf.__file__).parent / "_simulator" / library.name, library)  # for the prober's user
    library.chmod(0o755)
    names = sorted({form.exported for form in ANSWERS.forms} - observe.stubs_of(library))
    environment = {"GPUCONF_SIMULATE": f"T4:driver={cuda // 1000}.{cuda % 1000 // 10}", "CUDA_VISIBLE_DEVICES": "-1"}
    seen = observe.observe(library, prober, frozenset(names), frozenset(names[::20]), environment)
    if cuda < 12000:  # cuGetProcAddress_v2 is exported there, too, and not supported
        seen.resolver.update({what: line.replace(",801,-1,-", ",-1,-1,-") for what, line in seen.resolver.items()})
    found = compare.differences(seen, ANSWERS.observation(branch, sorted({name for name, _ in seen.resolver})))
    assert compare.unexpected(branch, found) == {}
    assert len(seen.calls) >= 12


def test_the_prober_has_no_rights_of_root(place: Path) -> None:
    """As root, NVIDIA's driver would make /dev/nvidia*."""
    prober = place / "prober"
    prober.write_text("#!/bin/sh\nid -u\nid -g\nid -G\n")
    prober.chmod(0o755)
    user, group, groups = observe.ask(prober, "libcuda.so.1", "process", [], None)
    assert "0" not in (user, group, *groups.split())


def test_many_calls_are_compared() -> None:
    for branch in ANSWERS.drivers:
        driver = ANSWERS.observation(branch, [])
        assert sum(len(results) for results in driver.calls.values()) >= 3000
        crashes = [result for results in driver.calls.values() for result in results if result.startswith("s")]
        assert 0 < len(crashes) < 100


def test_each_listed_difference_has_a_reason_and_names_a_kind() -> None:
    kinds = {"export", "resolver", "call", "error", "process"}
    for pattern, reason in compare.accepted().items():
        assert reason.endswith(".")
        assert pattern.split()[1] in kinds


def test_the_comparison_sees_each_kind_of_difference(prober: Path, place: Path) -> None:
    source = place / "wrong.c"
    source.write_text(
        "int cuInit(unsigned flags) { return flags == 0 ? 0 : 7; }\n"
        "int cuDeviceGetCount(int *count) { *count = 1; return 0; }\n"
        "int cuDriverGetVersion(int *version) { if (version != 0) *version = 12040; return 0; }\n"
        'int cuGetErrorName(int n, const char **out) { (void)n; *out = "X"; return 0; }\n'
        'int cuGetErrorString(int n, const char **out) { (void)n; *out = "X"; return 0; }\n'
    )
    library = place / "libcuda.so.1"
    subprocess.run([*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", "-o", library, source], check=True)
    seen = observe.observe(library, prober, frozenset({"cuMemAlloc"}), observe.exports_of(library))
    driver = ANSWERS.observation("550", sorted({name for name, _ in seen.resolver}))
    found = compare.differences(seen, driver)
    assert found["export cuMemAlloc_v2"] == "missing"
    assert found["call cuDriverGetVersion before cuInit, 0"] == "0, NVIDIA's: 1"
    assert "resolver cuMemAlloc 0" in found
    assert "error 2" in found
    assert found["process child-init"] == "0, NVIDIA's: 304"
    # Where NVIDIA's crashes, any answer is right: this one crashes as well, and so would not another.
    assert "call cuGetErrorName before cuInit, 0" not in found


def test_the_table_of_functions_says_what_the_drivers_answer() -> None:
    forms, unresolved = functions.table(ANSWERS)
    for branch in ANSWERS.drivers:
        cuda = ANSWERS.cuda(branch)
        recorded = {form for form in ANSWERS.forms if form.version <= cuda}
        assert {form for form in forms if form.version <= cuda} == recorded
        beyond = ANSWERS.exports(branch) - {form.exported for form in recorded} - set(unresolved)
        assert all(name.startswith("cudbg") for name in beyond)
    assert max(form.version for form in forms) >= 13050
    headers = {row[1] for row in functions.headers()["forms"]}
    assert headers <= {form.exported for form in forms} | set(unresolved)
