# SPDX-License-Identifier: Apache-2.0
"""Go's messages, from pybind/wire. Written by pybind/build/generate.py; DO NOT EDIT."""

from __future__ import annotations

from ..._typing import Any, NamedTuple
from ..table import Table


class _DeviceDetails(NamedTuple):
    device_name: str  # the product
    major: int  # of the compute capability
    minor: int  # of the compute capability
    total_bytes: int  # its memory
    uuid: str  # "GPU-..." or "MIG-..."


class DeviceDetails(Table, _DeviceDetails):
    """What is known of a physical device."""

    __slots__ = ()

    @classmethod
    def _read(cls, row: Any) -> DeviceDetails:
        return cls(*row)
