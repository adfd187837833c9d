# SPDX-License-Identifier: Apache-2.0
"""Shared by the adaptors: the check for GPUs that a library can use, and the logical GPU that a CUDA device maps to."""

from __future__ import annotations

from .. import errors
from .._core import runtime
from .._core import scope as _scope
from ..simulation import simulated_torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..memory._stats import MemoryStats


def require_gpu(library: str) -> None:
    """Raise on simulated GPUs, unless PyTorch has started on them.

    A library that uses a real GPU cannot use their memory, which is the host's.
    """
    if runtime.simulated() and not (library == "PyTorch" and simulated_torch.runs()):
        raise errors.FailedPreconditionError(
            f"{library} cannot run on simulated GPUs ({runtime.simulated()}): their memory is host memory. "
            "End the simulation with gpuconf.simulate(None), or use the library without gpuconf"
        )


def routed(ordinal: int, function: str) -> int:
    """Return the logical GPU that this thread allocates from on a CUDA device, as ``gpuconf_malloc`` does.

    Initializes the runtime.
    """
    runtime.logical_devices(function)
    ordinals = runtime.ordinals()
    scope = _scope.current_gpu()
    if 0 <= scope < len(ordinals) and ordinals[scope] == ordinal:
        return scope
    if ordinal not in ordinals:
        raise errors.InvalidArgumentError(
            f"CUDA device {ordinal} has no logical GPU: it is unknown or not visible to gpuconf"
        )
    return ordinals.index(ordinal)


def name_of(number: int) -> str:
    """Return the name of a logical GPU."""
    return runtime.logical_gpu(number).name


def stats_of(ordinal: int, function: str) -> MemoryStats:
    """Return the statistics of the logical GPU that this thread allocates from on a CUDA device."""
    from ..memory._stats import stats

    return stats(name_of(routed(ordinal, function)))
