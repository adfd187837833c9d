# SPDX-License-Identifier: Apache-2.0
"""The identifiers of the GPUs that this process sees."""

from __future__ import annotations

from .._core import runtime
from .._core.devices import VisibleDevice
from .._core.generated import visible as wire
from .._core.message import loads
from .._core.native import core
from .._core.notices import publish


def cuda_visible_devices() -> str:
    """Return a ``CUDA_VISIBLE_DEVICES`` by UUID that shows the GPUs of ``gpuconf.config.get_visible_devices``, in that
    order.

    For child processes, and for libraries that read the variable before CUDA starts. This process cannot use it itself:
    CUDA read the variable when the devices were listed. ``""`` means no GPU.

    >>> gpuconf.config.set_visible_devices(gpuconf.config.list_physical_devices("GPU")[1], "GPU")
    >>> cuda_visible_devices()
    'GPU-...'
    """
    uuids = {device.physical_device: device.uuid for device in visible_devices()}
    from ..config import get_visible_devices  # after the core: gpuconf's commands do not need it

    return ",".join(uuids[gpu.name] for gpu in get_visible_devices("GPU"))


def why_no_gpu() -> str:
    """Return why this process sees no GPU, as a clause; "" if it is not known."""
    runtime.physical_devices()
    why: str = core.pybind_WhyNoGPU()
    return why


def visible_devices() -> list[VisibleDevice]:
    """Return the GPUs that this process sees, by CUDA ordinal.

    Does not create a CUDA context or initialize the runtime.

    CUDA and NVML (``nvidia-smi``) may number GPUs differently. Their numbers are matched by UUID.

    >>> [(d.cuda_ordinal, d.physical_device, d.name) for d in visible_devices()]
    [(0, '/physical_device:GPU:0', 'NVIDIA H100 80GB HBM3'), (1, '/physical_device:GPU:1', 'NVIDIA H100 80GB HBM3')]
    """
    runtime.physical_devices()
    text = core.pybind_Identities()
    entries = loads(text)
    publish()
    return [VisibleDevice(*wire.VisibleDevice._read(one)) for one in entries]
