"""What the cases share: what a machine lacks, what has to hold, and the driver beside gpuconf."""

from __future__ import annotations

import ctypes
import importlib
import os
from typing import Any

import gpuconf

MIB = 1 << 20
MISSING = 77  # the exit code of a case that cannot run here


class Missing(Exception):  # noqa: N818
    """What this machine lacks for a case."""


def need(name: str) -> Any:
    """Import a library, or raise Missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Missing(f"{name} is not installed ({error})") from None


def live(device: str = "GPU:0") -> int:
    """The live blocks."""
    return int(gpuconf.memory.stats(device).live_blocks)


def expect(condition: bool, text: str) -> None:
    """An assertion that also works under ``python -O``."""
    if not condition:
        raise AssertionError(text)


def rounds(count: int) -> int:
    """How many rounds a long case makes: count, or fewer where GPU_CASE_ROUNDS says so (to try the cases without a GPU)."""
    return min(count, int(os.environ.get("GPU_CASE_ROUNDS", count)))


def split(*limits: int) -> None:
    """Several logical GPUs, with limits in MiB, on the first card."""
    card = gpuconf.config.list_physical_devices("GPU")[0]
    configurations = [gpuconf.config.LogicalDeviceConfiguration(memory_limit=limit) for limit in limits]
    gpuconf.config.set_logical_device_configuration(card, configurations)


def driver() -> Any:
    """The CUDA driver, with the primary context of the first GPU current."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    expect(cuda.cuInit(0) == 0, "the driver does not start")
    expect(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 == cuda.cuCtxSetCurrent(context), "no context")
    return cuda


def free_and_total(cuda: Any) -> tuple[int, int]:
    """What cuMemGetInfo reports, in bytes."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    expect(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0, "cuMemGetInfo failed")
    return free.value, total.value
