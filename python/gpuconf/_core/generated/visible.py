# SPDX-License-Identifier: Apache-2.0
"""Messages from pybind/wire. Written by pybind/build/generate.py; DO NOT EDIT."""

from __future__ import annotations

from ..._typing import Any
from ..table import Table


class VisibleDevice(Table):
    """One GPU that this process sees, with all its names."""

    cuda_ordinal: int  # its number in CUDA and PyTorch, after CUDA_VISIBLE_DEVICES
    # Its name in list_physical_devices(); None if its compute capability is too low to be listed
    physical_device: str | None
    name: str  # the product
    uuid: str  # "GPU-...", or "MIG-..." for an instance; valid in CUDA_VISIBLE_DEVICES
    pci_bus_id: str  # as the driver writes it
    nvml_index: int | None  # Its number in nvidia-smi; None if NVML does not report it, as for simulated GPUs
    compute_capability: tuple[int, int]  # major and minor
    total_memory: int  # bytes
    # "dedicated" for the GPU's own memory, "unified" for the host's, which the GPU shares (GB10, Jetson), "coherent"
    # for the GPU's own memory that the CPU can also access (GH200)
    memory_kind: str = "dedicated"
    memory_source: str = "CUDA"  # where total_memory comes from: "CUDA" or "simulation"

    @classmethod
    def _read(cls, row: Any) -> VisibleDevice:
        row[6] = tuple(row[6])
        return cls(*row)
