"""A program that launches a kernel of its own on a simulated GPU, as Triton and extensions do."""

import gpuconf

gpuconf.simulate("T4")

import torch  # noqa: E402

torch.cuda.init()
x = torch.ones(4, device="cuda")
try:
    for _ in range(2):
        torch.cuda._sleep(1000)  # PyTorch's kernel that only waits: its launch belongs to no operation
    torch.cuda.synchronize()
    print("done")
except RuntimeError as error:
    print("refused:", str(error).splitlines()[0])
