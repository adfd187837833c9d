"""PyTorch's tensors of zeros without memory, on a simulated GPU beside the CPU: what they may be passed to as they are.

The gradient of ``sgn`` is such a tensor. It prints a line for each result that differs.
"""

from __future__ import annotations

from collections.abc import Callable

import gpuconf

gpuconf.simulate("A100-40GB")

import torch  # noqa: E402

Make = Callable[[str], torch.Tensor]


def zeros(device: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch._efficientzerotensor((3, 4), dtype=dtype, device=device)


def ones(device: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(3, 4, dtype=dtype, device=device)


def gradient(device: str, convert: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    leaf = ones(device).requires_grad_()
    return torch.autograd.grad(torch.sgn(convert(leaf)).sum(), leaf)[0]


def captured(device: str) -> torch.Tensor:
    target, source = ones(device), zeros(device)
    if device == "cpu":
        return target.copy_(source)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        target.copy_(source)
    graph.replay()
    return target


RESULTS: dict[str, Make] = {
    "gradient": lambda device: gradient(device, lambda x: x),
    "gradient of a conversion": lambda device: gradient(device, torch.Tensor.double),
    "gradient of a copy": lambda device: gradient(device, lambda x: x.t().contiguous()),
    "read": zeros,
    "converted": lambda device: zeros(device).to(torch.int64),
    "converted to complex": lambda device: zeros(device).to(torch.complex64),
    "clone": lambda device: zeros(device).clone(),
    "clone of a view": lambda device: zeros(device).t()[1:].clone(),
    "conjugated": lambda device: zeros(device, torch.complex64).conj().clone(),
    "copied": lambda device: ones(device).copy_(zeros(device)),
    "copied to all rows": lambda device: ones(device).copy_(zeros(device)[0]),
    "copied and converted": lambda device: ones(device, torch.float64).copy_(zeros(device)),
    "replayed copy": captured,
    "like it": lambda device: torch.zeros_like(zeros(device)),
    "dot": lambda device: torch.dot(zeros(device)[0], ones(device)[0]),
    "vdot": lambda device: torch.vdot(ones(device, torch.complex64)[0], zeros(device, torch.complex64)[0]),
    "sum with it": lambda device: zeros(device) + ones(device),
    "product": lambda device: zeros(device) * 2,
    "matrix product": lambda device: zeros(device) @ ones(device).t(),
    "linear": lambda device: torch.nn.functional.linear(zeros(device), ones(device)),
    "stacked": lambda device: torch.stack([zeros(device), ones(device)]),
    "sum": lambda device: zeros(device).sum(),
    "number": lambda device: torch.tensor(zeros(device)[0, 0].item()),
}

equal = 0
for name, make in RESULTS.items():
    there, here = make("cuda").cpu(), make("cpu")
    if there.dtype is here.dtype and torch.equal(there, here):
        equal += 1
    else:
        print(f"{name}: {there} instead of {here}")
print(f"{equal} equal")
