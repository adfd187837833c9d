# SPDX-License-Identifier: Apache-2.0
"""Files of events, which TensorBoard reads: records with checksums, whose contents are Protocol Buffers messages
``Event``.
"""

from __future__ import annotations

import os
import socket
import struct
import time

from .._proto import GraphDef

VERSION = b"brain.Event:2"


def _table() -> tuple[int, ...]:
    """The CRC-32C of each byte."""
    rows = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        rows.append(byte)
    return tuple(rows)


_TABLE = _table()


def _checksum(data: bytes) -> bytes:
    """The masked CRC-32C of TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _field(number: int, data: bytes) -> bytes:
    """A field of bytes, of text or of a message."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def encoded_graph(graph: GraphDef) -> bytes:
    """Return a GraphDef in its wire format: names, types, inputs and devices of its operations, and its version."""
    nodes = b""
    for node in graph.node:
        fields = [(1, node.name), (2, node.op), *((3, each) for each in node.input), (4, node.device)]
        nodes += _field(1, b"".join(_field(number, text.encode()) for number, text in fields if text))
    return nodes + _field(4, b"\x08" + _varint(graph.versions.producer))


class EventFile:
    """A file of events in a folder, which is made if it is missing. Raises OSError if that fails."""

    def __init__(self, folder: str, suffix: str) -> None:
        os.makedirs(folder, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}{suffix}"
        self._file = open(os.path.join(folder, name), "ab")  # noqa: SIM115 - close() closes it
        self.write(3, VERSION)
        self.flush()

    def write(self, field: int, data: bytes, step: int | None = None) -> None:
        """Add an event, whose content is a field of Event: 3 the version, 4 a graph, 5 a summary."""
        event = b"\x09" + struct.pack("<d", time.time())
        event += b"" if step is None else b"\x10" + _varint(step & 0xFFFFFFFFFFFFFFFF)
        event += _field(field, data)
        length = struct.pack("<Q", len(event))
        self._file.write(length + _checksum(length) + event + _checksum(event))

    def flush(self) -> None:
        """Write what is buffered."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
