"""The cost of a failing allocation: the search for its cause and the report."""

from __future__ import annotations

import statistics
import time

import gpuconf as tf

ROUNDS = 51
BLOCKS = (1_000, 10_000, 100_000)


def measure() -> list[dict[str, str]]:
    """Fail in a pool of many blocks with holes between them; medians and the slowest, in milliseconds."""
    rows = []
    for blocks in BLOCKS:
        for growth in (False, True):
            times = failures(blocks, growth)
            rows.append(
                {
                    "live blocks": f"{blocks:,}",
                    "memory growth": "on" if growth else "off",
                    "median": f"{statistics.median(times):.2f} ms",
                    "slowest": f"{max(times):.2f} ms",
                    "goal": "<= 10 ms" if blocks == BLOCKS[-1] else "",
                }
            )
    return rows


def failures(blocks: int, growth: bool) -> list[float]:
    """Milliseconds of each failure, including the exception's text."""
    times = []
    with tf.simulate("T4"):
        gpu = tf.config.list_physical_devices("GPU")[0]
        tf.config.experimental.set_memory_growth(gpu, growth)
        buffers = [tf.memory.allocate(4096, "GPU:0") for _ in range(2 * blocks)]
        for buffer in buffers[::2]:
            buffer.free()
        limit = tf.memory.stats("GPU:0").bytes_limit
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            try:
                tf.memory.allocate(limit - 4096 * blocks, "GPU:0")
            except tf.errors.ResourceExhaustedError as error:
                str(error)
                times.append((time.perf_counter() - begin) * 1000)
        for buffer in buffers[1::2]:
            buffer.free()
    return times
