# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs that are suspended in turn compute what they compute alone, to the last bit: suspending.py."""

import json
import sys
from pathlib import Path

import no_gpu
import pytest
import script

pytestmark = [
    pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.simulated_programs,
]
PROGRAM = Path(__file__).parent / "suspending.py"


def run(spec: str, how: str, mib: int) -> tuple[list[list[str]], str]:
    command = [sys.executable, "-m", "gpuconf", "run", "--simulate", spec, "--", sys.executable, PROGRAM, how, mib]
    done = script.completed([str(word) for word in command], env=script.plain(), timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize(
    ("spec", "mib"),
    [("A100-40GB:400MiB:driver=13.0", 300), ("A100-40GB:40GiB:driver=13.0", 30 << 10)],
    ids=["all of it is written", "a part of it is written"],
)
def test_two_programs_that_alternate_compute_the_same(spec: str, mib: int) -> None:
    alone, _ = run(spec, "alone", mib)
    turns, said = run(spec, "turns", mib)
    assert [len(lines) for lines in alone] == [61, 61]
    assert turns == alone
    assert alone[0] != alone[1]
    assert int(said.split()[-1]) >= 4
