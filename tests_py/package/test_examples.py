"""The examples run, without warnings, and print what they demonstrate."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from script import execute, run_with_children

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

SHOWN = {
    "cluster.py": [
        "ann: 8 jobs done",
        "ben: 8 jobs done",
        "ann: killed the worker at tcp://127.0.0.1:",
        "ben: no worker went beyond its 18 GiB, the highest peak of a job was 17.4 GiB",
    ],
    "demo.py": [
        "SIMULATED GPUs (2xH100-80GB)",
        "reserved 83,132,153,856 bytes",
        "reserved      2,097,152 bytes",
        "Cannot set memory growth on device when virtual devices configured",
        "read back         bytes that were on the GPU",
        "MemoryError: OOM when allocating 20.00MiB",
        "▕████████········████████········████████········████████········▏",
        "MiB were remapped; 64 MiB of the GPU's memory are reserved",
    ],
    "plan_a_server.py": [  # docs/plan.md quotes the figures
        "GPU:0  pytorch       no       20.13GiB",
        "GPU:0  tensorflow    no       21.19GiB",
        "GPU:0  virtual       yes      16.00GiB     16.00GiB       18.00GiB",
        "advice: export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    ],
    "two_tenants.py": [
        "modest on GPU:0 got all its buffers; its peak was 160 MiB",
        "greedy on GPU:1 ran out of memory after 8 of 10 buffers",
    ],
    "wait_for_memory.py": ["8 jobs of 60 MiB ran under a limit of 100 MiB; the peak was 60 MiB"],
    "which_machine.py": ["'2,0': Tesla T4, NVIDIA H100 80GB HBM3", "'1,-1,0': NVIDIA A100-SXM4-40GB", "'': no GPU"],
}


ARGUMENTS = {"cluster.py": ["--workers", "4", "--jobs", "16"]}


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_script(name: str, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GPUCONF_", "TF_", "CUDA_"))}
    done = run_with_children(
        [sys.executable, EXAMPLES / name, *ARGUMENTS.get(name, [])],
        env=environment | {"PYTHONIOENCODING": "utf-8", "GPUCONF_LEDGER": str(tmp_path / "ledger")},
        timeout=120,
    )
    assert (done.code, done.stderr) == (0, "")
    for text in SHOWN[name]:
        assert text in done.stdout


def test_a_script_that_hangs_leaves_no_workers(tmp_path: Path) -> None:
    """When the time of cluster.py was over, its workers ran on."""
    words = ["sh", "-c", f"sleep 600 & echo $! > {tmp_path}/worker; wait"]
    with pytest.raises(subprocess.TimeoutExpired):
        run_with_children(words, env=dict(os.environ), timeout=1)
    worker = Path("/proc", (tmp_path / "worker").read_text().strip(), "cmdline")
    deadline = time.monotonic() + 10
    while worker.exists() and worker.read_text() and time.monotonic() < deadline:  # a zombie's is empty
        time.sleep(0.02)
    assert not (worker.exists() and worker.read_text())


def demo(**environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUCONF_", "TF_", "CUDA_"))}
    return execute([sys.executable, EXAMPLES / "demo.py"], env=clean | environment)


def test_what_the_demo_shows_can_be_pasted() -> None:
    """Line by line, including the errors that it shows."""
    lines = [
        line.removeprefix(">>> ")
        for line in demo(PYTHONIOENCODING="utf-8").stdout.splitlines()
        if line.startswith(">>> ")
    ]
    namespace: dict[str, Any] = {}
    raised = []
    for line in lines:
        try:
            exec(line, namespace)
        except (ValueError, RuntimeError, MemoryError) as error:
            raised.append((line.partition("(")[0], type(error).__name__))
    for buffer in namespace["buffers"]:
        buffer.free()
    assert raised == [
        ("tf.config.experimental.set_memory_growth", "ValueError"),
        ("tf.config.set_visible_devices", "RuntimeError"),
        ("tf.memory.allocate", "ResourceExhaustedError"),
    ]


def test_demo_with_one_gpu() -> None:
    done = demo(GPUCONF_SIMULATE="T4")
    assert (done.returncode, done.stderr) == (0, "")
    assert "SIMULATED GPUs (T4)" in done.stdout
    assert "Hard limits: GPU:1 has 64 MiB" in done.stdout


def test_demo_on_an_unknown_machine_says_so_in_a_sentence() -> None:
    done = demo(GPUCONF_SIMULATE="bogus")
    assert done.returncode == 1
    assert done.stderr.startswith('GPUCONF_SIMULATE: cannot simulate "bogus"')
    assert done.stderr.count("\n") == 1


def test_demo_uses_the_gpus_of_the_machine(tmp_path: Path) -> None:
    build = Path(__file__).resolve().parents[2] / "tests_go" / "machine" / "fakecuda" / "build.py"
    subprocess.run([sys.executable, build, tmp_path], check=True, capture_output=True)
    done = demo(LD_LIBRARY_PATH=str(tmp_path), FAKECUDA_MEMORY=str(3 << 30))
    assert (done.returncode, done.stderr) == (0, "")
    assert "on the GPUs of this machine." in done.stdout
    assert "read back         bytes that were on the GPU" in done.stdout


def test_the_notebook_for_teachers() -> None:
    import nbformat  # takes seconds
    from nbclient import NotebookClient

    notebook = nbformat.read(EXAMPLES / "teaching.ipynb", as_version=4)
    # On a busy machine the kernel sends what one print() writes in two parts: join them.
    NotebookClient(notebook, timeout=60, kernel_name="python3", coalesce_streams=True).execute()
    outputs = "".join(str(cell.get("outputs", "")) for cell in notebook.cells)
    assert "this cell took 1.86GiB at its peak and left 1.40GiB on GPU:0" in outputs
    assert "out of memory, the limit is reached" in outputs
    assert "5.40GiB" in outputs
    assert "does not fit" in outputs
    assert "stitches: 1  reserved MiB: 8192" in outputs
    assert "cannot reset while device memory is in use" in outputs
    assert "array([[11.]]" in outputs


def test_every_notebook_is_tested() -> None:
    """The one for PyTorch runs in tests_py/frameworks."""
    assert {path.name for path in EXAMPLES.glob("*.ipynb")} == {"teaching.ipynb", "pytorch.ipynb"}
