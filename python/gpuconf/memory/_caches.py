# SPDX-License-Identifier: Apache-2.0
"""The caches of other libraries: device memory that they hold for reuse.

Nothing is imported; unloaded libraries have none.
"""

from __future__ import annotations

import sys

from .._typing import Any


def empty_caches() -> list[str]:
    """Empty the caches of the libraries that are loaded and have used a GPU. Return the names of the libraries."""
    return [name for name, empty in (("torch", _torch), ("cupy", _cupy), ("numba", _numba)) if empty()]


def _torch() -> bool:
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not getattr(cuda, "is_initialized", bool)():
        return False
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)  # PyTorch's notes on CUDA semantics name it
    try:
        if clear is not None:
            clear()
        cuda.empty_cache()
    except (
        RuntimeError
    ):  # while a CUDA graph is captured, as after a test that failed in one, and on a GPU that has failed
        return False
    return True


def _cupy() -> bool:
    cupy: Any = sys.modules.get("cupy")
    if not hasattr(cupy, "get_default_memory_pool"):
        return False
    pools = [cupy.get_default_memory_pool(), getattr(cupy.cuda.get_allocator(), "__self__", None)]
    try:
        for pool in pools:
            if hasattr(pool, "free_all_blocks"):
                pool.free_all_blocks()
    except cupy.cuda.runtime.CUDARuntimeError:  # no driver, no GPU
        return False
    return True


def _numba() -> bool:
    driver: Any = getattr(sys.modules.get("numba.cuda.cudadrv.driver"), "driver", None)
    if not getattr(driver, "is_initialized", False):
        return False
    for device in driver.devices.values():
        context = device.primary_context
        if context is not None:
            context.deallocations.clear()
            getattr(context.memory_manager, "free_pending", bool)()  # gpuconf's own manager
    return True
