"""A program whose indices a kernel should have written that computes nothing on simulated GPUs, as in vLLM."""

import gpuconf

gpuconf.simulate("T4")

import torch  # noqa: E402

x, indices, right = torch.ones(4, device="cuda"), torch.tensor([9, 1], device="cuda"), torch.tensor([1], device="cuda")
for launched in (False, True):
    if launched:
        torch.cuda._sleep(1000)  # stands for that kernel
    try:
        print(x[indices].tolist(), torch.nn.functional.embedding(indices, x[:, None]).tolist(), x[right].tolist())
    except IndexError as error:
        print(error)
