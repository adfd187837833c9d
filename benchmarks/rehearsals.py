"""How long `gpuconf plan -- PROGRAM` takes to answer, and how much memory of the host it needs.

    SIMULATED_TORCH=PYTHON python benchmarks/rehearsals.py

PYTHON has gpuconf and a PyTorch that is built for CUDA; `make test-frameworks` makes one. The programs train
Transformers with bfloat16 autocast, clip_grad_norm_ and AdamW. Each is run with its model built on the GPU, and on the
CPU and then
moved.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.report import table  # noqa: E402
from benchmarks.simulated_torch import PYTHON, environment  # noqa: E402

PROGRAM = """
import sys, torch, torch.nn.functional as F
from torch import nn

width, layers, inner, where = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
words, heads = 32000, width // 128

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.gate = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        y = self.first(x)
        q, k, v = (one(y).unflatten(-1, (heads, -1)).transpose(1, 2) for one in (self.q, self.k, self.v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.embedding(ids))))

with torch.device(where):
    model = Model()
model.to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(100):
    ids = torch.randint(0, words, (4, 1024), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
# Width, layers and inner width, and the goals.
MODELS = {"470 million": ("1024", "24", "4096", 30, None), "7 billion": ("4096", "32", "11008", 120, 2048)}


def answered(words: list[str]) -> tuple[float, float, int]:
    """Run a command. Returns its seconds, its processor time, and the most memory of one of its processes in MiB."""
    mine, its = Pipe()
    process = Process(target=_run, args=(words, its))
    process.start()
    found: tuple[float, float, int] = mine.recv()
    process.join()
    return found


def _run(words: list[str], answer: Connection) -> None:
    """Run a command in a process of its own, whose only descendants are the command's."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text(PROGRAM)
        begin = time.monotonic()
        done = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
        seconds = time.monotonic() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "the steps repeat" in " ".join(done.stdout.split()), done.stdout + done.stderr
    answer.send((seconds, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10))


def measure() -> list[dict[str, str]]:
    """Measure. Without a PyTorch one row says so."""
    if not Path(PYTHON).exists():
        return [{"model": "not measured: there is no Python with PyTorch (`make test-frameworks`)"}]
    rows = []
    for name, (width, layers, inner, seconds, memory) in MODELS.items():
        for where, says in (("cuda", "on the GPU"), ("cpu", "on the CPU, then moved")):
            words = [
                PYTHON,
                "-m",
                "gpuconf",
                "plan",
                "--gpu",
                "H100-80GB",
                "--",
                "train.py",
                width,
                layers,
                inner,
                where,
            ]
            took, processor, most = answered(words)
            rows.append(
                {
                    "parameters": name,
                    "built": says,
                    "answered in": f"{took:.0f} s",
                    "processor time": f"{processor:.0f} s",
                    "host memory": f"{most} MiB",
                    "goal": f"<= {seconds} s" + (f", < {memory} MiB" if memory else ""),
                }
            )
    return rows


if __name__ == "__main__":
    print(table(measure()))
