# SPDX-License-Identifier: Apache-2.0
"""``compat.v1.summary``: files of events for TensorBoard. No operation here makes summaries."""

from __future__ import annotations

import os
import socket
import struct
import time

from .. import errors
from .._core.block import Entered
from .._typing import Any
from ._names import publish
from ._proto import GraphDef
from .v1._mode import executing_eagerly

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


class FileWriter(Entered):
    """Writes a graph into a file for TensorBoard: names, types, inputs and requested devices of its operations.

    Raises RuntimeError where operations run eagerly, and OSError if the folder cannot be written.
    """

    def __init__(
        self,
        logdir: Any,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        del max_queue, flush_secs, session
        if executing_eagerly():
            raise RuntimeError(
                "tf.summary.FileWriter is not compatible with eager execution. Use tf.contrib.summary instead."
            )
        self._folder, self._suffix = os.fspath(logdir), filename_suffix or ""
        self._file: EventFile | None = EventFile(self._folder, self._suffix)
        if graph is not None or graph_def is not None:
            self.add_graph(graph, graph_def=graph_def)

    def get_logdir(self) -> Any:
        """Return the folder."""
        return self._folder

    def add_graph(self, graph: Any, global_step: int | None = None, graph_def: Any = None) -> None:
        """Add a graph."""
        self._add(4, encoded_graph(graph.as_graph_def() if graph is not None else graph_def), global_step)

    def add_summary(self, summary: Any, global_step: int | None = None) -> None:
        """Add a summary that is serialized, as bytes. Raises UnimplementedError for others, which need TensorFlow."""
        if not isinstance(summary, bytes):
            raise errors.UnimplementedError("a summary that is not bytes needs TensorFlow: gpuconf has no summaries")
        self._add(5, summary, global_step)

    def _add(self, field: int, data: bytes, step: int | None) -> None:
        if self._file is None:
            self.reopen()
        assert self._file is not None
        self._file.write(field, data, None if step is None else int(step))

    def flush(self) -> None:
        """Write what is buffered."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the file. Can be called again."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def reopen(self) -> None:
        """Begin another file, if the last one is closed."""
        if self._file is None:
            self._file = EventFile(self._folder, self._suffix)

    def _leave(self, *_: object) -> None:
        self.close()


def merge_all(key: str = "summaries", scope: str | None = None, name: str | None = None) -> None:
    """Return None, as for a graph without summaries. Raises RuntimeError where operations run eagerly."""
    del key, scope, name
    if executing_eagerly():
        raise RuntimeError(
            "Merging tf.summary.* ops is not compatible with eager execution. Use tf.contrib.summary instead."
        )


publish(__name__)
