# SPDX-License-Identifier: Apache-2.0
"""The layout of gate files, from gocore/lease/budget/gate.h. Written by pybind/build/generate.py; DO NOT EDIT."""

from __future__ import annotations

import struct

from ..._typing import NamedTuple

GATE_MAGIC = b"GCGATE-1"
GATE_HEADER_BYTES = 4096
GATE_THREADS = 4096
GATE_THREAD_BYTES = 64


class Gate(NamedTuple):
    """struct gate."""

    magic: bytes
    closed: int
    wanted: int
    high: int
    full: int
    deaf: int
    held: int
    trims: int
    said: int


GATE = struct.Struct("<8sIIIIIIII")


class GateThread(NamedTuple):
    """struct gate_thread."""

    calls: int
    made: int
    start: int
    space: int
    pid: int


GATE_THREAD = struct.Struct("<IIQQI")
