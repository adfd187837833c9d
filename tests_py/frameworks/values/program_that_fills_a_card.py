"""A card that is filled with torch.empty, and again after a part was written and freed: the CPU time, and the host's
memory.

The values that are read afterwards are those of blocks that held others. An argument is gpuconf's mode for PyTorch.
"""

import sys
import time

import gpuconf

gpuconf.simulate("A100-80GB")

import torch  # noqa: E402

GIB = 1 << 30


def resident() -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


def fill() -> list[torch.Tensor]:
    kept: list[torch.Tensor] = []
    before, began = resident(), time.process_time()
    try:
        while True:
            kept.append(torch.empty(GIB // 2, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        pass
    assert len(kept) >= 2 * 68, len(kept)
    seconds, more = time.process_time() - began, resident() - before
    print("quick" if seconds < 1 else seconds, "small" if more < 100 << 20 else more)
    return kept


if len(sys.argv) > 1:
    gpuconf.configure(libraries={"torch": sys.argv[1]})
torch.ones(1, device="cuda")
for _ in range(2):
    kept = fill()
    assert not any(
        one[at : at + 4096].cpu().any() for one in (kept[0], kept[1], kept[-1]) for at in (0, 12345, GIB // 2 - 4096)
    )
    for one in kept[:2]:
        one[-(64 << 20) :].fill_(7)
    kept[-1][:4096].fill_(7)
    del kept, one
torch.cuda.empty_cache()
before = resident()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    many = torch.empty(64 * GIB, dtype=torch.uint8, device="cuda")
    read = many[-4096:].sum()
    many[-4096:].fill_(7)
graph.replay()
graph.replay()
more = resident() - before
print(read.item(), "small" if more < 100 << 20 else more)
