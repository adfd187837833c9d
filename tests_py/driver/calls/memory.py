# SPDX-License-Identifier: Apache-2.0
"""Device memory, page-locked memory and managed memory."""

import ctypes
import itertools
import mmap

from answers import Cell, Driver
from shapes import BLOCK, MIB, alignment

WIDTHS = """
    1 4 16 31 32 33 64 127 128 129 255 256 257 500 511 512 513 1000 1023 1024 1025 2048 2049 4000 4096 4097
    10000 65536 65537 100000 1000000
"""


def memory(d: Driver) -> None:
    d.context()
    o, p, q = Cell(64), Cell(64), Cell(64)
    host = Cell(1 << 16)
    d("cuMemAlloc_v2", o, 0, say="0 bytes")
    d("cuMemAlloc_v2", 0, 100, say="to nowhere")
    for size in (1 << 40, 1 << 47, 1 << 62, (1 << 64) - 1, (1 << 64) - 512):
        d("cuMemAlloc_v2", o, size, say=hex(size))
    d("cuMemFree_v2", 0, say="null")
    for pointer in (1, 4096, 1 << 40, host.address, host.address + 1):
        d("cuMemFree_v2", pointer, say="unknown" if pointer < 1 << 41 else "host")
    last = 0
    for size in (
        1,
        2,
        255,
        256,
        257,
        511,
        512,
        513,
        1000,
        4096,
        4097,
        65536,
        100000,
        MIB - 1,
        MIB,
        MIB + 1,
        BLOCK - 1,
        BLOCK,
        BLOCK + 1,
        3 * MIB,
        32 * MIB,
        32 * MIB + 1,
    ):
        d("cuMemAlloc_v2", o, size, say=str(size), v=lambda: alignment(o.v))
        pointer = o.v
        d("cuMemGetAddressRange_v2", p, q, pointer, say=str(size), v=lambda x=pointer: [p.v == x, q.v])
        d("cuMemGetAddressRange_v2", p, q, pointer + size - 1, say=f"{size} last", v=lambda x=pointer: [p.v == x, q.v])
        if last:
            d("cuMemFree_v2", last)
        last = pointer
    blocks = [d.alloc(100) for _ in range(8)]
    d.note("distances of 100 bytes", [b - a for a, b in itertools.pairwise(blocks)])
    small = [d.alloc(1) for _ in range(8)]
    d.note("distances of 1 byte", [b - a for a, b in itertools.pairwise(small)])
    odd = [d.alloc(600) for _ in range(8)]
    d.note("distances of 600 bytes", [b - a for a, b in itertools.pairwise(odd)])
    large = [d.alloc(MIB + 1) for _ in range(4)]
    d.note("distances of 1 MiB + 1", [b - a for a, b in itertools.pairwise(large)])
    a = blocks[0]
    d("cuMemGetAddressRange_v2", p, q, a + 100, say="behind the end", v=lambda: [p.v == a, q.v])
    d("cuMemGetAddressRange_v2", p, 0, a, say="base only", v=lambda: p.v == a)
    d("cuMemGetAddressRange_v2", 0, q, a, say="size only", v=lambda: q.v)
    d("cuMemGetAddressRange_v2", 0, 0, a, say="neither")
    d("cuMemGetAddressRange_v2", p, q, 0, say="null")
    d("cuMemGetAddressRange_v2", p, q, host, say="host")
    d("cuMemFree_v2", a + 1, say="interior")
    d("cuMemFree_v2", a + 64, say="interior")
    d("cuMemFree_v2", a)
    d("cuMemFree_v2", a, say="again")
    d("cuMemAlloc_v2", o, 100, say="after a free", v=lambda: o.v == a)
    d("cuMemGetInfo_v2", 0, p, say="free to nowhere")
    d("cuMemGetInfo_v2", 0, 0, say="to nowhere")
    d("cuMemAllocHost_v2", o, 0, say="0 bytes")
    d("cuMemAllocHost_v2", o, 100, v=lambda: alignment(o.v))
    pinned = o.v
    d("cuMemFree_v2", pinned, say="pinned")
    d("cuMemFreeHost", a, say="device")
    d("cuMemFreeHost", pinned + 1, say="interior")
    d("cuMemFreeHost", pinned)
    d("cuMemFreeHost", pinned, say="again")
    d("cuMemFreeHost", 0, say="null")
    d("cuMemFreeHost", host, say="host")
    d("cuMemHostAlloc", o, 1 << 50, 0, say="large")
    d("cuMemAllocManaged", o, 0, 1, say="0 bytes")
    for flags in (0, 1, 2, 3, 4):
        d("cuMemAllocManaged", o, 1000, flags, say=str(flags), v=lambda: alignment(o.v))
    managed = o.v
    d("cuMemFree_v2", managed + 8, say="managed interior")
    d("cuMemFreeHost", managed, say="managed")
    d("cuMemFree_v2", managed, say="managed")


