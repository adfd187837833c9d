# SPDX-License-Identifier: Apache-2.0
"""How the frameworks start under ``gpuconf run --simulate`` when the program does not know gpuconf.

PyTorch runs on gpuconf's own runtime. NVIDIA's, which the others contain or load, asks the driver for tables without a
name and does not start. So they have no GPU, say why, and the program goes on.
"""

from __future__ import annotations

import importlib.util
import sys
import textwrap

import pytest
import simulation


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")


@needs("torch")
def test_pytorch_has_the_simulated_gpu() -> None:
    program = "import torch; print(torch.cuda.is_available(), (torch.ones(2, device='cuda') + 1).tolist())"
    assert simulation.printed(program) == ["True [2.0, 2.0]"]


@needs("jax")
def test_jax_falls_back_to_its_cpu() -> None:
    """With CUDA's libraries, its look at their versions ended the process."""
    program = "import jax, jax.numpy; print(jax.default_backend(), (jax.numpy.ones(2) + 1).tolist())"
    assert simulation.printed(program) == ["cpu [2.0, 2.0]"]


@needs("cupy")
def test_cupy_says_that_its_runtime_does_not_start() -> None:
    program = """
    import cupy
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        print(str(error).split(":")[0])
    memory = cupy.cuda.UnownedMemory(4096, 100, None, 0)
    pointer = cupy.cuda.MemoryPointer(memory, 10)
    print(pointer.ptr, (pointer + 5).ptr, pointer.mem.size)
    """
    done = simulation.run(sys.executable, "-W", "ignore", "-c", textwrap.dedent(program))
    assert (done.returncode, done.stdout.splitlines()) == (0, ["cudaErrorInvalidValue", "4106 4111 100"]), done.stderr
    assert (
        done.stderr.count(
            "NVIDIA's CUDA runtime, which this program contains or loads, does not start on simulated GPUs"
        )
        == 1
    )
