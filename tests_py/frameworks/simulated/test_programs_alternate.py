"""Two PyTorch programs for which one simulated card has no room alternate on it by themselves: the same losses and the
same memory, bit for bit, as in a run alone, and the card never gives out more than it has.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import no_gpu
import pytest
from gpuconf.jobs import simulated_cards

pytestmark = [
    pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.simulated_programs,
]
# It is idle for a time after each of its parts. Of much memory it writes a part.
PROGRAM = """
import hashlib, json, sys, time
import torch
mib, seed, idle = map(int, sys.argv[1:])
torch.manual_seed(seed)
held = torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
at, step = held.data_ptr(), max(1, mib // 256)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses, turns = [], []
for part in range(3):
    for i in range(0, mib, step):
        held[i << 20 : (i + 1) << 20] = (i * 37 + seed + part) % 251
    for _ in range(20):
        loss = (model(torch.randn(32, 64, device="cuda")) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    turns.append(time.time())
    time.sleep(idle)
digest = hashlib.sha256()
for i in range(0, mib, step if mib > 1024 else 1):
    digest.update(held[i << 20 : (i + 1) << 20].cpu().numpy().tobytes())
print(json.dumps([[losses, digest.hexdigest(), held.data_ptr() == at], turns]), flush=True)
"""
# Samples what the card has given out, and prints the most, and how often it looked.
CHECKER = """
import sys, threading, time
from gpuconf.jobs.simulated_cards import SimulatedCards
cards, ended = SimulatedCards(sys.argv[1]), threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
most = looks = 0
while not ended.wait(0.002):
    (use,) = cards.usage().values()
    most, looks = max(most, use.used), looks + 1
print(most, looks)
"""
# The command, whose agent takes moving memory for fast, as it is here, where little of it is written: turns would else
# last for minutes. And the host's memory for as large as that of a machine with such a card.
FAST = """
import sys
import gpuconf.jobs.turns as turns
fast = "import gpuconf.jobs.agent as agent; from gpuconf._core.generated.ledger import Host; "
fast += "agent._OUT = agent._IN = 1e12; agent.host_room = lambda: Host(1 << 38, 1 << 38, 1 << 38); sys.exit"
turns._CODE = turns._CODE.replace("sys.exit", fast)
from gpuconf.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("card", "lease", "mib"),
    [("400MiB", "345MiB", 300), ("40GiB", "31GiB", 30 << 10)],
    ids=["all of it is written", "a part of it is written"],
)
def test_two_programs_that_alternate_by_themselves_compute_the_same(
    tmp_path: Path, card: str, lease: str, mib: int
) -> None:
    spec = f"A100-40GB:{card}:driver=13.0"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUCONF_", "CUDA_", "LD_"))}
    environment = {**kept, "GPUCONF_SIMULATE": spec, "GPUCONF_LEDGER": str(tmp_path / "ledger")}
    code = "import gpuconf.machine.cards as m; print([(one.uuid, one.total_memory) for one in m.visible_devices()])"
    listed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    ((uuid, size),) = ast.literal_eval(listed.stdout)
    with simulated_cards.share({uuid: size}, spec) as cards:
        shared = {**environment, **cards.environment}

        def start(seed: int, idle: int) -> subprocess.Popen[str]:
            run = [sys.executable, "-c", FAST, "run", "--simulate", spec, "--memory", lease, "--turns"]
            words = [*run, sys.executable, "-c", PROGRAM, str(mib), str(seed), str(idle)]
            return subprocess.Popen(words, env=shared, stdout=subprocess.PIPE, text=True)

        def ended(program: subprocess.Popen[str]) -> list[object]:
            said, _ = program.communicate(timeout=400)
            assert program.returncode == 0
            return json.loads(said)  # type: ignore[no-any-return]

        alone = [ended(start(seed, 0))[0] for seed in (1, 2)]
        words = [sys.executable, "-c", CHECKER, cards.path]
        checker = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        programs = [start(seed, 13) for seed in (1, 2)]
        (first, ends), (second, other) = map(ended, programs)
        most, looks = map(int, checker.communicate(timeout=60)[0].split())
        (use,) = cards.usage().values()
    assert [first, second] == alone
    assert alone[0][2] is True  # type: ignore[index]
    assert alone[0] != alone[1]
    order = "".join(name for _, name in sorted([(at, "a") for at in ends] + [(at, "b") for at in other]))
    assert order in ("ababab", "bababa")
    assert mib << 20 <= most <= use.peak <= size
    assert looks > 1000
