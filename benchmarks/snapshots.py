"""Write the snapshots of ``benchmarks/data/snapshots/recorded``: ``python benchmarks/snapshots.py FOLDER``.

That needs gpuconf and a PyTorch that is built for CUDA. The GPUs are simulated, and PyTorch is the real one: it
allocates, records and writes as on a GPU. Each snapshot is of a process of its own, because some settings hold for a
whole process. What PyTorch itself counted is in counters.json. Names of folders are replaced in the result.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import pathlib
import pickle
import subprocess
import sys
import textwrap
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from tests_py.recordings import Recording

COUNTERS = Recording("snapshots/counters.json")
PRELUDE = """
import json, os, sys
import gpuconf
gpuconf.simulate(sys.argv[2], values="none")
import torch
import torch.nn as nn
from torch.cuda import memory

def model(width=256, layers=4):
    blocks = [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(layers)]
    return nn.Sequential(*blocks)

def step(net, optimizer, batch=64, width=256, device="cuda"):
    x = torch.randn(batch, width, device=device)
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

def dump(counters=True):
    memory._dump_snapshot(sys.argv[1])
    stats = [torch.cuda.memory_stats(i) for i in range(torch.cuda.device_count())]
    names = ["allocated_bytes.all.peak", "requested_bytes.all.peak", "reserved_bytes.all.peak",
             "allocated_bytes.all.current"]
    with open(sys.argv[1] + ".json", "w") as file:
        json.dump({"torch": torch.__version__, "gpus": [{name: s.get(name, 0) for name in names} for s in stats]}, file)
"""

ENDING = """
sys.stdout.flush()
os._exit(0)
"""

TRAIN = """
net = model().cuda()
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(2):
    step(net, optimizer)
dump()
"""

# Name: GPUs, environment, program.
SNAPSHOTS: dict[str, tuple[str, dict[str, str], str]] = {
    "default": ("A100-40GB", {}, "memory._record_memory_history()\n" + TRAIN),
    "python-stacks": ("A100-40GB", {}, "memory._record_memory_history(stacks='python')\n" + TRAIN),
    "no-context": ("A100-40GB", {}, "memory._record_memory_history(context=None)\n" + TRAIN),
    "alloc-context": ("A100-40GB", {}, "memory._record_memory_history(context='alloc')\n" + TRAIN),
    "state": ("A100-40GB", {}, "memory._record_memory_history('state')\n" + TRAIN),
    "state-context": ("A100-40GB", {}, "memory._record_memory_history(context='state')\n" + TRAIN),
    "few-entries": ("A100-40GB", {}, "memory._record_memory_history(max_entries=100)\n" + TRAIN),
    "not-recorded": ("A100-40GB", {}, TRAIN),
    "late": (
        "A100-40GB",
        {},
        """
net = model().cuda()
m = [torch.zeros_like(p) for p in net.parameters()]
memory._record_memory_history()
torch.cuda.reset_peak_memory_stats()
for _ in range(2):
    net(torch.randn(64, 256, device="cuda")).square().mean().backward()
    for i, p in enumerate(net.parameters()):
        m[i] = m[i] * 0.9 + p.grad  # replaces optimizer state that is older than the recording
dump()
""",
    ),
    "three-gpus": (
        "3xA100-40GB",
        {},
        """
memory._record_memory_history()
nets = [model(layers=2 + i).to(f"cuda:{i}") for i in range(3)]
for i, net in enumerate(nets):
    net(torch.randn(64, 256, device=f"cuda:{i}")).sum().backward()
kept = []
try:
    while True:
        kept.append(torch.empty(3_000_000_000, dtype=torch.uint8, device="cuda:1"))
except torch.OutOfMemoryError:
    dump()
""",
    ),
    "out-of-memory": (
        "A100:1GiB",
        {},
        """
memory._record_memory_history()
net = model(width=512).cuda()
kept = []
def grow():
    for batch in range(500, 4000, 500):
        kept.append(net(torch.randn(batch, 512, device="cuda")))
try:
    while True:
        grow()
except torch.OutOfMemoryError:
    dump()
