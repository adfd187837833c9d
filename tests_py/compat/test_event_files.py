"""``compat.v1.summary.FileWriter``: the files that TensorBoard reads, read here by the formats of TFRecord and Protocol
Buffers.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import gpuconf.compat.v1 as tf
import gpuconf.compat.v2 as tf2
import pytest
from gpuconf import errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def crc32c(data: bytes) -> int:
    """Bit by bit, as the standard defines it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


def records(file: Path) -> Iterator[bytes]:
    data = file.read_bytes()
    while data:
        (length,), data_of = struct.unpack("<Q", data[:8]), data[12:]
        assert struct.unpack("<I", data[8:12]) == (masked(data[:8]),)
        record = data_of[:length]
        assert struct.unpack("<I", data_of[length : length + 4]) == (masked(record),)
        yield record
        data = data_of[length + 4 :]


def fields(message: bytes) -> list[tuple[int, bytes | int]]:
    """The fields of a message, in order."""
    found: list[tuple[int, bytes | int]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    while at < len(message):
        key = varint()
        size = {0: 0, 1: 8, 2: -1}[key & 7]
        if size == 0:
            found.append((key >> 3, varint()))
            continue
        size = varint() if size < 0 else size
        found.append((key >> 3, message[at : at + size]))
        at += size
    return found


def test_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_a_graph_and_its_devices(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        with tf.device("/gpu:1"):
            x = tf.constant([[1.0]], name="x")
        tf.matmul(x, x, name="y" * 200)
        with tf.summary.FileWriter(tmp_path / "logs", graph, filename_suffix=".x") as writer:
            writer.add_summary(b"\x0a\x00", global_step=300)
            assert tf.summary.merge_all() is None
        writer.close()
    (file,) = (tmp_path / "logs").iterdir()
    assert file.name.startswith("events.out.tfevents.")
    assert file.name.endswith(".x")
    version, of_graph, summary = (dict(fields(record)) for record in records(file))
    assert version[3] == b"brain.Event:2"
    assert (summary[2], summary[5]) == (300, b"\x0a\x00")
    assert isinstance(of_graph[4], bytes)
    nodes = [fields(node) for number, node in fields(of_graph[4]) if number == 1 and isinstance(node, bytes)]
    assert nodes[0] == [(1, b"x"), (2, b"Const"), (4, b"/device:GPU:1")]
    assert nodes[1] == [(1, b"y" * 200), (2, b"MatMul"), (3, b"x"), (3, b"x")]


def test_a_writer_begins_another_file_after_it_is_closed(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        writer = tf.summary.FileWriter(str(tmp_path), filename_suffix=".a")
        writer.close()
        writer.add_graph(graph)
        writer.flush()
        assert writer.get_logdir() == str(tmp_path)
        assert sum(len(list(records(file))) for file in tmp_path.iterdir()) >= 2
        writer.close()


def test_what_it_refuses(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(str(tmp_path))
        with pytest.raises(errors.UnimplementedError, match="needs TensorFlow"):
            writer.add_summary(object())
        writer.close()
        with pytest.raises(OSError, match="x"):
            tf.summary.FileWriter("/proc/x")
    assert tf2.executing_eagerly()
    with pytest.raises(RuntimeError, match="not compatible with eager execution"):
        tf.summary.FileWriter(str(tmp_path))
    with pytest.raises(RuntimeError, match="not compatible with eager execution"):
        tf.summary.merge_all()
