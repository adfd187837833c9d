"""The workflow for users' CI: its last step, on a package with CUDA tests that knows nothing of gpuconf."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import no_gpu
import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = (ROOT / "examples" / "github-actions.yml").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "howto" / "test-gpu-code-in-ci.md").read_text(encoding="utf-8")

PACKAGE = """
import torch
def normalized(x): return x / x.norm(dim=-1, keepdim=True)
"""
TESTS = """
import package, pytest, torch
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
def test_normalized(device):
    x = torch.tensor([[3.0, 4.0]], device=device)
    assert package.normalized(x).tolist() == [[0.6000000238418579, 0.800000011920929]]
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two():
    assert torch.ones(3, device="cuda:1").to("cuda:0").sum().item() == 3
"""


def test_the_page_shows_the_workflow() -> None:
    assert WORKFLOW[WORKFLOW.index("      - name: Install PyTorch") :].strip() in PAGE


@pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")
def test_its_last_step(tmp_path: Path) -> None:
    (tmp_path / "package.py").write_text(PACKAGE)
    (tmp_path / "test_package.py").write_text(TESTS)
    step = WORKFLOW.rpartition("run: ")[2]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUCONF_", "CUDA_", "PYTEST_"))}
    command = [sys.executable, *shlex.split(step)[1:], "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    assert "gpuconf: simulated GPUs: 2xT4" in done.stdout
