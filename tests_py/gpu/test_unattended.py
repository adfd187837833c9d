"""The unattended run on a GPU, over the driver that needs none: it resumes, stops in time, and writes its page."""

from __future__ import annotations

import json
import os
import platform
import runpy
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from functools import partial
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fakecuda")
    runpy.run_path(str(HERE.parent.parent / "tests_go" / "machine" / "fakecuda" / "build.py"))["build"](
        folder, version=13000
    )
    return folder


def environment_of(driver: Path, out: Path) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUCONF_", "TF_", "CUDA_", "FAKECUDA_", "GPU_"))}
    environment = clean | {"LD_LIBRARY_PATH": str(driver), "GPU_CASE_ROUNDS": "10000", "FAKECUDA_MEMORY": str(4 << 30)}
    return environment | {"GPUCONF_LEDGER": str(out / "ledger")}


def unattended(driver: Path, out: Path, *arguments: str, expected: int = 0) -> list[str]:
    done = subprocess.run(
        [sys.executable, HERE / "unattended.py", "--out", out, "--turns", "1", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment_of(driver, out),
        timeout=300,
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return (done.stdout + done.stderr).splitlines()


def results(out: Path) -> dict[str, dict[str, object]]:
    return dict(json.loads((out / "gpu-results.json").read_text())["steps"])


def test_steps_run_once_and_again_when_told(driver: Path, tmp_path: Path) -> None:
    first = unattended(driver, tmp_path, "--only", "canary")
    assert first[-1] == "2 steps done, 0 failed, 0 left"
    stitching = results(tmp_path)["stitching_keeps_every_canary"]
    assert stitching["result"] == "passed"
    assert stitching["figures"]["stitches"] > 0  # type: ignore[index]
    assert stitching["figures"]["rounds"] == 10_000  # type: ignore[index]
    assert unattended(driver, tmp_path, "--only", "canary") == [first[0], first[-1]]
    assert len(unattended(driver, tmp_path, "--only", "canary", "--again", "stitching")) == 3


def test_a_call_without_time_leaves_everything_for_the_next(driver: Path, tmp_path: Path) -> None:
    lines = unattended(driver, tmp_path, "--minutes", "0", expected=2)
    assert lines[-1].startswith("0 steps done, 0 failed, ")
    assert not (tmp_path / "gpu-results.json").exists()


def test_a_failing_step_is_reported_and_the_rest_goes_on(driver: Path, tmp_path: Path) -> None:
    small = {"FAKECUDA_MEMORY": str(200 << 20)}  # a card that cannot hold the limit of the case
    environment = environment_of(driver, tmp_path) | small
    command = [sys.executable, HERE / "unattended.py", "--out", tmp_path, "--only", "the_limit_serves"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "1 steps done, 1 failed, 0 left"), (
        done.stdout + done.stderr
    )
    assert "case_the_limit_serves_every_byte" in str(results(tmp_path)["the_limit_serves_every_byte"]["output"])
    assert "nvidia_smi" in results(tmp_path)["the_limit_serves_every_byte"]
    assert "| the limit serves every byte | FAILED |" in (tmp_path / "gpu-results.md").read_text()


def test_a_wheel_that_does_not_work_ends_the_call_and_changes_nothing(driver: Path, tmp_path: Path) -> None:
    wheel, page = tmp_path / "broken.whl", tmp_path / "page.md"
    page.write_text("the page so far")
    with zipfile.ZipFile(wheel, "w") as package:
        package.writestr("gpuconf/__init__.py", "raise RuntimeError('a broken wheel')")
    lines = unattended(driver, tmp_path / "out", "--page", str(page), str(wheel), expected=3)
    assert "cannot be used from" in lines[0]
    assert "a broken wheel" in lines[-1]
    assert page.read_text() == "the page so far"
    assert not (tmp_path / "out" / "gpu-results.json").exists()


def test_a_wheel_for_another_machine_is_refused(tmp_path: Path) -> None:
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    wheel = tmp_path / f"gpuconf-1.0-cp310-abi3-manylinux_2_28_{other}.whl"
    wheel.touch()
    lines = unattended(tmp_path, tmp_path / "out", str(wheel), expected=3)
    assert lines[-1].endswith(f"is for {other}, and this machine is {platform.machine()}")


def test_without_a_gpu_it_says_why_and_changes_nothing(tmp_path: Path) -> None:
    lines = unattended(tmp_path, tmp_path / "out", expected=3)
    assert lines[0] == "this machine has no NVIDIA GPU that gpuconf can use; nothing was run:"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_call_that_is_ended_leaves_its_step_to_the_next(driver: Path, tmp_path: Path, how: signal.Signals) -> None:
    environment = environment_of(driver, tmp_path) | {"GPU_CASE_ROUNDS": "1000000000"}
    command = [sys.executable, HERE / "unattended.py", "--out", tmp_path, "--only", "a_million"]
    # What a shell starts in the background ignores SIGINT, and its children inherit that.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    call = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, preexec_fn=heed)
    try:
        for _ in range(3000):
            if (tmp_path / "gpu-results.json").exists():
                break
            time.sleep(0.02)
        call.send_signal(how)
        output, _ = call.communicate(timeout=60)
    finally:
        call.kill()
    assert call.returncode == (-how if how == signal.SIGKILL else 2)
    if how != signal.SIGKILL:
        assert output.splitlines()[-1] == "0 steps done, 0 failed, 1 left"
    assert unattended(driver, tmp_path, "--only", "a_million")[-1] == "1 steps done, 0 failed, 0 left"
    assert json.loads((tmp_path / "gpu-results.json").read_text())["cut"] == {"a_million_hand_overs_lose_no_canary": 1}


def test_what_the_driver_does_is_noted(driver: Path, tmp_path: Path) -> None:
    unattended(driver, tmp_path, "--only", "what_")
    done = results(tmp_path)
    figures = {
        name: dict(done[f"what_{name}"]["figures"])
        for name in ("a_request_takes_of_the_card", "a_memory_pool_reserves")
    }  # type: ignore[call-overload]
    assert figures["a_request_takes_of_the_card"]["cuMemAlloc_1"].startswith(
        "takes 2097152, then 2097152, leaves 0, at 0x"
    )
    assert "context synchronized: 0 reserved, 0 used" in figures["a_memory_pool_reserves"]["pool_67108864"]
    costs = dict(done["what_mapping_costs"]["figures"])  # type: ignore[call-overload]
    assert set(costs) == {"2_MiB", "32_MiB", "512_MiB"}
    assert min(costs["2_MiB"].values()) >= 0


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go")
def test_the_rules_of_the_go_tests(driver: Path, tmp_path: Path) -> None:
    """They hold of the driver of this machine, whichever it is."""
    unattended(driver, tmp_path, "--only", "rules_of_the_go_tests")
    (done,) = results(tmp_path).values()
    assert done["result"] == "passed", done
    assert done["figures"]["rules"] >= 20  # type: ignore[index]


def test_the_cases_of_the_guard(driver: Path, tmp_path: Path) -> None:
    unattended(driver, tmp_path, "--only", "guard")
    done = results(tmp_path)
    for name in ("the_guards_limit_is_exact_by_every_way_in", "the_preloaded_guards_limit_is_exact_by_every_way_in"):
        assert done[name]["figures"]["ways"] >= 24, done[name]  # type: ignore[index]
    assert {step["result"] for step in done.values()} <= {"passed", "left out"}
    assert {"guarded_torch_fills_its_limit", "guarded_jax_fills_its_limit"} < set(done)
