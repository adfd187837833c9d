"""Visible behavior of a pool. Its traces, address by address, are Go tests."""

from __future__ import annotations

import threading

import gpuconf as tf
import pytest
from gpuconf._core.native import core

from .helpers import MIB, L, gpus, initialize, refused


def test_case_167_four_bytes_take_256(one_gpu: None) -> None:
    with tf.memory.allocate(4, "GPU:0") as buffer:
        stats = tf.memory.stats("GPU:0")
        assert (stats.requested_bytes_in_use, stats.bytes_in_use) == (4, 256)
        (region,) = tf.memory.memory_map("GPU:0").regions
        assert region.chunks[0] == (buffer.ptr, 256, 4, True, "gpuconf", "")


def test_case_168_no_bytes_are_no_memory(one_gpu: None) -> None:
    buffer = tf.memory.allocate(0, "GPU:0")
    assert (buffer.ptr, buffer.nbytes) == (0, 0)
    assert tf.memory.stats("GPU:0").num_allocs == 0
    assert tf.memory.stats("GPU:0").bytes_reserved == 0
    buffer.free()


def test_case_182_a_request_that_does_not_fit_waits_for_nothing(one_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow waits 10 seconds for another thread, unless that is disabled."""
    waits: list[tuple[int, ...]] = []
    monkeypatch.setattr(core, "pybind_WaitForFree", lambda *asked: waits.append(asked))
    tf.config.set_logical_device_configuration(gpus()[0], [L(10)])
    with tf.memory.allocate(9 * MIB, "GPU:0"), pytest.raises(MemoryError, match=" out of memory"):
        tf.memory.allocate(2 * MIB, "GPU:0")
    assert waits == []


def test_case_181_waiting_ends_when_another_thread_frees(one_gpu: None) -> None:
    tf.config.set_logical_device_configuration(gpus()[0], [L(10)])
    first = tf.memory.allocate(9 * MIB, "GPU:0")
    got: list[int] = []

    def wait_for_memory() -> None:
        with tf.memory.allocate(2 * MIB, "GPU:0", wait=60) as buffer:
            got.append(buffer.nbytes)

    thread = threading.Thread(target=wait_for_memory)
    thread.start()
    first.free()
    thread.join(30)
    assert got == [2 * MIB]


def test_case_181_waiting_in_vain_fails_with_the_report(one_gpu: None) -> None:
    tf.config.set_logical_device_configuration(gpus()[0], [L(10)])
    with (
        tf.memory.allocate(9 * MIB, "GPU:0"),
        refused(tf.errors.ResourceExhaustedError, "OOM when allocating 2.00MiB (2097152 bytes) on GPU:"),
    ):
        tf.memory.allocate(2 * MIB, "GPU:0", wait=0.01)


def test_a_request_that_can_never_fit_waits_for_nothing(one_gpu: None) -> None:
    tf.config.set_logical_device_configuration(gpus()[0], [L(10)])
    for wait in (60, float("inf")):
        with refused(tf.errors.ResourceExhaustedError, "OOM when allocating"):
            tf.memory.allocate(11 * MIB, "GPU:0", wait=wait)


def test_case_183_a_reset_of_the_statistics(one_gpu: None) -> None:
    small, big = tf.memory.allocate(1000, "GPU:0"), tf.memory.allocate(5000, "GPU:0")
    big.free()
    before = tf.memory.stats("GPU:0")
    assert (before.num_allocs, before.largest_alloc_size, before.peak_bytes_in_use) == (2, 5120, 6144)
    tf.config.experimental.reset_memory_stats("GPU:0")
    assert tf.memory.stats("GPU:0") == before._replace(num_allocs=0, largest_alloc_size=0, peak_bytes_in_use=1024)
    small.free()


def test_case_188_a_reset_forgets_pools_and_their_limits(one_gpu: None) -> None:
    """TensorFlow keeps them until the process ends, and ignores every later configuration."""
    tf.config.set_logical_device_configuration(gpus()[0], [L(10)])
    initialize()
    tf.memory.allocate(1000, "GPU:0").free()
    tf.reset()
    tf.config.set_logical_device_configuration(gpus()[0], [L(20)])
    stats = tf.memory.stats("GPU:0")
    assert stats.bytes_limit == 20 * MIB
    assert not any(stats._replace(bytes_limit=0))
