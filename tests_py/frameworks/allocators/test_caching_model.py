"""PyTorch's own allocator beside gpuconf's model of it: random requests over a driver of host memory, address by
address.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import no_gpu
import pytest
import script
from fake_nvml import fake_nvml

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")

# Sizes from bytes to 100 MiB, three streams, tensors that another stream still uses when they are freed, and
# empty_cache().
PROGRAM = """
import math, os, random
import torch
random.seed(int(os.environ["SEED"]))
torch.cuda.memory._record_memory_history(stacks="python", max_entries=int(os.environ["ENTRIES"]))
if os.environ["FRACTION"] != "0":
    torch.cuda.set_per_process_memory_fraction(float(os.environ["FRACTION"]))
streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
pools = [torch.cuda.MemPool() for _ in range(2 if os.environ.get("POOLS") else 0)]
live = []
for step in range(int(os.environ["STEPS"])):
    p = random.random()
    if pools and p < 0.1 and len(live) < 120:
        try:
            with torch.cuda.use_mem_pool(random.choice(pools)):
                live.append(torch.empty(int(math.exp(random.random() * math.log(20 << 20))), dtype=torch.uint8,
                                        device="cuda"))
        except torch.OutOfMemoryError:
            del live[: len(live) // 2]
    elif p < 0.53 and len(live) < 120:
        stream = random.choice(streams)
        with torch.cuda.stream(stream):
            try:
                live.append(torch.empty(int(math.exp(random.random() * math.log(100 << 20))), dtype=torch.uint8,
                                        device="cuda"))
            except torch.OutOfMemoryError:
                del live[: len(live) // 2]
    elif p < 0.95 and live:
        del live[random.randrange(len(live))]
    elif p < 0.98 and live:
        live[random.randrange(len(live))].record_stream(random.choice(streams))
    elif p > 0.995:
        torch.cuda.empty_cache()
torch.cuda.memory._dump_snapshot(os.environ["SNAPSHOT"])
"""

SETTINGS = {
    "defaults": "",
    "max_split_size": "max_split_size_mb:32",
    "roundup": "roundup_power2_divisions:8",
    "roundup by size": "roundup_power2_divisions:[1:1,4:4,16:2,>:8]",
    "garbage collection": "garbage_collection_threshold:0.6",
    "expandable segments": "expandable_segments:True",
    "private pools": "",
}


# What a cut record does not determine is the state when it begins: its cost is the same however long the record is.
@pytest.mark.parametrize(("steps", "entries", "seeds"), [(4000, 100_000, 2), (20_000, 24_000, 1)], ids=["whole", "cut"])
@pytest.mark.parametrize("fraction", ["0", "0.02"], ids=["unlimited", "limited"])
@pytest.mark.parametrize("name", SETTINGS)
def test_every_address_is_the_same(
    name: str,
    fraction: str,
    steps: int,
    entries: int,
    seeds: int,
    driver: Path,
    run: Callable[..., str],
    tmp_path: Path,
) -> None:
    # An expandable segment asks NVML about the GPU's NVLink fabric.
    machine = tmp_path / "machine.txt"
    machine.write_text(
        f"card {no_gpu.FIRST_CARD} domain=0 bus=26 device=0 cc=9.0 mig=off total=1073741824 used=0 no GPU\n"
    )
    nvml = fake_nvml(tmp_path)
    allocations = 0
    for seed in range(seeds):
        path = tmp_path / f"{seed}.pickle"
        run(
            PROGRAM,
            LD_LIBRARY_PATH=f"{nvml}:{driver}",
            FAKE_NVML=str(machine),
            FAKECUDA_LENIENT="1",  # addresses as NVIDIA's driver has them: a multiple of 2 MiB, for expandable segments
            SNAPSHOT=str(path),
            SEED=str(seed),
            STEPS=str(steps),
            ENTRIES=str(entries),
            FRACTION=fraction,
            POOLS="1" if name == "private pools" else "",
            PYTORCH_CUDA_ALLOC_CONF=SETTINGS[name],
        )
        command = [sys.executable, "-m", "gpuconf", "plan", str(path), "--verify", "--json"]
        done = script.completed(command)
        assert (done.returncode, done.stderr) == (0, "")
        found = json.loads(done.stdout)
        assert found["same_address"] + found["undetermined"] == found["allocations"]
        assert found["same_segments"] == found["segments"]
        assert found["undetermined"] <= 0.001 * found["allocations"]
        allocations += found["allocations"]
    assert allocations > 1000


# Keeps the activations of growing batches until PyTorch runs out of memory, and prints how many tensors it made until
# then.
GROWING = """
import os
import torch
torch.cuda.memory._record_memory_history()
kept, made = [], 0
try:
    for step in range(1000):
        kept, batch = [], 512 + 96 * (step * 7 % 13) + 32 * step
        for layer in range(24):
            for width in (4096, 1024):
                kept.append(torch.empty(batch, width, device="cuda"))
                made += 1
except torch.OutOfMemoryError:
    pass
torch.cuda.memory._dump_snapshot(os.environ["SNAPSHOT"])
print(made)
"""


def test_what_a_plan_promises_of_a_job_that_ran_out_of_memory_holds(run: Callable[..., str], tmp_path: Path) -> None:
    def made(settings: str, path: Path) -> int:
        return int(run(GROWING, SNAPSHOT=str(path), PYTORCH_CUDA_ALLOC_CONF=settings).split()[-1])

    path = tmp_path / "oom.pickle"
    failed = made("", path)
    command = [sys.executable, "-m", "gpuconf", "plan", str(path), "--json"]
    found = json.loads(script.completed(command).stdout)
    (state,) = found["out_of_memory"]
    assert not state["own_limit"]
    tried = {r["policy"]: r for r in found["results"] if r["policy"].startswith("pytorch")}
    assert tried.pop("pytorch")["fits"] is False
    tried.pop("pytorch-expandable")  # needs NVML, see above; and the GPU's memory is not a limit of PyTorch's
    for result in tried.values():
        assert result["fits"] is (made(result["settings"], tmp_path / "again.pickle") > failed), result["settings"]
