"""Recordings of rehearsals carry their card, PyTorch, settings and command, and are compared with their like only."""

import json
import subprocess
import sys
from pathlib import Path

import no_gpu
import pytest
import script

pytestmark = [
    pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.simulated_programs,
]
PROGRAM = """
import torch
from torch import nn

model = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(torch.randn(8, 512, 256, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_recording_names_its_card_and_is_compared_with_its_like(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    for card in ("T4", "L4", "A10"):
        words = ["--gpu", card, "--record", f"{card}.pickle", "--", sys.executable, "train.py"]
        assert gpuconf(tmp_path, "plan", *words).returncode == 0
    head = gpuconf(tmp_path, "plan", "T4.pickle").stdout.splitlines()[0]
    assert " allocations, on T4 with PyTorch " in head
    assert head.endswith(f"{sys.executable} train.py")
    unlike = gpuconf(tmp_path, "diff", "T4.pickle", "L4.pickle")
    assert (unlike.returncode, unlike.stdout) == (2, "")
    assert "T4.pickle was recorded on T4 and L4.pickle on L4, where PyTorch uses other kernels" in unlike.stderr
    alike = gpuconf(tmp_path, "diff", "--json", "L4.pickle", "A10.pickle")
    assert alike.returncode == 0, alike.stderr
    assert json.loads(alike.stdout)


def gpuconf(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuconf", *words]
    return script.completed(command, timeout=300, cwd=folder, env=script.plain())
