"""What PyTorch costs on simulated GPUs: steps of a GPT-2-small with each choice of values, memory, and the import.

    SIMULATED_TORCH=PYTHON python benchmarks/simulated_torch.py

PYTHON has gpuconf and a PyTorch that is built for CUDA; `make test-frameworks` makes one. Each contender is a process
that runs one step for each line of its input, so they take turns one at a time. Processor times are the least of the
rounds, because other programs only add to them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = os.environ.get("SIMULATED_TORCH") or str(ROOT / ".venv-frameworks" / "torch-2.15-cuda13" / "bin" / "python")
ROUNDS = int(os.environ.get("ROUNDS", "15"))
IMPORTS = int(os.environ.get("IMPORTS", "15"))

MODEL = """
import torch, torch.nn.functional as F
from torch import nn
torch.set_num_threads(1)

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        q, k, v = (one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in self.qkv(self.ln1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.ln2(x))))

class GPT2(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, vocabulary=50257, length=1024):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.size(1), device=ids.device))
        return self.head(self.norm(self.blocks(x)))

def stepper(device, batch=4, length=512, **sizes):
    model = GPT2(**sizes).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.zeros(batch, length, dtype=torch.long, device=device)
    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return step
"""
LOOP = """
import sys, time, contextlib
def serve(step, around=contextlib.nullcontext):
    with around():
        step(); step()
        print("ready", flush=True)
        for _ in sys.stdin:
            before = time.process_time()
            step()
            print(time.process_time() - before, flush=True)
"""
NONE = 'import gpuconf\ngpuconf.simulate("H100-80GB", values="none")\n'
# Without the Python kernels, PyTorch's own run for every operation, and all that they launch, fill and copy does
# nothing.
NOTHING = (
    NONE
    + """
import ctypes, os
ctypes.CDLL(os.environ["NOTHING"], ctypes.RTLD_GLOBAL)
from gpuconf.simulation import simulated_torch
simulated_torch._after = lambda: None
"""
)
# Launches in a thread that is marked are not counted. Backward passes have a thread of their own.
MARKED = """
from gpuconf.simulation import stand_ins
class Mark(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()
    @staticmethod
    def backward(context, grad):
        stand_ins.library.gpuconf_runtime_mark(1)
        return grad
stand_ins.library.gpuconf_runtime_mark(1)
Mark.apply(torch.ones(1, device="cuda", requires_grad=True)).sum().backward()
"""
EMPTY_MODE = """
from torch.utils._python_dispatch import TorchDispatchMode
class Empty(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))
"""
SMALL = "batch=2, length=64, layers=4, width=512, heads=8, vocabulary=8192"
STEPS = {
    "libraries": NOTHING + MODEL + MARKED + LOOP + 'serve(stepper("cuda"))',
    "mode": NOTHING + MODEL + MARKED + LOOP + EMPTY_MODE + 'serve(stepper("cuda"), Empty)',
    "none": NONE + MODEL + LOOP + 'serve(stepper("cuda"))',
}
COMPUTED = {
    "device": MODEL + LOOP + f'serve(stepper("cpu", {SMALL}))',
    "cpu": 'import gpuconf\ngpuconf.simulate("A100-40GB")\n' + MODEL + LOOP + f'serve(stepper("cuda", {SMALL}))',
}
PEAK = """
def peak():
    text = open("/proc/self/status").read()
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024
"""
MEMORY = {
    "alone": "import torch\n" + PEAK + "torch.ones(3) @ torch.ones(3)\nprint(peak())",
    "none": NONE
    + MODEL
    + PEAK
    + """
step = stepper("cuda", batch=16, length=1024)
step(); step()
held = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
        for _ in range(75 - (torch.cuda.memory_reserved() >> 30))]
step()
print(peak(), torch.cuda.memory_reserved() >> 30)
""",
}
TIMED_IMPORT = "import time\nbefore = time.process_time()\nimport torch\nprint(time.process_time() - before)"


def environment() -> dict[str, str]:
    """Return this process's environment without what changes PyTorch or gpuconf."""
    dropped = ("GPUCONF_", "CUDA_", "PYTORCH_", "TORCH_", "LD_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return kept | {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}


def compiled(folder: str) -> str:
    """Compile the library whose fills and copies do nothing. Returns its path."""
    path = f"{folder}/nothing.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", path, ROOT / "benchmarks" / "nothing.c"], check=True)
    return path


def least(programs: dict[str, str], nothing: str = "") -> dict[str, float]:
    """Let programs take turns with steps. Returns the least processor time of each, in ms."""
    running = {}
    for name, program in programs.items():
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        running[name] = subprocess.Popen(
            [PYTHON, "-c", program], text=True, env=environment() | {"NOTHING": nothing}, **pipes
        )
        assert running[name].stdout.readline() == "ready\n", name
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, process in running.items():
            process.stdin.write("\n")
            process.stdin.flush()
            times[name].append(float(process.stdout.readline()))
    for process in running.values():
        process.stdin.close()
        process.wait(60)
    return {name: 1000 * min(found) for name, found in times.items()}


def printed(program: str) -> list[float]:
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=True, env=environment())
    return [float(word) for word in done.stdout.split()]


def measure() -> list[dict[str, str]]:
    """Measure. Without a PyTorch one row says so."""
    if not Path(PYTHON).exists():
        return [
            {"what": "not measured: there is no Python with PyTorch (`make test-frameworks`)", "found": "", "goal": ""}
        ]
    with tempfile.TemporaryDirectory() as folder:
        steps = least(STEPS, compiled(folder))
    computed = least(COMPUTED)
    imports: dict[str, list[float]] = {"": [], NONE: []}
    for _ in range(IMPORTS):
        for prelude, found in imports.items():
            found += printed(prelude + TIMED_IMPORT)
    alone, none = printed(MEMORY["alone"])[0], printed(MEMORY["none"])
    ratios = {name: steps[name] / steps["libraries"] for name in steps}
    rows = [
        ("a step of GPT-2-small over libraries that do nothing", f"{steps['libraries']:.1f} ms", ""),
        ("the same in an empty dispatch mode", f"{steps['mode']:.1f} ms, {ratios['mode']:.2f} times", ""),
        ('with `values="none"`', f"{steps['none']:.1f} ms, {ratios['none']:.2f} times", "<= 4 times, <= 150 ms"),
        ("a step of a small Transformer on the CPU device", f"{computed['device']:.0f} ms", ""),
        (
            'the same with `values="cpu"`',
            f"{computed['cpu']:.0f} ms, {computed['cpu'] / computed['device']:.2f} times",
            "<= 1.5 times",
        ),
        (
            f'memory beyond PyTorch\'s, `values="none"`, {none[1]:.0f} GiB of 80 GB allocated',
            f"{none[0] - alone:.0f} MiB",
            "< 700 MiB",
        ),
        ("`import torch`, in addition", f"{min(imports[NONE]) - min(imports['']):.2f} s", "<= 0.3 s"),
    ]
    return [dict(zip(("what", "found", "goal"), row, strict=True)) for row in rows]


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    from benchmarks.report import table

    print(table(measure()))
