"""The identifiers of the GPUs that this process sees."""

from __future__ import annotations

from .._core import runtime
from .._core.devices import VisibleDevice
from .._core.native import core
from .._core.notices import publish


def visible_devices() -> list[VisibleDevice]:
    """Return the GPUs that this process sees, by CUDA ordinal. Does not create a CUDA context or initialize the runtime.

    CUDA and NVML (``nvidia-smi``) may number GPUs differently. Their numbers are matched by UUID.

    >>> [(d.cuda_ordinal, d.physical_device, d.name) for d in visible_devices()]
    [(0, '/physical_device:GPU:0', 'NVIDIA H100 80GB HBM3'), (1, '/physical_device:GPU:1', 'NVIDIA H100 80GB HBM3')]
    """
    runtime.physical_devices()
    text = core.pybind_Identities()
    import json

    entries = json.loads(text)
    publish()
    return [VisibleDevice(**{**one, "compute_capability": tuple(one["compute_capability"])}) for one in entries]
