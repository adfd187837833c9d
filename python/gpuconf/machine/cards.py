# SPDX-License-Identifier: Apache-2.0
"""The cards of the machine, without CUDA, and the identifiers of the GPUs that this process sees."""

from __future__ import annotations

from .._core import runtime
from .._core.devices import VisibleDevice
from .._core.generated import cards as wire
from .._core.generated import visible as visible_wire
from .._core.generated.cards import SimulatedModel
from .._core.message import loads, publish
from .._core.native import core


class Survey(wire.Survey):
    """All cards of the machine."""

    __slots__ = ()

    @property
    def why_none_shortly(self) -> str | None:
        """Why there is no card, without the files that were looked for."""
        return self.why_none and self.why_none.partition(" (")[0]


def survey() -> Survey:
    """Return all cards of the machine: the simulated one if there is one, else those that NVML reports.

    Creates no CUDA context and takes no device memory. ``CUDA_VISIBLE_DEVICES`` has no effect. A machine without a
    driver has no card, which ``why_none`` explains. Raises ValueError if ``GPUCONF_SIMULATE`` is invalid.
    """
    text = core.pybind_Cards(runtime.environment())
    return Survey(*wire.Survey._read(loads(text)))


def models() -> list[SimulatedModel]:
    """Return the models that can be simulated, newest first."""
    text = core.pybind_Models()
    return list(map(SimulatedModel._read, loads(text)))


# The identifiers of the GPUs that this process sees.


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
    return [VisibleDevice(*visible_wire.VisibleDevice._read(row)) for row in entries]
