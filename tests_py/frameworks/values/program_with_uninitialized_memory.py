"""Memory that held infinite numbers, requested again without a value: what it holds, and whether it is the same
memory.
"""

import gpuconf

gpuconf.simulate("H100-80GB")

import torch  # noqa: E402


def reused(count: int) -> str:
    held = torch.full((count,), float("inf"), device="cuda")
    address = held.data_ptr()
    del held
    again = torch.empty(count, device="cuda")
    text = f"{again.data_ptr() == address} {again.max().item()}"
    again.fill_(float("inf"))
    del again
    again = torch.empty_strided((count // 2, 2), (2, 1), device="cuda")
    return f"{text} {again.data_ptr() == address} {again.max().item()}"


def resized(count: int) -> str:
    held = torch.full((count,), float("inf"), device="cuda")
    del held
    small = torch.ones(1, device="cuda")
    small.resize_(count)
    return f"{small[0].item()} {small[1:].max().item()}"


for count in (2_000, 100_000, 5_000_000):
    print(count, reused(count), resized(count))

held = torch.full((2_000,), float("inf"), device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    empty = torch.empty(2_000, device="cuda")
    read = empty.sum()
    empty.add_(held)
graph.replay()
graph.replay()
print("replayed", read.item())