def pitches(d: Driver) -> None:
    d.context()
    o, p = Cell(), Cell()
    for element in (4, 8, 16):
        for width in map(int, WIDTHS.split()):
            d(
                "cuMemAllocPitch_v2",
                o,
                p,
                width,
                3,
                element,
                say=f"{width} {element}",
                v=lambda: [p.v, alignment(o.v) >= 512],
            )
            d.quiet("cuMemFree_v2", o.v)
    for width, height, element in (
        (0, 1, 4),
        (1, 0, 4),
        (16, 1, 0),
        (16, 1, 1),
        (16, 1, 2),
        (16, 1, 3),
        (16, 1, 32),
        (1 << 31, 1, 4),
        (1 << 32, 1, 4),
        (1 << 20, 1 << 30, 4),
        (1 << 40, 1 << 40, 4),
    ):
        d("cuMemAllocPitch_v2", o, p, width, height, element, say=f"{width} {height} {element}", v=lambda: p.v)
        if o.v:
            d.quiet("cuMemFree_v2", o.v)
    d("cuMemAllocPitch_v2", o, 0, 16, 1, 4, say="no pitch")
    d("cuMemAllocPitch_v2", o, p, 1000, 3, 4)
    d("cuMemGetAddressRange_v2", p, d and (size := Cell()), o.v, say="pitched", v=lambda: [p.v == o.v, size.v])


def host_memory(d: Driver) -> None:
    context = d.context()
    o, p = Cell(64), Cell(64)
    for flags in (*range(9), 16):
        d("cuMemHostAlloc", o, 5000, flags, say=str(flags), v=lambda: alignment(o.v) >= 4096)
        pointer = o.v
        d("cuMemHostGetFlags", p, pointer, say=str(flags), v=lambda: p.u)
        d("cuMemHostGetDevicePointer_v2", p, pointer, 0, say=str(flags), v=lambda x=pointer: p.v == x)
        d(
            "cuMemHostGetDevicePointer_v2",
            p,
            pointer + 10,
            0,
            say=f"{flags} interior",
            v=lambda x=pointer: p.v == x + 10,
        )
        d("cuMemHostGetDevicePointer_v2", p, pointer, 1, say=f"{flags} flags 1")
        d("cuMemHostUnregister", pointer, say=str(flags))
        if pointer:
            d.quiet("cuMemFreeHost", pointer)
        o.memory.raw = b"\0" * 64

    area = mmap.mmap(-1, 1 << 20)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    for flags in (0, 1, 2, 3, 4, 5, 8, 9, 16, 32):
        d("cuMemHostRegister_v2", base, 4096, flags, say=str(flags))
        d("cuMemHostGetFlags", p, base, say=f"registered {flags}", v=lambda: p.u)
        d("cuMemHostUnregister", base, say=str(flags))
    for offset, size, say in (
        (0, 0, "0 bytes"),
        (0, 100, "100"),
        (0, 100, "again"),
        (50, 20, "inside"),
        (100, 100, "behind, on the page"),
        (4096, 8192, "next page"),
        (8192, 4096, "its part"),
        (2048, 4096, "across two"),
        (65537, 1001, "unaligned"),
        (70000, 10, "on its neighbour's page"),
        (1 << 19, 1 << 20, "beyond the mapping"),
    ):
        d("cuMemHostRegister_v2", base + offset, size, 0, say=say)
    d("cuMemHostRegister_v2", 0, 100, 0, say="null")
    d("cuMemHostRegister_v2", d.alloc(4096), 4096, 0, say="device")
    for offset in (1, 4096 + 4096, 4096, 4096, 0, 65536, 65537):
        d("cuMemHostUnregister", base + offset, say=str(offset))
    d("cuMemHostUnregister", 0, say="null")
    d("cuMemHostRegister_v2", base, 8192, 1)
    d("cuMemHostGetDevicePointer_v2", p, base + 5000, 0, say="registered", v=lambda: p.v == base + 5000)
    d("cuMemHostGetDevicePointer_v2", p, base + 8192, 0, say="behind")
    d("cuMemFreeHost", base, say="registered")
    d("cuMemHostGetFlags", p, base + 100, say="interior", v=lambda: p.u)
    d("cuMemHostGetFlags", p, base + 20000, say="not registered")
    d("cuMemHostAlloc", o, 4096, 0)
    d("cuMemHostRegister_v2", o.v, 4096, 0, say="pinned already")
    d("cuPointerGetAttribute", p, 1, o.v, say="context of pinned", v=lambda: p.v == context)


