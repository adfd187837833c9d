# SPDX-License-Identifier: Apache-2.0
"""What is said of each kind of pointer."""

import ctypes
import mmap
import struct

from answers import Cell, Driver, cell
from shapes import BLOCK, MIB, access, prop


def attributes_of(d: Driver, pointer: int, say: str, base: int) -> None:
    """Ask for all attributes of a pointer."""
    o = Cell(512)
    for attribute in range(0, 24):
        if attribute == 5:  # P2P tokens
            continue
        o.memory.raw = b"\xee" * 512

        def value(a: int = attribute) -> object:
            if a in (3, 4, 11, 19):
                return o.v - base if o.v else "null"
            if a in (2, 8, 9, 13, 16):
                return o.i
            if a in (14, 18):
                return o.v
            if a in (6, 15):
                return o.memory.raw[0]
            if a == 12:
                return o.v
            if a in (1, 17, 20):
                return o.v != 0
            if a in (10, 21):
                return o.memory.raw[0]
            return None

        d("cuPointerGetAttribute", o, attribute, pointer, say=f"{say} {attribute}", v=value)
    wanted = (1, 2, 3, 4, 6, 8, 9, 11, 12, 17)
    room = [Cell(16, b"\xee" * 16) for _ in wanted]

    where = Cell(0, struct.pack(f"<{len(wanted)}Q", *[one.address for one in room]))
    kinds = Cell(0, struct.pack(f"<{len(wanted)}I", *wanted))
    d(
        "cuPointerGetAttributes",
        len(wanted),
        kinds,
        where,
        pointer,
        say=say,
        v=lambda: [
            room[0].v != 0,
            room[1].i,
            room[2].v - base if room[2].v else "null",
            room[3].v - base if room[3].v else "null",
            room[4].memory.raw[0],
            room[5].i,
            room[6].i,
            room[7].v - base if room[7].v else "null",
            room[8].v,
            room[9].v != 0,
        ],
    )


def pointer_attributes(d: Driver) -> None:
    d.context()
    o = Cell(64)
    device = d.alloc(1000)
    attributes_of(d, device, "device", device)
    attributes_of(d, device + 10, "interior", device)
    attributes_of(d, device + 1000, "behind", device)
    gone = d.alloc(5 * MIB)
    d.quiet("cuMemFree_v2", gone)
    attributes_of(d, gone, "freed", gone)
    attributes_of(d, 0, "null", 0)
    plain = Cell(100)
    attributes_of(d, plain.address, "host", plain.address)
    d.quiet("cuMemHostAlloc", o, 1000, 2)
    pinned = o.v
    attributes_of(d, pinned, "pinned", pinned)
    attributes_of(d, pinned + 7, "pinned interior", pinned)

    area = mmap.mmap(-1, 1 << 16)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    d.quiet("cuMemHostRegister_v2", base + 100, 1000, 0)
    attributes_of(d, base + 100, "registered", base + 100)
    d.quiet("cuMemAllocManaged", o, 1000, 1)
    attributes_of(d, o.v, "managed", o.v)
    d.quiet("cuMemAddressReserve", o, BLOCK, 0, 0, 0)
    virtual = o.v
    attributes_of(d, virtual, "reserved", virtual)
    handle = Cell()
    d.quiet("cuMemCreate", handle, BLOCK, prop(), 0)
    d.quiet("cuMemMap", virtual, BLOCK, 0, handle.v, 0)
    attributes_of(d, virtual, "mapped", virtual)
    d.quiet("cuMemSetAccess", virtual, BLOCK, access(), 1)
    attributes_of(d, virtual + 5, "accessible", virtual)
    d.quiet("cuMemAllocAsync", o, 1000, 0)
    attributes_of(d, o.v, "async", o.v)
    d("cuPointerSetAttribute", cell("I", 1), 6, device, say="sync memops")
    d("cuPointerSetAttribute", cell("I", 1), 6, plain, say="sync memops of host")
    d("cuPointerSetAttribute", cell("I", 1), 2, device, say="read only")
    d("cuPointerGetAttribute", o, 6, device, say="6 after", v=lambda: o.u & 255)
    d("cuPointerGetAttribute", 0, 2, device, say="to nowhere")
    d("cuPointerGetAttribute", o, 99, device, say="99")
    d("cuPointerGetAttributes", 0, 0, 0, device, say="none")
