"""``gpuconf plan`` of a trace that PyTorch's profiler writes: its peak is the one that the program had."""

import sys
from pathlib import Path

import gpuconf
import no_gpu
import pytest
import script

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")

PROGRAM = """
import torch
from torch.profiler import profile
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
with profile(profile_memory=True) as profiled:
    for _ in range(3):
        model(torch.randn(512, 1024, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
profiled.export_chrome_trace("trace.json.gz")
print(torch.cuda.max_memory_allocated())
"""


def test_the_peak_of_a_profilers_trace_is_the_programs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "gpuconf",
        "run",
        "--simulate",
        "T4",
        "--values",
        "none",
        sys.executable,
        "train.py",
    ]
    done = script.completed(command, timeout=200, cwd=tmp_path, env=script.plain())
    assert done.returncode == 0, done.stderr
    (usage,) = gpuconf.plan(tmp_path / "trace.json.gz", policy="pytorch").usages
    assert usage.peak_bytes_in_use == int(done.stdout)
    assert usage.bytes_before > 0
