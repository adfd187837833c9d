"""PyTorch on the simulated GPUs of the package: no library of NVIDIA's is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import no_gpu
import pytest

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")
DROPPED = ("GPUCONF_", "CUDA_", "FAKECUDA_", "PYTORCH_", "LD_")


WARNING = 'with values="none": it allocates as on the cards, but nothing is computed'


def run(program: str, **environment: str) -> list[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)} | environment
    words = [sys.executable, "-W", "ignore", "-W", "default::RuntimeWarning", "-c", textwrap.dedent(program)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=170, env=kept)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count(WARNING) == 1
    return done.stdout.splitlines()


def test_devices_memory_streams_and_out_of_memory() -> None:
    program = """
    import gpuconf
    gpuconf.simulate("2xA100-40GB", values="none")
    import torch
    print(torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.get_device_name())
    properties = torch.cuda.get_device_properties(1)
    print(properties.total_memory >> 30, properties.multi_processor_count, torch.cuda.get_device_capability())
    tensor = torch.empty(10, device="cuda")
    print(tensor.device, torch.cuda.memory_allocated(), torch.cuda.memory_reserved() >> 20)
    try:
        torch.empty(50 << 30, device="cuda", dtype=torch.uint8)
    except torch.OutOfMemoryError as error:
        print("total capacity of 40.00 GiB" in str(error))
    stream, events = torch.cuda.Stream(), [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    with torch.cuda.stream(stream):
        events[0].record()
        product = torch.randn(100, 100, device="cuda") @ torch.randn(100, 100, device="cuda")
        events[1].record()
    events[1].synchronize()
    print(events[0].elapsed_time(events[1]) >= 0, tuple(product.shape), torch.arange(4.0).to("cuda:1").cpu().tolist())
    print([line for line in open("/proc/self/maps") if "/nvidia/" in line])
    """
    assert run(program) == [
        "True 2 NVIDIA A100-SXM4-40GB (simulated)",
        "40 108 (8, 0)",
        "cuda:0 512 2",
        "True",
        "True (100, 100) [0.0, 1.0, 2.0, 3.0]",
        "[]",
    ]


def test_the_variable_is_enough_if_gpuconf_is_imported_first() -> None:
    program = """
    import gpuconf, torch
    print(torch.cuda.get_device_name(), torch.cuda.mem_get_info()[1] >> 30)
    """
    assert run(program, GPUCONF_SIMULATE="T4", GPUCONF_SIMULATE_VALUES="none") == ["Tesla T4 (simulated) 16"]


def test_without_values_none_pytorch_sees_no_simulated_card() -> None:
    program = """
    import gpuconf
    gpuconf.simulate("T4")
    try:
        import torch
    except (ImportError, OSError, ValueError):  # its wheel lacks NVIDIA's libraries
        pass
    print(any("libgpuconf-runtime" in line for line in open("/proc/self/maps")))
    """
    words = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)]
    assert subprocess.run(words, capture_output=True, text=True, check=True, timeout=170).stdout == "False\n"
