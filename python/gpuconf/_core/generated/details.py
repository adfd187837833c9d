# SPDX-License-Identifier: Apache-2.0
"""Messages from pybind/wire. Written by pybind/build/generate.py; DO NOT EDIT."""

from __future__ import annotations

from ..._typing import Any
from ..table import Table


class DeviceDetails(Table):
    """What is known of a physical device."""

    device_name: str  # the product
    major: int  # of the compute capability
    minor: int  # of the compute capability
    total_bytes: int  # its memory
    uuid: str  # "GPU-..." or "MIG-..."

    @classmethod
    def _read(cls, row: Any) -> DeviceDetails:
        return cls(*row)


class BLAS(Table):
    """The library that multiplies matrices in host memory."""

    library: str  # "" if there is none
    version: str  # as it says itself
    path: str  # of its file
    threads: int  # that it uses
    complaints: tuple[str, ...]  # about what was tried

    @classmethod
    def _read(cls, row: Any) -> BLAS:
        row[4] = tuple(row[4])
        return cls(*row)
