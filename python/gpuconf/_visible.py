"""Every name of the GPUs that this process sees."""

from __future__ import annotations

from collections import namedtuple

from . import _runtime
from ._native import core
from ._notices import publish
from ._table import Table


class VisibleDevice(
    Table,
    namedtuple(
        "VisibleDevice",
        ["cuda_ordinal", "physical_device", "name", "uuid", "pci_bus_id", "nvml_index", "compute_capability", "total_memory"],
    ),
):
    """One GPU, by every name it has."""

    __slots__ = ()

    cuda_ordinal: int  # what CUDA and PyTorch call it, after CUDA_VISIBLE_DEVICES
    physical_device: str | None  # its name in list_physical_devices(); None where it is too weak to be there
    name: str
    uuid: str  # "GPU-...", or "MIG-..." for a MIG instance; good in CUDA_VISIBLE_DEVICES
    pci_bus_id: str
    nvml_index: int | None  # what nvidia-smi calls it; None where NVML doesn't tell, as for simulated GPUs
    compute_capability: tuple[int, int]
    total_memory: int  # bytes


def visible_devices() -> list[VisibleDevice]:
    """List the GPUs that this process sees, by CUDA ordinal. Makes no CUDA context and does not initialise the runtime.

    CUDA and NVML (``nvidia-smi``) count GPUs in different orders; here the two are brought together by UUID.

    >>> [(d.cuda_ordinal, d.physical_device, d.name) for d in visible_devices()]
    [(0, '/physical_device:GPU:0', 'NVIDIA H100 80GB HBM3'), (1, '/physical_device:GPU:1', 'NVIDIA H100 80GB HBM3')]
    """
    _runtime.physical_devices()
    text = core.pybind_Identities()
    import json

    told = json.loads(text)
    publish()
    return [VisibleDevice(**{**one, "compute_capability": tuple(one["compute_capability"])}) for one in told]
