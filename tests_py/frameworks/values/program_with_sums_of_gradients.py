"""Where gradients meet, the autograd engine adds to the first one in place, unless something holds it.

Prints how many blocks of a gradient's size a backward pass allocates without and with a holder, and whether values are
the CPU's.
"""

import gpuconf

gpuconf.simulate("A100-40GB")

import torch  # noqa: E402


def gradients(device: str, held: list[torch.Tensor] | None) -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 1 << 20, device="cpu").to(device).requires_grad_()
    start = x * 2
    middle = torch.tanh(start) + start
    if held is not None:
        middle.register_hook(held.append)
    (middle * 3).backward(torch.ones(1 << 20, device="cpu").to(device))
    assert x.grad is not None
    return x.grad.cpu()


for held in (None, []):
    torch.cuda.memory._record_memory_history(context=None)
    found = gradients("cuda", held)
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(None)
    blocks = sum(one["action"] == "alloc" and one["size"] == 4 << 20 for one in events)
    expected_held: list[torch.Tensor] | None = None if held is None else []
    print(blocks, torch.equal(found, gradients("cpu", expected_held)), end=" ")
    print(None if held is None else torch.equal(held[0].cpu(), expected_held[0]))
