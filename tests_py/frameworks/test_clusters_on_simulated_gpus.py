"""PyTorch in the workers of Dask on simulated GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import no_gpu
import pytest

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")
DROPPED = ("GPUCONF_", "CUDA_", "FAKECUDA_", "PYTORCH_", "LD_", "DASK_")
LOOK = """
def look():
    import sys
    early = "torch" in sys.modules
    import torch
    product = (torch.arange(4.0, device="cuda") * 2).sum().item()
    try:
        torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
        limited = False
    except torch.OutOfMemoryError:
        limited = True
    return torch.cuda.get_device_name(), product, limited, early
"""


def run(folder: Path, program: str) -> str:
    file = folder / "cluster.py"
    file.write_text(LOOK + textwrap.dedent(program), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
    command = [sys.executable, "-W", "ignore", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=kept)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_dask_workers_that_import_torch_at_their_start(tmp_path: Path) -> None:
    program = """
    import distributed
    import gpuconf.dask

    if __name__ == "__main__":
        options = {"memory": "1GiB", "simulate": "2xT4", "pre_import": "torch", "dashboard_address": None}
        with gpuconf.dask.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
            for found in client.run(look).values():
                print(found)
    """
    assert run(tmp_path, program).splitlines() == ["('Tesla T4 (simulated)', 12.0, True, True)"] * 2
