"""A program whose forked child launches a kernel of its own on a simulated GPU, as vLLM's engine does."""

import multiprocessing

import gpuconf

gpuconf.simulate("T4")

import torch  # noqa: E402


def launch() -> None:
    torch.cuda.init()
    torch.cuda._sleep(1000)


child = multiprocessing.get_context("fork").Process(target=launch)
child.start()
child.join()
print(child.exitcode)
