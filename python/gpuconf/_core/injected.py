# SPDX-License-Identifier: Apache-2.0
"""Injected failures of allocations: the n-th allocation from now on fails with the ordinary out-of-memory error of its library.

Allocations of device memory in all threads count, on all logical GPUs, by PyTorch, CuPy, Numba, buffers, tensors and C programs;
those of 0 bytes do not. In PyTorch's mode ``segments`` its requests for segments count. A reset ends the counting. The core does
it, so that the failure takes the path of a real one; the report contains "injected".
"""

from __future__ import annotations

from . import runtime
from .native import core, loaded


def fail_allocation(n: int) -> None:
    """Make the ``n``-th allocation from now on fail, and no other one. Replaces an earlier call. Lists the devices."""
    runtime.physical_devices()
    core.pybind_FailAllocation(n)


def stop() -> None:
    """End the counting. Does nothing in a forked child, or if the core was not loaded."""
    if loaded() and runtime.enumerated():
        core.pybind_FailAllocation(0)


def counted() -> int:
    """Return the number of allocations since :func:`fail_allocation`, up to and including the one that failed."""
    return core.pybind_CountedAllocations() if loaded() and runtime.enumerated() else 0
