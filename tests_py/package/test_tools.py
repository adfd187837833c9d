"""What make's targets say: ``make fuzz`` interprets Go's output, ``make test-integrations`` names the Debian packages
that it lacks, and each file of tests is run on the arm64 wheel or left out for a reason.

On a busy machine Go ends a target at its time limit with "FAIL" and "context deadline exceeded", and the whole run
stopped there as if a defect had been found. The outputs here are real outputs of Go.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from pathlib import Path

import pytest
from script import execute

PATH = Path(__file__).resolve().parents[2] / "tests_go" / "fuzz.py"
BEGIN = """fuzz: elapsed: 0s, gathering baseline coverage: 0/1 completed
fuzz: elapsed: 0s, gathering baseline coverage: 1/1 completed, now fuzzing with 2 workers
"""
PROGRESS = "fuzz: elapsed: 3s, execs: 35269 (11755/sec), new interesting: 62 (total: 67)\n"
END = """--- FAIL: FuzzX (30.06s)
    context deadline exceeded
FAIL
exit status 1
FAIL\tgpuconf/tests_go/x\t30.120s
"""
FINDING = """fuzz: minimizing 51-byte failing input file
fuzz: elapsed: 0s, minimizing
--- FAIL: FuzzX (0.04s)
    --- FAIL: FuzzX (0.00s)
        a_test.go:4: context deadline exceeded
    \n    Failing input written to testdata/fuzz/FuzzX/8727b16d337d7b81
    To re-run:
    go test -run=FuzzX/8727b16d337d7b81
FAIL
exit status 1
FAIL\tgpuconf/tests_go/x\t0.049s
"""
HUNG = """--- FAIL: FuzzX (11.04s)
    fuzzing process hung or terminated unexpectedly: exit status 2
    Failing input written to testdata/fuzz/FuzzX/771e938e4458e983
FAIL
"""


@pytest.mark.parametrize(
    ("status", "output", "told"),
    [
        (0, BEGIN + PROGRESS + "PASS\n", "ok"),
        (1, BEGIN + PROGRESS + END, "time"),
        (1, BEGIN + END, "FAIL"),
        (1, BEGIN + PROGRESS + FINDING, "FAIL"),
        (1, BEGIN + PROGRESS + HUNG, "FAIL"),
        (1, BEGIN + PROGRESS + HUNG + END, "FAIL"),
        (1, "a_test.go:3:1: syntax error\nFAIL\tgpuconf/tests_go/x [build failed]\n", "FAIL"),
    ],
    ids=[
        "well",
        "its time ended",
        "before the first input",
        "a finding of that text",
        "a hang",
        "a hang, then the end",
        "no build",
    ],
)
def test_the_end_of_time_is_no_finding(status: int, output: str, told: str) -> None:
    spec = importlib.util.spec_from_file_location("fuzz", PATH)
    assert spec is not None
    assert spec.loader is not None
    fuzz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    assert fuzz.verdict("FuzzX", status, output) == told


SCRIPT = Path(__file__).parents[1] / "integrations" / "debian_packages.py"
PROGRAMS = runpy.run_path(str(SCRIPT))["PROGRAMS"]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    for program in {program for programs in PROGRAMS.values() for program in programs} - {"chromedriver", "srun"}:
        (tmp_path / program).touch(mode=0o755)

    def run(*words: str) -> tuple[int, str]:
        environment = {**os.environ, "PATH": str(tmp_path)}
        done = execute([sys.executable, SCRIPT, *words], env=environment)
        return done.returncode, done.stdout + done.stderr

    lacks = "programs are missing; on Debian and Ubuntu: apt-get install"
    assert run() == (1, f"{lacks} chromium-driver slurm-client\n")
    assert run("chromium", "chromium-driver") == (1, f"{lacks} chromium-driver\n")
    assert run("prometheus") == (0, "")


HERE = Path(__file__).parents[1]
sys.path.insert(0, str(HERE / "wheel"))  # as where it is run
LISTS = runpy.run_path(str(HERE / "wheel" / "arm64.py"))
del sys.path[0]
FILES = {str(path.relative_to(HERE)) for path in HERE.rglob("test_*.py")}


def files(names: str) -> list[str]:
    """The files of a list, in which a folder stands for all of its files."""
    return [file for name in names.split() for file in FILES if file == name or file.startswith(f"{name}/")]


def test_each_file_is_run_or_left_out_for_a_reason() -> None:
    listed = [*files(LISTS["RUN"]), *(file for names in LISTS["LEFT_OUT"].values() for file in files(names))]
    assert sorted(listed) == sorted(FILES)  # add a new file to RUN, or to LEFT_OUT with its reason


def test_each_name_in_the_lists_exists() -> None:
    for names in (LISTS["RUN"], *LISTS["LEFT_OUT"].values()):
        assert [name for name in names.split() if not files(name)] == []
    run = files(LISTS["RUN"])
    for names in LISTS["DESELECTED"].values():
        for name in names.split():
            file, _, test = name.partition("::")
            assert file in run, name
            assert f"def {test.partition('[')[0]}(" in (HERE / file).read_text(), name