def managed(d: Driver) -> None:
    d.context()
    o, p = Cell(64), Cell(64)
    d("cuMemAllocManaged", o, BLOCK, 1)
    m = o.v
    plain, host = d.alloc(100), Cell(4096)
    for advice in range(0, 9):
        d("cuMemAdvise", m, BLOCK, advice, 0, say=str(advice))
        d("cuMemAdvise_v2", m, BLOCK, advice, 1, say=str(advice))
        d("cuMemAdvise", m, BLOCK, advice, -1, say=f"{advice} of the host")
    d("cuMemAdvise", plain, 100, 1, 0, say="device memory")
    d("cuMemAdvise", host, 4096, 1, 0, say="host memory")
    d("cuMemAdvise", m, 0, 1, 0, say="0 bytes")
    d("cuMemAdvise", m, 2 * BLOCK, 1, 0, say="beyond")
    for target in (0, -1, 1):
        d("cuMemPrefetchAsync", m, BLOCK, target, 0, say=str(target))
    d("cuMemPrefetchAsync_v2", m, BLOCK, 1, 0, 0, say="device 0")
    d("cuMemPrefetchAsync_v2", m, BLOCK, 2, 0, 0, say="host")
    d("cuMemPrefetchAsync_v2", m, BLOCK, 1, 1, 0, say="flags 1")
    d("cuMemPrefetchAsync", plain, 100, 0, 0, say="device memory")
    d("cuMemPrefetchAsync", m, 0, 0, 0, say="0 bytes")
    for attribute in range(0, 10):
        for size in (0, 1, 4, 8):
            o.memory.raw = b"\xee" * 64
            d("cuMemRangeGetAttribute", o, size, attribute, m, BLOCK, say=f"{attribute} {size}", v=lambda: o.i)
    d("cuMemRangeGetAttribute", o, 4, 1, plain, 100, say="device memory")
    d("cuStreamAttachMemAsync", 0, m, 0, 1, say="global")
    d("cuStreamAttachMemAsync", 0, m, 0, 2, say="host")
    d("cuStreamAttachMemAsync", 0, m, 0, 4, say="single, null stream")
    stream = d.stream()
    d("cuStreamAttachMemAsync", stream, m, 0, 4, say="single")
    d("cuStreamAttachMemAsync", stream, m, 100, 1, say="100 bytes")
    d("cuStreamAttachMemAsync", stream, m + 4, 0, 1, say="interior")
    d("cuStreamAttachMemAsync", stream, m, 0, 3, say="flags 3")
    d("cuMemHostGetDevicePointer_v2", p, m, 0)
    d("cuMemHostRegister_v2", m, 4096, 0)
    d("cuCtxSynchronize")
    ctypes.memset(m, 5, 100)
    d("cuMemcpyDtoH_v2", host, m, 100, v=lambda: host.memory.raw[99])
    d("cuMemFreeAsync", m, 0)
    d("cuCtxSynchronize")
    d("cuMemFree_v2", m, say="afterwards")
