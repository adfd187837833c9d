"""The unattended run on a GPU, over the driver that needs none: it resumes, stops in time, and writes its page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fakecuda")
    build = HERE.parent.parent / "tests_go" / "fakecuda" / "build.py"
    subprocess.run([sys.executable, build, folder], check=True, capture_output=True)
    return folder


def unattended(driver: Path, out: Path, *arguments: str, expected: int = 0) -> list[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUCONF_", "TF_", "CUDA_", "FAKECUDA_", "GPU_"))}
    environment = clean | {"LD_LIBRARY_PATH": str(driver), "GPU_CASE_ROUNDS": "10000", "FAKECUDA_MEMORY": str(4 << 30)}
    environment["GPUCONF_LEDGER"] = str(out / "ledger")
    done = subprocess.run(
        [sys.executable, HERE / "unattended.py", "--out", out, "--turns", "1", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=300,
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout.splitlines()


def results(out: Path) -> dict[str, dict[str, object]]:
    return dict(json.loads((out / "gpu-results.json").read_text())["steps"])


def test_steps_run_once_and_again_when_told(driver: Path, tmp_path: Path) -> None:
    first = unattended(driver, tmp_path, "--only", "canary")
    assert first[-1] == "2 steps done, 0 failed, 0 left"
    stitching = results(tmp_path)["stitching_keeps_every_canary"]
    assert stitching["result"] == "passed"
    assert stitching["figures"]["stitches"] > 0  # type: ignore[index]
    assert unattended(driver, tmp_path, "--only", "canary") == first[-1:]
    assert len(unattended(driver, tmp_path, "--only", "canary", "--again", "stitching")) == 2


def test_a_call_without_time_leaves_everything_for_the_next(driver: Path, tmp_path: Path) -> None:
    lines = unattended(driver, tmp_path, "--minutes", "0", expected=2)
    assert lines[-1].startswith("0 steps done, 0 failed, ")
    assert not (tmp_path / "gpu-results.json").exists()


def test_a_failing_step_is_reported_and_the_rest_goes_on(driver: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "broken.whl"
    with zipfile.ZipFile(wheel, "w") as package:
        package.writestr("gpuconf/__init__.py", "raise RuntimeError('a broken wheel')")
    lines = unattended(driver, tmp_path, "--only", "the_limit_serves", str(wheel), expected=1)
    assert lines[-1] == "1 steps done, 1 failed, 0 left"
    assert "a broken wheel" in str(results(tmp_path)["the_limit_serves_every_byte"]["output"])
    assert "| the limit serves every byte | FAILED |" in (tmp_path / "gpu-results.md").read_text()
    assert (
        unattended(driver, tmp_path, "--only", "the_limit_serves")[-1] == "1 steps done, 0 failed, 0 left"
    )  # another wheel begins anew


def test_the_cases_of_the_guard(driver: Path, tmp_path: Path) -> None:
    unattended(driver, tmp_path, "--only", "guard")
    done = results(tmp_path)
    for name in ("the_guards_limit_is_exact_by_every_way_in", "the_preloaded_guards_limit_is_exact_by_every_way_in"):
        assert done[name]["figures"]["ways"] >= 24, done[name]  # type: ignore[index]
    assert {step["result"] for step in done.values()} <= {"passed", "left out"}
    assert {"guarded_torch_fills_its_limit", "guarded_jax_fills_its_limit"} < set(done)
