"""What the cases share: what a machine lacks, what has to hold, and the driver beside gpuconf."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import os
import time
from typing import TYPE_CHECKING, Any

import gpuconf
from evidence import error_name

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
MISSING = 77  # the exit code of a case that cannot run here
END = time.monotonic() + float(os.environ.get("GPU_CASE_SECONDS", "inf"))
noted: dict[str, Any] = {}  # figures of the running case


class Missing(Exception):  # noqa: N818
    """What this machine lacks for a case."""


def need(name: str) -> Any:
    """Import a library, or raise Missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Missing(f"{name} is not installed ({error})") from None


def installed(*names: str) -> None:
    """Raise Missing without an import: the libraries are used in processes of their own."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise Missing(f"{name} is not installed")


def live(device: str = "GPU:0") -> int:
    """The live blocks."""
    return int(gpuconf.memory.stats(device).live_blocks)


def expect(condition: bool, text: str) -> None:
    """An assertion that also works under ``python -O``."""
    if not condition:
        raise AssertionError(text)


def succeed(result: int, what: str) -> None:
    """A call of the driver has returned success."""
    if result:
        raise AssertionError(f"{what}: {error_name(result)}")


def note(**figures: Any) -> None:
    """Keep figures as soon as they are known: they are reported also if the case fails later, and printed if it never
    ends.
    """
    noted.update(figures)
    print(json.dumps(figures), flush=True)


def rounds(count: int) -> Iterator[int]:
    """0, 1, 2 ... of a long case; the figure ``rounds`` says how many there were.

    It ends early where GPU_CASE_ROUNDS says so, to try the cases without a GPU, and when the case's time is nearly
    over.
    """
    noted["rounds"] = 0
    for number in range(min(count, int(os.environ.get("GPU_CASE_ROUNDS", count)))):
        if number % 256 == 0 and time.monotonic() > END:
            return
        yield number
        noted["rounds"] = number + 1


def wait_for_graphs() -> None:
    """Captured memory comes back once the driver has reported, from a thread of its own, that nothing of the graph is
    left.
    """
    for _ in range(1000):
        if gpuconf.memory.stats().captured_bytes == 0:
            return
        time.sleep(0.01)
    raise AssertionError("the graph's memory has not come back")


def split(*limits: int) -> None:
    """Several logical GPUs, with limits in MiB, on the first card."""
    card = gpuconf.config.list_physical_devices("GPU")[0]
    configurations = [gpuconf.config.LogicalDeviceConfiguration(memory_limit=limit) for limit in limits]
    gpuconf.config.set_logical_device_configuration(card, configurations)


def driver() -> Any:
    """The CUDA driver, with the primary context of the first GPU current."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    succeed(cuda.cuInit(0), "cuInit")
    succeed(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
    succeed(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    return cuda


def free_and_total(cuda: Any) -> tuple[int, int]:
    """What cuMemGetInfo reports, in bytes."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    succeed(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), "cuMemGetInfo")
    return free.value, total.value
