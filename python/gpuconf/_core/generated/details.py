# SPDX-License-Identifier: Apache-2.0
"""Messages from pybind/wire and gocore/machine/blas. Written by pybind/build/generate.py; DO NOT EDIT."""

from __future__ import annotations

from ..._typing import Any
from ..table import Table


class About(Table):
    """What computes large products in host memory."""

    library: str  # "OpenBLAS"; "" if there is none
    version: str  # what the library says about itself
    path: str  # its file
    threads: int  # 0 if unknown
    complaints: tuple[str, ...]  # why libraries that exist cannot be used

    @classmethod
    def _read(cls, row: Any) -> About:
        row[4] = tuple(row[4])
        return cls(*row)


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
