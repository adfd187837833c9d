# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.framework.gpu_util``: what the description of a device says."""

from __future__ import annotations

import re
from typing import NamedTuple

from ....._missing import watch
from ....._typing import Any

__all__ = ["GpuInfo", "compute_capability_from_device_desc"]


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


def __dir__() -> list[str]:
    return __all__


watch(globals())
