"""Buffers of gpuconf alone, up to the limit and beyond the GPU."""

from __future__ import annotations

import os
import platform

import gpuconf
from checks import MIB, Missing, expect, live


def case_a_buffer_keeps_what_was_written() -> None:
    """Bytes copied to the GPU are unchanged when copied back, at every size around a granule's edge."""
    gpuconf.configure(limit="256MiB", growth=True, libraries=[])
    for size in (1, 255, 256, 257, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 64 * MIB):
        data = bytes(range(256)) * (size // 256 + 1)
        with gpuconf.memory.allocate(size) as buffer:
            buffer.copy_from_host(data[:size])
            expect(bytes(buffer.copy_to_host()) == data[:size], f"{size} bytes changed")
    expect(live() == 0, "blocks are left")


def case_the_limit_serves_every_byte() -> None:
    """With limits below, at and around a granule, exactly that many bytes can be allocated."""
    for limit in (1, 7, 257):
        for growth in (True, False):
            gpuconf.configure(limit=f"{limit}MiB", growth=growth, libraries=[])
            buffers = [gpuconf.memory.allocate(MIB) for _ in range(limit)]
            try:
                gpuconf.memory.allocate(1)
            except MemoryError:
                pass
            else:
                raise AssertionError(f"more than {limit} MiB fitted, growth={growth}")
            for buffer in buffers:
                buffer.free()
            gpuconf.reset()


def case_unified_memory_exceeds_the_gpu() -> None:
    """A fraction above 1: one buffer larger than the GPU, written and read at places that cannot all be on it."""
    import gpuconf.compat.v1 as tf1

    if not os.environ.get("GPU_OVERSUBSCRIBE"):  # with some drivers it can make the GPU hang, for other programs too
        raise Missing("more unified memory than the card has is only tried with GPU_OVERSUBSCRIBE=1")
    if "microsoft" in platform.release().lower():
        raise Missing("under WSL unified memory has to fit on the GPU")
    options = tf1.GPUOptions(per_process_gpu_memory_fraction=1.5)
    try:
        tf1.Session(config=tf1.ConfigProto(gpu_options=options))
    except (gpuconf.errors.InternalError, gpuconf.errors.UnimplementedError) as error:
        raise Missing(str(error)) from error
    size = gpuconf.memory.stats().bytes_limit // 256 * 256
    total = size * 2 // 3
    with gpuconf.memory.allocate(size) as buffer:
        steps = range(0, size, size // 64)
        for number, offset in enumerate(steps):
            buffer.copy_from_host(bytes([number]) * 4096, offset)
        for number, offset in enumerate(steps):
            got = bytes(buffer.copy_to_host(bytearray(4096), offset))
            expect(got == bytes([number]) * 4096, f"other bytes at offset {offset}")
        stats = gpuconf.memory.stats()
        expect(
            abs(stats.oversubscribed_bytes - (size - total)) < 512, f"{stats.oversubscribed_bytes} bytes exceed the GPU"
        )
        expect(buffer.__dlpack_device__()[0] == 13, "it is not managed memory for DLPack")
    expect(live() == 0, "blocks are left")
