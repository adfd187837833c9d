# SPDX-License-Identifier: Apache-2.0
"""The devices of this process as TensorFlow lists them: ``device_lib`` and ``tf.test``."""

from __future__ import annotations

import re

from .._core import runtime
from .._core.built_in_errors import raising_built_in
from .._core.devices import VisibleDevice
from .._core.fork import module_lock
from .._typing import Any, NamedTuple
from ..machine.cards import visible_devices
from ._logging import get_logger
from ._names import publish
from ._proto import ConfigProto, DeviceAttributes, DeviceLocality, LocalLinks
from .v1._graph import Graph
from .v1._session import DeviceAttributes as SessionDevice
from .v1._session import Session


def _as_native_code(function: Any) -> Any:
    """Let a function raise plain ValueErrors for what TensorFlow's native code refuses."""
    return raising_built_in(function, everything=True)


@_as_native_code
def list_local_devices(session_config: ConfigProto | None = None) -> list[DeviceAttributes]:
    """Return the logical devices of this process, the CPU first, as messages.

    Makes the GPUs ready as a ``compat.v1.Session`` with this ConfigProto does, and raises the same errors. Settings of
    ``gpuconf.config`` apply where the ConfigProto does not set them.

    >>> from gpuconf.compat.v2.python.client import device_lib
    >>> [(d.name, d.memory_limit) for d in device_lib.list_local_devices() if d.device_type == "GPU"]
    [('/device:GPU:0', 83132153856), ('/device:GPU:1', 83132153856)]
    """
    with runtime.unchanged():  # no reset comes between the session and the cards
        session = Session(graph=Graph(), config=ConfigProto() if session_config is None else session_config)
        try:
            rows = session.list_devices()
        finally:
            session.close()
        cards = visible_devices() if any(row.device_type == "GPU" for row in rows) else []
        return [_attributes(row, cards) for row in rows]


def _attributes(row: SessionDevice, cards: list[VisibleDevice]) -> DeviceAttributes:
    name = row.name[row.name.index("/device:") :]
    locality, description = DeviceLocality(), ""
    if row.device_type == "GPU":
        card = cards[runtime.ordinals()[int(name.rpartition(":")[2])]]
        node = _numa_node(card.pci_bus_id)
        locality = DeviceLocality(bus_id=node + 1, numa_node=node, links=LocalLinks())
        description = (
            f"device: {card.cuda_ordinal}, name: {card.name}, pci bus id: {card.pci_bus_id}, "
            f"compute capability: {'.'.join(map(str, card.compute_capability))}"
        )
    return DeviceAttributes(
        name=name,
        device_type=row.device_type,
        memory_limit=row.memory_limit_bytes,
        locality=locality,
        incarnation=row.incarnation & (1 << 64) - 1,
        physical_device_desc=description,
        xla_global_id=-1,
    )


def _numa_node(pci_bus_id: str) -> int:
    """Return the NUMA node of a PCI device, or 0 if it is not known."""
    if runtime.simulated():
        return 0
    try:
        with open(f"/sys/bus/pci/devices/{pci_bus_id.lower()}/numa_node", encoding="ascii") as file:
            return max(int(file.read()), 0)
    except (OSError, ValueError):
        return 0


_lock = module_lock(globals(), "_lock")
_warned = False


def gpu_device_name() -> str:
    """Return the name of the first logical GPU, or ``""`` without one. Makes the GPUs ready, as a session does.

    >>> gpu_device_name()
    '/device:GPU:0'
    """
    return next((each.name for each in list_local_devices() if each.device_type == "GPU"), "")


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: tuple[int, int] | None = None) -> bool:
    """Return whether there is a logical GPU with at least a compute capability.

    Makes the GPUs ready, as a session does.

    Deprecated: logs a warning once. ``cuda_only`` has no effect, because all GPUs are CUDA GPUs. Raises TypeError for a
    compute capability that is not a tuple.

    >>> is_gpu_available(min_cuda_compute_capability=(9, 0))
    True
    """
    del cuda_only
    _warn()
    for each in list_local_devices():
        if each.device_type == "GPU":
            text = each.physical_device_desc.rpartition("compute capability: ")[2]
            capability = tuple(map(int, text.split(".")))
            if not min_cuda_compute_capability or _at_least(capability, min_cuda_compute_capability):
                return True
    return False


def _at_least(capability: tuple[int, ...], wanted: Any) -> bool:
    try:
        return bool(capability >= wanted)
    except TypeError as error:
        raise TypeError(f"{error}: pass (major, minor)") from None


def _warn() -> None:
    """Log that the program calls a deprecated function, the first time."""
    global _warned
    with _lock:
        if _warned:
            return
        _warned = True
    frame = runtime.calling_frame()
    get_logger().warning(
        "From %s:%s: is_gpu_available (from gpuconf.compat.v2.test) is deprecated and will be removed in a future "
        "version.\nInstructions for updating:\nUse `tf.config.list_physical_devices('GPU')` instead.",
        frame.f_code.co_filename,
        frame.f_lineno,
    )


def is_built_with_cuda() -> bool:
    """Return True: gpuconf uses CUDA GPUs.

    >>> is_built_with_cuda(), is_built_with_rocm()
    (True, False)
    """
    return True


def is_built_with_rocm() -> bool:
    """Return False: gpuconf does not use ROCm GPUs."""
    return False


def is_built_with_gpu_support() -> bool:
    """Return True."""
    return is_built_with_cuda() or is_built_with_rocm()


def is_built_with_xla() -> bool:
    """Return False: gpuconf compiles nothing."""
    return False


class GpuInfo(NamedTuple):
    """The name of a GPU, and its compute capability."""

    name: str
    compute_capability: tuple[int, int]


def compute_capability_from_device_desc(device_attrs: Any) -> GpuInfo:
    """Return what the description of a device of ``device_lib.list_local_devices`` says; a name of None for another
    device.
    """
    text = device_attrs.physical_device_desc
    name = re.search(r"name: ([^,]*)", text)
    capability = re.search(r"compute capability: (\d+)\.(\d+)", text)
    numbers = (int(capability[1]), int(capability[2])) if capability else (0, 0)
    return GpuInfo(name[1] if name else None, numbers)  # type: ignore[arg-type]


publish(__name__)
