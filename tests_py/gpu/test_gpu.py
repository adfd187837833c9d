"""The cases for a real GPU under pytest: ``pytest -m gpu``. ``make gpu-test`` runs them without pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gpuconf
import pytest

CASE = Path(__file__).with_name("case.py")
NAMES = subprocess.run([sys.executable, CASE], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_on_a_gpu(name: str) -> None:
    if not gpuconf.config.list_physical_devices("GPU"):
        pytest.skip("this machine has no NVIDIA GPU")
    done = subprocess.run([sys.executable, CASE, name], capture_output=True, text=True, check=False, timeout=600)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip().rpartition("\n")[2])
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_script_without_a_gpu_leaves_every_case_out() -> None:
    env = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, CASE.with_name("run.py"), "--only", "buffer"],
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )
    if "passed" in done.stdout.splitlines()[0]:
        pytest.skip("this machine has an NVIDIA GPU")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0] == "left out  a buffer keeps what was written: there is no real GPU"
    assert done.stdout.splitlines()[-1] == "0 passed, 2 left out, 0 FAILED"
