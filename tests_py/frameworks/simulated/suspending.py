"""Two programs of PyTorch that share one simulated card, on which only one has room: ``suspending.py alone|turns MIB``.

It prints what each program printed, as JSON. With ``turns``, this process suspends one while the other
runs, a few times.
"""

import ctypes
import json
import subprocess
import sys
import time

# The memory is MIB, of which all is written if it is little, and a part if it is much.
PROGRAM = """
import hashlib, sys, torch
mib, seed = int(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(seed)
held = torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
step = max(1, mib // 256)
for i in range(0, mib, step):
    held[i << 20 : (i << 20) + (1 << 20)] = (i * 37 + seed) % 251
at = held.data_ptr()
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
source, target = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
with torch.cuda.graph(graph):
    target.add_(source)
print("ready", flush=True)
for n in range(60):
    x = torch.randn(32, 64, device="cuda")
    loss = (model(x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    graph.replay()
    with torch.cuda.stream(stream):
        source.add_(1)
    stream.synchronize()
    print(n, loss.item().hex(), int(target.sum().item()), flush=True)
assert held.data_ptr() == at
sums = [held[i << 20 : (i << 20) + (1 << 20)].cpu().numpy().tobytes() for i in range(0, mib, step)]
print(hashlib.sha256(b"".join(sums)).hexdigest(), flush=True)
"""


def start(mib: str, seed: int) -> subprocess.Popen[str]:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, mib, str(seed)], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert program.stdout is not None
    first = program.stdout.readline()
    assert first == "ready\n", first
    return program


def main() -> None:
    how, mib = sys.argv[1:]
    if how == "alone":
        print(json.dumps([start(mib, seed).communicate()[0].splitlines() for seed in (1, 2)]))
        return
    driver = ctypes.CDLL("libcuda.so.1")
    assert driver.cuInit(0) == 0

    def does(program: subprocess.Popen[str], *steps: str) -> bool:
        """Whether a program still lives that does the steps; one that has ended cannot."""
        for step in steps:
            result = getattr(driver, f"cuCheckpointProcess{step}")(program.pid, None)
            if result != 0:
                assert program.wait(60) == 0, (step, result)
                return False
        return True

    programs, suspended = [], 0
    for seed in (1, 2):
        programs.append(start(mib, seed))
        assert does(programs[-1], "Lock", "Checkpoint")
    living = programs
    while living:
        for program in living:
            if does(program, "Restore", "Unlock"):
                time.sleep(0.3)
                suspended += does(program, "Lock", "Checkpoint")
        living = [one for one in living if one.poll() is None]
    print(json.dumps([one.communicate()[0].splitlines() for one in programs]))
    print(suspended, file=sys.stderr)


if __name__ == "__main__":
    main()
