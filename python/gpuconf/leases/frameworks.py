# SPDX-License-Identifier: Apache-2.0
"""What each framework understands in its environment: one row per framework, checked against its source.

These settings work without gpuconf in the program's Python. PyTorch, CuPy and Numba are routed onto gpuconf's pools
besides, if the program's Python can load gpuconf.

========== ============================== ============================================================================
framework  variables                      what they mean there
========== ============================== ============================================================================
all        CUDA_VISIBLE_DEVICES           the driver shows the process these GPUs only, in this order
TensorFlow TF_FORCE_GPU_ALLOW_GROWTH      "true": pools grow; "false": a pool takes its limit at once
           TF_DEVICE_MIN_SYS_MEMORY_IN_MB the free memory, in MiB, that its pool leaves. There is no variable for a
                                          limit: this one is computed from what is free when the program starts
JAX        XLA_PYTHON_CLIENT_MEM_FRACTION its limit, as a fraction of the GPU's total memory
           XLA_CLIENT_MEM_FRACTION        the newer name; JAX refuses both
           XLA_PYTHON_CLIENT_PREALLOCATE  "false": its pool grows
CuPy       CUPY_GPU_MEMORY_LIMIT          the limit of each of its pools, in bytes
PyTorch    none that every version        per_process_memory_fraction in PYTORCH_ALLOC_CONF is new, and an older
           accepts                        version stops with an error. The startup hook makes the call of that name
Numba      none                           it has no limit
RMM        none                           its limits are arguments of Python functions
========== ============================== ============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._typing import NamedTuple

_MIB = 1 << 20
_PPM = 10**6


class LeasedCard(NamedTuple):
    """A GPU that the program may use, and its memory when the program starts."""

    uuid: str
    total_bytes: int
    free_bytes: int
    kind: str = "dedicated"  # of its memory: "dedicated", "unified" or "coherent"
    source: str | None = None  # of free_bytes: "NVML", "/proc/meminfo" or "simulation"; None if the total stands for it


def of_frameworks(
    cards: Sequence[LeasedCard], limit: int, growth: bool | None, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables for ``limit`` bytes of each card. ``environ`` is the user's environment."""
    variables = {"CUDA_VISIBLE_DEVICES": ",".join(card.uuid for card in cards), "CUPY_GPU_MEMORY_LIMIT": str(limit)}
    if cards:
        variables["TF_DEVICE_MIN_SYS_MEMORY_IN_MB"] = str(
            max(0, *(-(-(card.free_bytes - limit) // _MIB) for card in cards))
        )
        variables[_fraction_name(environ)] = _fraction(min(limit * _PPM // card.total_bytes for card in cards))
    if growth is not None:
        variables["TF_FORCE_GPU_ALLOW_GROWTH"] = "true" if growth else "false"
        variables["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false" if growth else "true"
    return variables


def _fraction_name(environ: Mapping[str, str]) -> str:
    return "XLA_CLIENT_MEM_FRACTION" if "XLA_CLIENT_MEM_FRACTION" in environ else "XLA_PYTHON_CLIENT_MEM_FRACTION"


def _fraction(millionths: int) -> str:
    """Return a fraction rounded down, of at most 1."""
    return f"{min(millionths, _PPM) / _PPM:.6f}"
