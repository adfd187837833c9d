"""The workflow for users' CI: its last step. integrations/users_workflow.py runs all of them."""

import shlex
import sys
from pathlib import Path

import no_gpu
import package_with_cuda_tests
import pytest
import script

pytestmark = pytest.mark.simulated_programs

ROOT = Path(__file__).resolve().parents[3]
WORKFLOW = (ROOT / "examples" / "github-actions.yml").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")


def test_the_page_shows_the_workflow() -> None:
    assert WORKFLOW[WORKFLOW.index("      - name: Install PyTorch") :].strip() in PAGE


@pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")
def test_its_last_step(tmp_path: Path) -> None:
    package_with_cuda_tests.write(tmp_path)
    step = WORKFLOW.rpartition("run: ")[2]
    command = [sys.executable, *shlex.split(step)[1:], "-p", "no:cacheprovider"]
    out = script.printed(command, cwd=tmp_path, env=script.plain(), timeout=600)
    assert package_with_cuda_tests.PASSED in out
    assert "gpuconf: simulated GPUs: 2xT4" in out
