"""Fragmented free memory becomes contiguous, by the real driver's mappings, and no byte of live memory changes."""

from __future__ import annotations

import random

import gpuconf
from checks import MIB, Missing, expect, live, rounds, succeed
from streams import own_allocator, own_streams, pinned

GRANULE = 2 * MIB


def case_stitching_keeps_every_canary() -> dict[str, int]:
    """In a million operations, each block keeps a byte at both ends and at granule edges until it is freed."""
    gpuconf.configure(limit="1GiB", growth=True, libraries=[])
    gpuconf.config.list_logical_devices()
    library, (cuda, (stream,)) = own_allocator(), own_streams(1)
    batch = 1 << 16
    (place, read), expected = pinned(cuda, batch), bytearray()
    rng = random.Random(1)
    blocks: list[tuple[int, int, int]] = []  # address, size, canary
    checked = refused = 0

    def places(address: int, size: int) -> list[int]:
        edges = range((address // GRANULE + 1) * GRANULE, address + size - 1, GRANULE)
        return [address, address + size - 1, *random.Random(address ^ size).sample(edges, min(4, len(edges)))]

    def check() -> int:
        succeed(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize")
        wrong = [number for number, value in enumerate(expected) if read[number] != value]
        expect(not wrong, f"{len(wrong)} of {len(expected)} canaries died")
        count = len(expected)
        expected.clear()
        return count

    for operation in rounds(1_000_000):
        if blocks and (len(blocks) > 400 or rng.random() < 0.48):
            address, size, canary = blocks.pop(rng.randrange(len(blocks)))
            for where in places(address, size):
                succeed(cuda.cuMemcpyDtoHAsync_v2(place + len(expected), where, 1, stream), "cuMemcpyDtoHAsync")
                expected.append(canary)
            library.gpuconf_free(address, size, 0, stream)
            if len(expected) > batch - 8:
                checked += check()
            continue
        size = rng.choice((rng.randrange(1, 4096), rng.randrange(1, 4 * MIB), rng.randrange(GRANULE, 64 * MIB)))
        address = library.gpuconf_malloc(size, 0, stream)
        if not address:
            refused += 1
            address, size, _ = blocks.pop(rng.randrange(len(blocks)))
            library.gpuconf_free(address, size, 0, stream)
            continue
        canary = operation % 251 + 1
        for where in places(address, size):
            succeed(cuda.cuMemsetD8Async(where, canary, 1, stream), "cuMemsetD8Async")
        blocks.append((address, size, canary))
    checked += check()
    stats = gpuconf.memory.stats()
    for address, size, _ in blocks:
        library.gpuconf_free(address, size, 0, stream)
    succeed(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize")
    expect(live() == 0, "blocks are left")
    if not stats.stitches:
        raise Missing("this GPU has no virtual memory management, so nothing was stitched")
    return {"canaries": checked, "stitches": stats.stitches, "stitched_bytes": stats.stitched_bytes, "refused": refused}
