# SPDX-License-Identifier: Apache-2.0
"""Injected failures of allocations: the n-th allocation from now on fails with the ordinary out-of-memory error of its
library.

Allocations of device memory in all threads count, on all logical GPUs, by PyTorch, CuPy, Numba, buffers, tensors and C
programs; those of 0 bytes do not. In PyTorch's mode ``segments`` its requests for segments count. A reset ends the
counting. The core does it, so that the failure takes the path of a real one; the report contains "injected".
"""

from __future__ import annotations

import sys

from .. import errors
from .._typing import Any
from . import abi, runtime
from .native import core, loaded


def fail_allocation(n: int) -> None:
    """Make the ``n``-th allocation from now on fail, and no other one. Replaces an earlier call. Lists the devices."""
    runtime.physical_devices()
    core.pybind_FailAllocation(0)
    _count_torch(n > 0)
    core.pybind_FailAllocation(n)


_counts_torch: list[bool] = []  # not empty once PyTorch's own allocator was counted


def _count_torch(on: bool) -> None:
    """Count the allocations of PyTorch's own allocator, if it has one and a GPU; gpuconf's pools count those that they
    serve.
    """
    torch: Any = sys.modules.get("torch")
    routed = getattr(sys.modules.get("gpuconf.allocators.torch"), "_mode", None)
    if not on or torch is None or routed or not torch.backends.cuda.is_built() or not torch.cuda.is_available():
        if _counts_torch:
            abi.count_torch(False)
        return
    abi.count_torch(on)
    if not _counts_torch:
        before = abi.torch_allocations_seen()
        torch.empty(1, dtype=torch.uint8, device="cuda")
        if abi.torch_allocations_seen() == before:
            abi.count_torch(False)
            raise errors.UnimplementedError(
                f"allocations of PyTorch {torch.__version__} cannot be made to fail: use 2.6 to 2.15"
            )
        _counts_torch.append(True)


def stop() -> None:
    """End the counting. Does nothing in a forked child, or if the core was not loaded."""
    if loaded() and runtime.enumerated():
        core.pybind_FailAllocation(0)
        if _counts_torch:
            _count_torch(False)


def counted() -> int:
    """Return the number of allocations since :func:`fail_allocation`, up to and including the one that failed."""
    return core.pybind_CountedAllocations() if loaded() and runtime.enumerated() else 0
