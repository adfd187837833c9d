"""How ``make fuzz`` interprets Go's output.

On a busy machine Go ends a target at its time limit with "FAIL" and "context deadline exceeded", and the whole run
stopped there as if a defect had been found. The outputs here are real outputs of Go.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

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
