# SPDX-License-Identifier: Apache-2.0
"""Virtual memory: handles, reservations and mappings."""

import os

from answers import Cell, Driver, cell
from shapes import BLOCK, MIB, access, alignment, prop


def virtual(d: Driver) -> None:
    d.context()
    o, p, q = Cell(64), Cell(64), Cell(64)
    for say, properties in (
        ("plain", prop()),
        ("fd", prop(handles=1)),
        ("win32", prop(handles=2)),
        ("fabric", prop(handles=8)),
        ("fd and fabric", prop(handles=9)),
        ("compressible", prop(compression=1)),
        ("compression 2", prop(compression=2)),
        ("rdma", prop(rdma=1)),
        ("usage 1", prop(usage=1)),
        ("usage 2", prop(usage=2)),
        ("kind 0", prop(0)),
        ("kind 2", prop(2)),
        ("device 1", prop(device=1)),
        ("device -1", prop(device=-1)),
        ("host", prop(where=2)),
        ("numa 0", prop(where=3)),
        ("numa 9", prop(where=3, device=9)),
        ("numa current", prop(where=4)),
        ("where 0", prop(where=0)),
        ("where 9", prop(where=9)),
    ):
        for which in (0, 1, 2):
            d("cuMemGetAllocationGranularity", o, properties, which, say=f"{say} {which}", v=lambda: o.v)
        for size in (BLOCK, 2 * BLOCK, BLOCK + 65536, BLOCK // 2, 1, 0):
            p.memory.raw = b"\0" * 64
            d("cuMemCreate", p, size, properties, 0, say=f"{say} {size}", v=lambda: p.v != 0)
            if p.v:
                d("cuMemGetAllocationPropertiesFromHandle", q, p.v, say=say, v=lambda: q.all("IIIiQBBHI"))
                for kind in (0, 1, 2, 8):
                    o.memory.raw = b"\xff" * 64
                    d(
                        "cuMemExportToShareableHandle",
                        o,
                        p.v,
                        kind,
                        0,
                        say=f"{say} as {kind}",
                        v=lambda k=kind: k == 1 and os.fstat(o.i) is not None,
                    )
                d("cuMemRelease", p.v, say=say)
    d("cuMemCreate", p, BLOCK, prop(), 1, say="flags 1")
    d("cuMemCreate", p, BLOCK, 0, 0, say="no properties")
    d("cuMemCreate", p, 1 << 45, prop(), 0, say="large")
    d("cuMemCreate", p, (1 << 64) - BLOCK, prop(), 0, say="all")
    d("cuMemGetAllocationGranularity", o, 0, 0, say="no properties")
    for size in (
        0,
        1,
        4096,
        65536,
        BLOCK - 1,
        BLOCK,
        BLOCK + 65536,
        3 * BLOCK,
        1 << 30,
        1 << 40,
        1 << 46,
        1 << 47,
        1 << 48,
    ):
        for align in (0, 1, 4096, BLOCK, 4 * BLOCK, 1 << 30, 3 * BLOCK):
            o.memory.raw = b"\0" * 64
            d(
                "cuMemAddressReserve",
                o,
                size,
                align,
                0,
                0,
                say=f"{size} {align}",
                v=lambda a=align: [alignment(o.v), a == 0 or o.v % a == 0],
            )
            if o.v:
                d("cuMemAddressFree", o.v, size, say=f"{size} {align}")
    d("cuMemAddressReserve", o, BLOCK, 0, 0, 1, say="flags 1")
    d("cuMemAddressReserve", 0, BLOCK, 0, 0, 0, say="to nowhere")
    hint = 0x7E0000000000
    d("cuMemAddressReserve", o, BLOCK, 0, hint, 0, say="hint", v=lambda: o.v == hint)
    d("cuMemAddressReserve", p, BLOCK, 0, hint, 0, say="hint, taken", v=lambda: p.v == hint)
    d("cuMemAddressReserve", q, BLOCK, 0, hint + 4096, 0, say="hint, unaligned", v=lambda: q.v == hint + 4096)
    d("cuMemAddressFree", o.v, BLOCK // 2, say="half")
    d("cuMemAddressFree", o.v, 2 * BLOCK, say="twice")
    d("cuMemAddressFree", o.v + 4096, BLOCK, say="interior")
    d("cuMemAddressFree", o.v, BLOCK)
    d("cuMemAddressFree", o.v, BLOCK, say="again")
    d("cuMemAddressFree", 0, BLOCK, say="null")


def virtual_orders(d: Driver) -> None:
    d.context()
    o, p, q, r = Cell(64), Cell(64), Cell(64), Cell(64)
    d("cuMemAddressReserve", o, 8 * BLOCK, 0, 0, 0)
    a = o.v
    d("cuMemCreate", p, 2 * BLOCK, prop(), 0)
    h = p.v
    d("cuMemCreate", p, BLOCK, prop(handles=1), 0)
    k = p.v
    host = Cell(4096)
    for say, where, size, offset, handle, flags in (
        ("0 bytes", a, 0, 0, h, 0),
        ("flags", a, 2 * BLOCK, 0, h, 1),
        ("no handle", a, BLOCK, 0, 0, 0),
        ("unknown handle", a, BLOCK, 0, 12345, 0),
        ("too large", a, 4 * BLOCK, 0, h, 0),
        ("half a block", a, MIB, 0, h, 0),
        ("unaligned size", a, BLOCK + 4096, 0, h, 0),
        ("unaligned address", a + 4096, BLOCK, 0, h, 0),
        ("offset", a, BLOCK, BLOCK, h, 0),
        ("unaligned offset", a, BLOCK, 4096, h, 0),
        ("part", a, BLOCK, 0, h, 0),
        ("not reserved", host.address & ~(BLOCK - 1), BLOCK, 0, k, 0),
        ("null", 0, BLOCK, 0, k, 0),
        ("beyond the reservation", a + 7 * BLOCK, 2 * BLOCK, 0, h, 0),
    ):
        d("cuMemMap", where, size, offset, handle, flags, say=say)
        if say in ("offset", "part", "half a block", "unaligned offset"):
            d.quiet("cuMemUnmap", a, BLOCK)
    d("cuMemMap", a, 2 * BLOCK, 0, h, 0)
    d("cuMemMap", a, 2 * BLOCK, 0, h, 0, say="mapped already")
    d("cuMemMap", a + BLOCK, BLOCK, 0, k, 0, say="overlapping")
    d("cuMemMap", a + 4 * BLOCK, 2 * BLOCK, 0, h, 0, say="the same handle twice")
    d("cuMemcpyHtoD_v2", a, host, 100, say="no access")
    d("cuMemGetAccess", r, cell("Ii", 1, 0), a, say="no access", v=lambda: r.v)
    for say, where, size, what, count in (
        ("device 1", a, 2 * BLOCK, access(device=1), 1),
        ("flags 2", a, 2 * BLOCK, access(2), 1),
        ("flags 9", a, 2 * BLOCK, access(9), 1),
        ("count 0", a, 2 * BLOCK, access(), 0),
        ("none", a, 2 * BLOCK, 0, 1),
        ("part", a, BLOCK, access(), 1),
        ("more", a, 3 * BLOCK, access(), 1),
        ("unaligned", a + 4096, BLOCK, access(), 1),
        ("0 bytes", a, 0, access(), 1),
        ("host", a, 2 * BLOCK, access(where=2), 1),
        ("not mapped", a + 2 * BLOCK, BLOCK, access(), 1),
        ("null", 0, BLOCK, access(), 1),
        ("read only", a, 2 * BLOCK, access(1), 1),
        ("none again", a, 2 * BLOCK, access(0), 1),
        ("read and write", a, 2 * BLOCK, access(), 1),
    ):
        d("cuMemSetAccess", where, size, what, count, say=say)
        d("cuMemGetAccess", r, cell("Ii", 1, 0), a, say=f"after {say}", v=lambda: r.v)
    d("cuMemGetAccess", r, cell("Ii", 1, 1), a, say="device 1", v=lambda: r.v)
    d("cuMemGetAccess", r, cell("Ii", 1, 0), a + 3 * BLOCK, say="not mapped", v=lambda: r.v)
    d("cuMemcpyHtoD_v2", a, host, 100)
    d("cuMemGetAddressRange_v2", r, q, a + BLOCK + 5, v=lambda: [r.v - a, q.v])
    d("cuMemRetainAllocationHandle", r, a + 100, v=lambda: r.v == h)
    retained = r.v
    d("cuMemRetainAllocationHandle", r, a + 3 * BLOCK, say="not mapped")
    d("cuMemRetainAllocationHandle", r, d.alloc(100), say="of cuMemAlloc")
    d("cuMemRelease", retained, say="retained")
    d("cuMemRelease", h, say="while mapped")
    d("cuMemRelease", h, say="again")
    d("cuMemcpyHtoD_v2", a, host, 100, say="after release")
    d("cuMemMap", a + 6 * BLOCK, 2 * BLOCK, 0, h, 0, say="released")
    d("cuMemFree_v2", a, say="mapped")
    d("cuMemUnmap", a, BLOCK, say="half")
    d("cuMemUnmap", a + 4096, BLOCK, say="unaligned")
    d("cuMemUnmap", a + 2 * BLOCK, BLOCK, say="not mapped")
    d("cuMemUnmap", a, 0, say="0 bytes")
    d("cuMemAddressFree", a, 8 * BLOCK, say="while mapped")
    d("cuMemUnmap", a, 2 * BLOCK)
    d("cuMemUnmap", a, 2 * BLOCK, say="again")
    d("cuMemUnmap", a + 4 * BLOCK, 2 * BLOCK)
    d("cuMemUnmap", a, 8 * BLOCK, say="whole reservation")
    d("cuMemMap", a, BLOCK, 0, k, 0, say="fd")
    d("cuMemMap", a + BLOCK, BLOCK, 0, k, 0, say="fd twice")
    d("cuMemSetAccess", a, 2 * BLOCK, access(), 1, say="two mappings")
    d("cuMemcpyHtoD_v2", a + BLOCK - 50, host, 100, say="across two mappings")
    d("cuMemGetAddressRange_v2", r, q, a + BLOCK, say="second mapping", v=lambda: [r.v - a, q.v])
    d("cuMemExportToShareableHandle", r, k, 1, 0)
    descriptor = r.i
    d("cuMemImportFromShareableHandle", q, descriptor, 1, v=lambda: q.v != k)
    imported = q.v
    d("cuMemGetAllocationPropertiesFromHandle", r, imported, say="imported", v=lambda: r.all("IIIiQBBHI"))
    d("cuMemMap", a + 2 * BLOCK, BLOCK, 0, imported, 0, say="imported")
    d("cuMemSetAccess", a + 2 * BLOCK, BLOCK, access(), 1, say="imported")
    d("cuMemsetD32_v2", a, 77, 1)
    d("cuMemcpyDtoH_v2", host, a + 2 * BLOCK, 4, say="through the imported one", v=lambda: host.u)
    d("cuMemImportFromShareableHandle", q, descriptor, 2, say="as win32")
    d("cuMemImportFromShareableHandle", q, 9999, 1, say="no file")
    with open(os.devnull) as null:
        d("cuMemImportFromShareableHandle", q, null.fileno(), 1, say="another file")
    d("cuMemUnmap", a, 3 * BLOCK, say="three mappings")
    d("cuMemRelease", imported)
    d("cuMemRelease", k)
    d("cuMemRelease", 0, say="null")
    d("cuMemRelease", 99999, say="unknown")
    d("cuMemAddressFree", a, 8 * BLOCK)
    d("cuMemGetAddressRange_v2", r, q, a, say="freed")
