"""What growing to most of the card costs, granule by granule, beside the driver's cuMemAlloc and PyTorch's expandable
segments.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time

import gpuconf
from checks import MIB, Missing, driver, expect, free_and_total, succeed
from streams import own_allocator

STEP = 2 * MIB


def most(free: int) -> int:
    """Most of the free memory, in whole steps, and at most 100 GiB."""
    return min(free * 9 // 10, 100 << 30) // STEP


def figures(label: str, seconds: float, steps: int) -> dict[str, float]:
    """The figures of one contender."""
    return {
        f"{label}_bytes": float(steps * STEP),
        f"{label}_seconds": seconds,
        f"{label}_us_per_step": seconds / steps * 1e6,
    }


def case_growth_to_most_of_the_card() -> dict[str, float]:
    """A pool with growth takes most of the card in blocks of 2 MiB, and half of that at once; the figures are host
    time.
    """
    cuda = driver()
    steps = most(free_and_total(cuda)[0])
    gpuconf.configure(limit=f"{(steps + 1) * STEP}B", growth=True, libraries=[])
    gpuconf.config.list_logical_devices()
    library = own_allocator()
    begin = time.perf_counter()
    blocks = [library.gpuconf_malloc(STEP, 0, None) for _ in range(steps)]
    found = figures("gpuconf", time.perf_counter() - begin, steps)
    expect(all(blocks), f"not all of {steps} blocks: {library.gpuconf_last_error()!r}")
    for block in blocks:
        library.gpuconf_free(block, STEP, 0, None)
    expect(bool(library.gpuconf_trim()), f"the pool does not shrink: {library.gpuconf_last_error()!r}")
    half = steps // 2 * STEP
    begin = time.perf_counter()
    block = library.gpuconf_malloc(half, 0, None)
    found |= {"half_bytes": float(half), "gpuconf_half_seconds": time.perf_counter() - begin}
    expect(bool(block), f"no block of {half} bytes: {library.gpuconf_last_error()!r}")
    library.gpuconf_free(block, half, 0, None)
    gpuconf.reset()
    place, blocks = ctypes.c_uint64(), []
    begin = time.perf_counter()
    for _ in range(steps):
        succeed(cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(STEP)), "cuMemAlloc")
        blocks.append(place.value)
    found |= figures("driver", time.perf_counter() - begin, steps)
    for block in blocks:
        cuda.cuMemFree_v2(ctypes.c_uint64(block))
    begin = time.perf_counter()
    succeed(cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(half)), f"cuMemAlloc of {half} bytes")
    found |= {"driver_half_seconds": time.perf_counter() - begin}
    cuda.cuMemFree_v2(place)
    return found


EXPANDABLE = """
import json, sys, time, torch
step, steps = int(sys.argv[1]), int(sys.argv[2])
torch.empty(1, device="cuda")
begin = time.perf_counter()
blocks = [torch.empty(step, dtype=torch.uint8, device="cuda") for _ in range(steps)]
seconds = time.perf_counter() - begin
assert all(segment["is_expandable"] for segment in torch.cuda.memory_snapshot()), "the segments are not expandable"
print(json.dumps(seconds))
"""


def case_growth_of_torchs_expandable_segments() -> dict[str, float]:
    """The same steps in PyTorch's own allocator with expandable segments."""
    cuda = driver()
    steps = most(free_and_total(cuda)[0]) * 95 // 100
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")  # of older and of newer versions
    environment = os.environ | dict.fromkeys(names, "expandable_segments:True")
    done = subprocess.run(
        [sys.executable, "-c", EXPANDABLE, str(STEP), str(steps)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if "No module named 'torch'" in done.stderr:
        raise Missing("torch is not installed")
    expect(done.returncode == 0, f"exit code {done.returncode}: {done.stderr}")
    return figures("torch_expandable", json.loads(done.stdout.splitlines()[-1]), steps)
