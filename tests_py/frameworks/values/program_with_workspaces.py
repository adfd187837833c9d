"""Prints the blocks that calls of cuDNN request on a simulated H200, beside those that PyTorch 2.11 requested on a real
one.

The real ones are rows of benchmarks/data/accuracy/drawn/workspaces.jsonl.xz, and for float32 of convolutions.jsonl.xz:
there decision trees are right for about four of five shapes, and this is one of them (fit.py has the rates).
"""

from collections.abc import Callable

import gpuconf

gpuconf.simulate("H200")

import torch  # noqa: E402
from torch import nn  # noqa: E402


def requested(call: Callable[[], object]) -> list[int]:
    torch.cuda.memory._record_memory_history(context=None)
    kept = call()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(None)
    del kept
    return [one["size"] for one in events if one["action"] == "alloc"]


def convolution(
    kind: torch.dtype, batch: int, inputs: int, outputs: int, size: int, kernel: int, last: bool = False
) -> list[int]:
    x = torch.zeros(batch, inputs, size, size, device="cuda", dtype=kind)
    layer = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False, device="cuda", dtype=kind)
    if last:
        x, layer = x.to(memory_format=torch.channels_last), layer.to(memory_format=torch.channels_last)
    with torch.no_grad():
        return requested(lambda: layer(x))


CASES = {
    "16 bits": (convolution(torch.bfloat16, 2, 512, 512, 18, 3), [663552, 6045712]),
    "16 bits, channels last": (convolution(torch.bfloat16, 2, 16, 64, 71, 3, last=True), [1290496]),
    "pointwise": (convolution(torch.bfloat16, 2, 24, 192, 72, 1), [3981312]),
    "three channels": (convolution(torch.float16, 1, 3, 512, 36, 3), [1327104]),
    "float32": (convolution(torch.float32, 8, 64, 64, 64, 3), [8388608, 8536080]),
}
reserves = nn.LSTM(200, 512, num_layers=2, batch_first=True, device="cuda", dtype=torch.float16)
CASES["reserve of an LSTM"] = (
    requested(lambda: reserves(torch.zeros(1, 100, 200, device="cuda", dtype=torch.float16)))[-1:],
    [1126656],
)

for name, (found, expected) in CASES.items():
    print(name, "equal" if found == expected else f"{found}, and {expected} on the card")
