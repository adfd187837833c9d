"""What tests_go/machine/drivertest states of every driver: the simulator is tested by the same rules."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from checks import Missing, expect

ROOT = Path(__file__).resolve().parents[3]
COMPILED = ROOT / "dist" / f"driver-rules_{platform.machine()}"
TEST = "TestInChildOnThisMachine"  # of tests_go/machine/cuda


def case_the_driver_keeps_the_rules_of_the_go_tests() -> dict[str, Any]:
    """They are compiled here if there is Go, else beforehand (make gpu-rules)."""
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder) / "rules")
        environment = os.environ | {"GPUCONF_CUDA_TEST_CHILD": "tests"}
        words = [program, f"-test.run=^{TEST}$", "-test.v"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    expect(done.returncode == 0, f"{done.stdout[-20000:]}\n{done.stderr[-20000:]}")
    kept = re.findall(rf"^ *--- PASS: {TEST}/(\S+)", done.stdout, re.MULTILINE)
    left_out = re.findall(rf"^ *--- SKIP: {TEST}/(\S+)", done.stdout, re.MULTILINE)
    expect(bool(kept), done.stdout[-20000:])
    return {"rules": len(kept), "left_out": left_out}


def compiled(target: Path) -> Path:
    """The program with the rules."""
    go = shutil.which("go")
    if go is not None:
        words = [go, "test", "-c", "-tags=invariants", "-o", str(target), "./tests_go/machine/cuda"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return target
    if COMPILED.exists():
        return COMPILED
    raise Missing(
        f"there is no Go that compiles tests_go/machine/cuda, and no {COMPILED.relative_to(ROOT)} (make gpu-rules)"
    )
