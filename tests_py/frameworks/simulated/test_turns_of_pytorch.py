"""PyTorch programs that take turns on one simulated card: the same losses, memory and graphs as in a run alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import script
from gpuconf.jobs import simulated_cards

pytest.importorskip("torch")
SPEC = "A100-40GB:900MiB:driver=13.0"
# It trains, is idle until a file is there, and goes on: with a graph that was captured before.
PROGRAM = """
import hashlib, json, os, sys, time
import torch
seed, gate = int(sys.argv[1]), sys.argv[2]
torch.manual_seed(seed)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
held = torch.arange(80 << 20, device="cuda", dtype=torch.int32).mul_(seed)
static = torch.zeros(1024, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    doubled = static * 2 + 1
losses = []
def train(steps):
    for _ in range(steps):
        data = torch.randn(32, 64, device="cuda")
        loss = model(data).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
train(5)
at = held.data_ptr()
print("idle", flush=True)
while gate and not os.path.exists(gate):
    time.sleep(0.2)
train(5)
static.fill_(seed)
graph.replay()
digest = hashlib.sha256(held.cpu().numpy().tobytes()).hexdigest()
same = held.data_ptr() == at
print(json.dumps([losses, doubled.sum().item(), digest, same, torch.cuda.memory_allocated()]), flush=True)
"""


def test_a_program_that_was_parked_computes_what_it_computes_alone(tmp_path: Path) -> None:
    environment = {**os.environ, "GPUCONF_SIMULATE": SPEC, "GPUCONF_LEDGER": str(tmp_path / "ledger")}
    code = "import gpuconf.machine.cards as machine; print(machine.visible_devices()[0].uuid)"
    listed = script.completed([sys.executable, "-c", code], env=environment, check=True)
    run = [sys.executable, "-m", "gpuconf", "run", "--simulate", SPEC, "--memory", "500MiB", "--turns"]
    gate = tmp_path / "gate"
    with simulated_cards.share({listed.stdout.strip(): 900 << 20}, SPEC) as cards:
        shared = {**environment, **cards.environment}

        def start(seed: int, wait: str) -> subprocess.Popen[str]:
            words = [*run, sys.executable, "-c", PROGRAM, str(seed), wait]
            return subprocess.Popen(words, env=shared, stdout=subprocess.PIPE, text=True)

        alone = [json.loads(start(seed, "").communicate(timeout=120)[0].splitlines()[1]) for seed in (3, 5)]
        first = start(3, str(gate))
        assert first.stdout is not None
        assert first.stdout.readline() == "idle\n"
        second = start(5, "")
        said = second.communicate(timeout=120)[0].splitlines()
        gate.touch()
        assert [json.loads(first.communicate(timeout=120)[0]), json.loads(said[1])] == alone
        assert alone[0][3] is True
        (use,) = cards.usage().values()
        assert use.peak <= use.limit
        assert use.contexts_peak == 1  # never both


CACHE = """
import sys, time
import torch
kept = torch.ones(80 << 18, device="cuda", dtype=torch.int32)
cached = [torch.ones(100 << 18, device="cuda", dtype=torch.int32) for _ in range(3)]
del cached
print(torch.cuda.memory_reserved() >> 20, flush=True)
sys.stdin.readline()
print(torch.cuda.memory_reserved() >> 20, int(kept[-1]), flush=True)
"""


LEASED = "import gpuconf\nleased = gpuconf.lease('200MiB..700MiB').__enter__()\n"


@pytest.mark.parametrize("by", ["gpuconf run", "gpuconf.lease"])
def test_pytorchs_cache_goes_back_to_who_needs_it(tmp_path: Path, by: str) -> None:
    """Memory was lent to the program, and it keeps what it uses: it is not suspended."""
    environment = {**os.environ, "GPUCONF_SIMULATE": SPEC, "GPUCONF_LEDGER": str(tmp_path / "ledger")}
    code = "import gpuconf.machine.cards as machine; print(machine.visible_devices()[0].uuid)"
    listed = script.completed([sys.executable, "-c", code], env=environment, check=True)
    run = [sys.executable, "-m", "gpuconf", "run", "--simulate", SPEC, "--memory"]
    with simulated_cards.share({listed.stdout.strip(): 900 << 20}, SPEC) as cards:
        shared = {**environment, **cards.environment}
        words = [*run, "200MiB..700MiB", sys.executable, "-c", CACHE]
        if by == "gpuconf.lease":
            words = [sys.executable, "-c", LEASED + CACHE]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        borrower = subprocess.Popen(words, env=shared, text=True, **pipes)
        assert borrower.stdout is not None
        assert int(borrower.stdout.readline()) >= 380
        subprocess.run([*run, "400MiB", "true"], env=shared, check=True, timeout=120)
        said, errors = borrower.communicate("\n", timeout=60)
        assert said, errors
        reserved, last = map(int, said.split())
        assert (reserved <= 200, last) == (True, 1)
        assert "lent again" not in errors
