# SPDX-License-Identifier: Apache-2.0
"""The workspaces of cuDNN's convolutions in a rehearsal: which allocations they are, and how large each may be."""

from __future__ import annotations

from ..._typing import Any
from ...allocators._share import SETS
from .records import Report

# By gpuconf_runtime_workspaces_known in gocore/sim/runtime/cudnn_workspace.c.
KNOWN = (
    "as recorded with cuDNN 9.19 on an H200",
    "each; by a rule, not recorded with cuDNN {cudnn} on compute capability {capability}",
    "each; cuDNN {cudnn} on compute capability {capability} is not known, so that this is twice what others take",
)


def of_process() -> dict[str, Any]:
    """Return what a report has of the workspaces that the simulated cuDNN handed out in this process."""
    import ctypes

    import torch

    from ...simulation import stand_ins

    library: Any = stand_ins.library
    number, size, most = 0, ctypes.c_int64(), ctypes.c_int64()
    ranges: dict[str, int] = {}
    while not library.gpuconf_runtime_workspace(number, ctypes.byref(size), ctypes.byref(most)):
        ranges[str(size.value)] = most.value
        number += 1
    try:
        version = torch.backends.cudnn.version() or 0
    except RuntimeError:  # this cuDNN does not run on the card, nor does PyTorch use it there
        version = 0
    parts = (version // 10000, version // 100 % 100) if version >= 90000 else (version // 1000, version // 100 % 10)
    known = library.gpuconf_runtime_workspaces_known() if ranges else 0
    unknown = _unknown(torch.__version__, library.cublasLtGetVersion())
    return {"workspaces": ranges, "sizes": known, "cudnn": ".".join(map(str, parts)), "unknown": unknown}


def _unknown(torch_version: str, cublas: int) -> list[str]:
    """Return which of these versions lie outside those of the sets that gpuconf is tested with."""
    series = [tuple(map(int, one["torch"].split("."))) for one in SETS.values()]
    ours = tuple(map(int, torch_version.partition("+")[0].split(".")[:2]))
    names = [] if min(series) <= ours <= max(series) else [f"PyTorch {torch_version}"]
    known = any(int(one["cuda"]) == cublas // 10000 for one in SETS.values())
    return names if known else [*names, f"cuBLAS {cublas // 10000}.{cublas // 100 % 100}"]


def source(report: Report, capability: tuple[int, int]) -> str:
    """Return how the sizes are known."""
    return KNOWN[report.sizes].format(cudnn=report.cudnn, capability=".".join(map(str, capability)))
