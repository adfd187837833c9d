"""Tensors that torch.multiprocessing hands to another process: on simulated GPUs, as on an H200."""

import re
import sys
import textwrap
from pathlib import Path

import no_gpu
import pytest
import script

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")
WORKLOADS = Path(__file__).resolve().parents[1] / "gpu" / "cases" / "workloads.py"  # whose program runs on a card
# Its sum, there; its sum in MiB, here; the others' values.
ARRIVED = [f"{24 << 20}.0", "filled", "48", "[0.0,", "1.0,", "2.0]"]


def handed_over(folder: Path, configure: str, *words: str) -> str:
    program = folder / "train.py"
    (text,) = re.findall(r'^HANDED_OVER = """(.*?)"""', WORKLOADS.read_text(), re.DOTALL | re.MULTILINE)
    program.write_text(textwrap.dedent(text).replace("gpuconf.configure(", configure))
    command = [sys.executable, "-m", "gpuconf", "run", "--simulate", "H100-80GB", "--", sys.executable, program, *words]
    done = script.completed(command, timeout=150, cwd=folder)
    return done.stdout + done.stderr


def test_from_pytorchs_own_allocator(tmp_path: Path) -> None:
    assert handed_over(tmp_path, "dict(", "whole").split()[: len(ARRIVED)] == ARRIVED


def test_from_segments_of_a_pool(tmp_path: Path) -> None:
    """Not at PyTorch's offset in its segment, where the memory of another tensor is."""
    assert handed_over(tmp_path, "gpuconf.configure(", "whole").split()[: len(ARRIVED)] == ARRIVED


def test_a_pool_that_grows_refuses_with_the_next_step(tmp_path: Path) -> None:
    said = handed_over(tmp_path, "gpuconf.configure(", "growing")
    assert "a pool that grows cannot hand tensors to other processes: use gpuconf.configure(growth=False)" in said
