"""A program that launches a Triton kernel on a simulated GPU."""

import gpuconf

gpuconf.simulate("A100-40GB")

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402


@triton.jit
def add_one(x, n: tl.constexpr):  # noqa: ANN001, ANN201 - Triton compiles it
    places = tl.arange(0, n)
    tl.store(x + places, tl.load(x + places) + 1)


x = torch.zeros(16, device="cuda")
add_one[(1,)](x, 16)
print(x.sum().item())