""",
    ),
    "expandable": (
        "A100-40GB",
        {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        "memory._record_memory_history()\n" + TRAIN,
    ),
    "settings": (
        "A100-40GB",
        {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64,roundup_power2_divisions:8"},
        "memory._record_memory_history()\n" + TRAIN,
    ),
    "garbage": (
        "A100-40GB",
        {"PYTORCH_CUDA_ALLOC_CONF": "garbage_collection_threshold:0.5"},
        """
torch.cuda.set_per_process_memory_fraction(0.02)
memory._record_memory_history()
for i in range(60):
    x = torch.empty((10 + 7 * (i % 9)) << 20, dtype=torch.uint8, device="cuda")
    y = torch.empty((30 + 11 * (i % 5)) << 20, dtype=torch.uint8, device="cuda")
dump()
""",
    ),
    "streams": (
        "A100-40GB",
        {},
        """
memory._record_memory_history()
side = torch.cuda.Stream()
kept = []
for i in range(40):
    with torch.cuda.stream(side):
        x = torch.empty((1 + i % 7) << 20, dtype=torch.uint8, device="cuda")
    x.record_stream(torch.cuda.current_stream())
    kept.append(torch.empty(1 + i, 1000, device="cuda"))
    del x
torch.cuda.synchronize()
dump()
""",
    ),
    "graphs": (
        "A100-40GB",
        {},
        """
memory._record_memory_history()
x = torch.zeros(1000, 1000, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
    z = y + x
graph.replay()
kept = [torch.empty(i, 1000, device="cuda") for i in range(1, 50, 7)]
dump()
""",
    ),
    "cuda-malloc-async": (
        "A100-40GB",
        {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
        """
try:
    memory._record_memory_history()
except Exception as error:
    print(error)
kept = [torch.empty(1000 * i, device="cuda") for i in range(1, 9)]
dump(counters=False)
""",
    ),
    "annotations": (
        "A100-40GB",
        {},
        """
memory._record_memory_history(global_record_annotations=True)
with torch.profiler.record_function("## forward ##"):
    x = torch.randn(1000, 1000, device="cuda", requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=False):
        y = (x * 2).sum()
    y.backward()
dump()
""",
    ),
}


def anonymous(snapshot: Any, names: dict[str, str]) -> Any:
    """Replace the beginnings of file names. Equal objects stay one object, so the pickle does not grow."""
    seen: dict[int, Any] = {}

    def change(value: Any) -> Any:
        if isinstance(value, str):
            for old, new in names.items():
                if value.startswith(old):
                    return new + value[len(old) :]
            return value
        if isinstance(value, (list, dict)):
            if id(value) not in seen:
                seen[id(value)] = value
                items = value.items() if isinstance(value, dict) else enumerate(value)
                for key, item in list(items):
                    value[key] = change(item)
            return seen[id(value)]
        return value

    return change(snapshot)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", default=list(SNAPSHOTS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    counted = json.loads(COUNTERS.read_text())
    for name in options.names:
        gpus, environment, program = SNAPSHOTS[name]
        script = options.folder / "train.py"
        script.write_text(PRELUDE + textwrap.dedent(program) + ENDING)
        raw = options.folder / f"{name}.raw"
        words = [sys.executable, "-W", "ignore", str(script), str(raw), gpus]
        done = subprocess.run(words, env=os.environ | environment, capture_output=True, text=True, check=False)
        print(name, done.returncode, (done.stdout + done.stderr)[-2000:].strip())
        if not raw.exists():
            continue
        counters = json.loads(pathlib.Path(f"{raw}.json").read_text())
        names = {str(options.folder): "/home/me", str(pathlib.Path(sys.prefix)): "/venv"}
        for folder in sys.path:
            if folder.endswith("site-packages"):
                names[folder] = "/venv/lib/python3/site-packages"
        snapshot = anonymous(pickle.loads(raw.read_bytes()), dict(sorted(names.items(), key=lambda n: -len(n[0]))))
        version = ".".join(counters["torch"].split(".")[:2])
        packed = gzip.compress(pickle.dumps(snapshot, 4), 9, mtime=0)
        (options.folder / f"torch-{version}-{name}.pickle.gz").write_bytes(packed)
        counted[f"torch-{version}-{name}"] = counters["gpus"]
        raw.unlink()
        pathlib.Path(f"{raw}.json").unlink()
    (options.folder / "train.py").unlink()
    COUNTERS.write_text(json.dumps(counted, indent=1) + "\n")


if __name__ == "__main__":
    main()
