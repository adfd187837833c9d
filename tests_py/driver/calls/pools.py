# SPDX-License-Identifier: Apache-2.0
"""Memory pools."""

from answers import Cell, Driver, cell
from shapes import BLOCK, MIB, access, alignment, pool_props


def pools(d: Driver) -> None:
    d.context()
    o, p, q = Cell(64), Cell(64), Cell(64)
    d("cuDeviceGetDefaultMemPool", o, 0)
    default = o.v
    d("cuDeviceGetMemPool", o, 0, v=lambda: o.v == default)
    d("cuDeviceGetDefaultMemPool", o, 1, say="device 1")

    def look(pool: int, say: str) -> None:
        for attribute in range(1, 9):
            d(
                "cuMemPoolGetAttribute",
                pool,
                attribute,
                o,
                say=f"{attribute} {say}",
                v=lambda a=attribute: o.u if a < 4 else o.v,
            )

    for attribute in (0, *range(9, 16)):
        d("cuMemPoolGetAttribute", default, attribute, o, say=str(attribute), v=lambda: o.v)
    look(default, "default at first")
    stream = d.stream()
    pointers = []
    for size in (1, 100, 512, 513, 4096, MIB, BLOCK - 1, BLOCK + 1, 16 * MIB, 33 * MIB, 100 * MIB):
        d("cuMemAllocAsync", p, size, stream, say=str(size), v=lambda: alignment(p.v))
        pointers.append(p.v)
        look(default, f"with {size}")
        d("cuMemGetAddressRange_v2", o, q, p.v, say=f"of {size}", v=lambda: [o.v == p.v, q.v])
    d("cuStreamSynchronize", stream)
    look(default, "after sync")
    for pointer in pointers[:5]:
        d("cuMemFreeAsync", pointer, stream)
    look(default, "5 freed")
    d("cuStreamSynchronize", stream)
    look(default, "5 freed, synchronized")
    d("cuMemFreeAsync", pointers[0], stream, say="again")
    d("cuMemFree_v2", pointers[5], say="of the pool")
    look(default, "one by cuMemFree")
    d("cuMemFreeAsync", pointers[6] + 1, stream, say="interior")
    d("cuMemFreeAsync", 0, stream, say="null")
    plain = d.alloc(100)
    d("cuMemFreeAsync", plain, stream, say="of cuMemAlloc")
    for pointer in pointers[6:]:
        d("cuMemFreeAsync", pointer, stream)
    d("cuStreamSynchronize", stream)
    look(default, "all freed")
    d("cuMemPoolTrimTo", default, 1 << 40, say="large")
    d("cuMemPoolTrimTo", default, 0)
    look(default, "trimmed")
    for attribute in range(0, 10):
        for value in (0, 1, 2, 1 << 30):
            d("cuMemPoolSetAttribute", default, attribute, cell("Q", value), say=f"{attribute} {value}")
            d(
                "cuMemPoolGetAttribute",
                default,
                attribute,
                o,
                say=f"{attribute} after {value}",
                v=lambda a=attribute: o.u if a < 4 else o.v,
            )
    d("cuMemPoolDestroy", default, say="default")
    for say, properties in (
        ("plain", pool_props()),
        ("kind 0", pool_props(0)),
        ("kind 2", pool_props(2)),
        ("device 1", pool_props(device=1)),
        ("device -1", pool_props(device=-1)),
        ("host", pool_props(where=2)),
        ("numa 0", pool_props(where=3)),
        ("where 0", pool_props(where=0)),
        ("where 9", pool_props(where=9)),
        ("fd", pool_props(handles=1)),
        ("win32", pool_props(handles=2)),
        ("fabric", pool_props(handles=8)),
        ("handles 16", pool_props(handles=16)),
        ("most 1", pool_props(most=1)),
        ("most 10M", pool_props(most=10_000_000)),
        ("usage 2", pool_props(usage=2)),
        ("usage 1", pool_props(usage=1)),
        ("managed", pool_props(kind=2)),
    ):
        q.memory.raw = b"\0" * 64
        d("cuMemPoolCreate", q, properties, say=say, v=lambda: q.v != 0)
        if q.v:
            look(q.v, say)
            d("cuMemAllocFromPoolAsync", p, 3 * MIB, q.v, stream, say=say, v=lambda: alignment(p.v))
            d("cuMemAllocFromPoolAsync", p, 30 * MIB, q.v, stream, say=f"{say} 30 MiB", v=lambda: alignment(p.v))
            look(q.v, f"{say} used")
            if say in ("plain", "fd"):
                d("cuMemPoolExportToShareableHandle", o, q.v, 1, 0, say=say)
                d("cuMemPoolExportToShareableHandle", o, q.v, 2, 0, say=f"{say} as win32")
                d("cuMemPoolExportPointer", Cell(64), p.v, say=say)
                d("cuMemPoolGetAccess", o, q.v, cell("Ii", 1, 0), say=say, v=lambda: o.u)
                for flags in (0, 1, 3, 2):
                    d("cuMemPoolSetAccess", q.v, access(flags), 1, say=f"{say} {flags}")
                d("cuMemPoolSetAccess", q.v, access(3, device=1), 1, say=f"{say} device 1")
                d("cuMemPoolSetAccess", q.v, access(3, where=2), 1, say=f"{say} host")
                d("cuMemPoolGetAccess", o, q.v, cell("Ii", 1, 1), say=f"{say} device 1")
            d("cuMemPoolDestroy", q.v, say=f"{say}, with memory in use")
    d("cuMemPoolCreate", q, pool_props())
    mine = q.v
    d("cuDeviceSetMemPool", 0, mine)
    d("cuDeviceGetMemPool", o, 0, v=lambda: o.v == mine)
    d("cuMemAllocAsync", p, 1000, stream, say="of the current pool")
    d("cuPointerGetAttribute", o, 17, p.v, say="pool", v=lambda: o.v == mine)
    d("cuMemPoolDestroy", mine, say="current")
    d("cuDeviceGetMemPool", o, 0, say="after that", v=lambda: [o.v == mine, o.v == default])
    d("cuDeviceSetMemPool", 0, 0, say="null")
    d("cuDeviceSetMemPool", 0, default, say="default")
    d("cuMemAllocAsync", p, 0, stream, say="0 bytes")
    d("cuMemAllocAsync", p, 1 << 45, stream, say="large")
    d("cuMemAllocAsync", p, (1 << 64) - 1, stream, say="all")
    d("cuMemAllocAsync", 0, 100, stream, say="to nowhere")
    d("cuMemAllocAsync", p, 100, 0, say="null stream")
    d("cuMemAllocAsync", p, 100, 1, say="legacy")
    d("cuMemAllocAsync", p, 100, 2, say="per thread")
    d("cuMemAllocFromPoolAsync", p, 100, 0, stream, say="no pool")
    d("cuMemGetDefaultMemPool", o, cell("Ii", 1, 0), 1, say="location")
    d("cuMemGetMemPool", o, cell("Ii", 1, 0), 1, say="location")
    d("cuMemPoolGetAttribute", 0, 1, o, say="null")
    d("cuMemPoolTrimTo", 0, 0, say="null")
    d("cuMemPoolDestroy", 0, say="null")


def pool_reuse(d: Driver) -> None:
    """Which blocks a pool gives again, within a stream and between streams."""
    d.context()
    o, pool = Cell(), Cell()
    a, b = d.stream(), d.stream()
    d.quiet("cuDeviceGetDefaultMemPool", pool, 0)
    d("cuMemPoolSetAttribute", pool.v, 4, cell("Q", (1 << 64) - 1), say="threshold")
    known: list[int] = []

    def take(size: int, stream: int, say: str) -> int:
        def which() -> object:
            return known.index(o.v) if o.v in known else "new"

        d("cuMemAllocAsync", o, size, stream, say=say, v=which)
        if o.v not in known:
            known.append(o.v)
        return o.v

    one = take(1000, a, "a")
    two = take(1000, a, "a again")
    d.note("distance", two - one)
    d("cuMemFreeAsync", one, a)
    again = take(1000, a, "a after a free")
    d("cuMemFreeAsync", again, a)
    other = take(1000, b, "b after a's free")
    d("cuMemFreeAsync", other, b)
    d("cuStreamSynchronize", a)
    d("cuStreamSynchronize", b)
    take(1000, b, "b after sync")
    big = take(50 * MIB, a, "big")
    d("cuMemFreeAsync", big, a)
    small = take(20 * MIB, a, "part of big")
    d.note("within big", small == big)
    d("cuMemPoolGetAttribute", pool.v, 5, o, v=lambda: o.v)
    d("cuMemPoolGetAttribute", pool.v, 7, o, v=lambda: o.v)
    d("cuMemFreeAsync", small, a)
    for size in (10, 20, 40, 80, 160):
        pointer = take(size * MIB, a, f"{size} MiB")
        d("cuMemFreeAsync", pointer, a)
        d("cuMemPoolGetAttribute", pool.v, 5, o, say=f"after {size}", v=lambda: o.v)
    d("cuMemPoolTrimTo", pool.v, 50 * MIB)
    d("cuMemPoolGetAttribute", pool.v, 5, o, say="trimmed to 50 MiB", v=lambda: o.v)
    d("cuStreamSynchronize", a)
    d("cuMemPoolTrimTo", pool.v, 50 * MIB)
    d("cuMemPoolGetAttribute", pool.v, 5, o, say="trimmed to 50 MiB, synchronized", v=lambda: o.v)
    d("cuMemPoolTrimTo", pool.v, 0)
    d("cuMemPoolGetAttribute", pool.v, 5, o, say="trimmed", v=lambda: o.v)


def pools_between_processes(d: Driver) -> None:
    """A pool that is exported is imported in the same process, which CUDA's documentation leaves open."""
    d.context()
    o, p, q = Cell(64), Cell(64), Cell(128)
    d("cuMemPoolCreate", o, pool_props(handles=1))
    pool = o.v
    d("cuMemPoolExportToShareableHandle", p, pool, 1, 0)
    descriptor = p.i
    d("cuMemAllocFromPoolAsync", o, 1000, pool, 0)
    pointer = o.v
    d("cuMemPoolExportPointer", q, pointer)
    d("cuMemPoolExportPointer", q, pointer + 8, say="interior")
    d("cuMemPoolExportPointer", q, d.alloc(100), say="of cuMemAlloc")
    d("cuMemPoolExportPointer", q, pointer)
    d("cuMemPoolImportFromShareableHandle", o, descriptor, 1, 0, v=lambda: o.v != pool)
    imported = o.v
    d("cuMemPoolImportFromShareableHandle", o, 9999, 1, 0, say="no file")
    d("cuMemPoolImportPointer", p, imported, q, v=lambda: p.v % 512)
    d("cuMemAllocFromPoolAsync", o, 100, imported, 0, say="imported")
    d("cuMemPoolGetAttribute", imported, 5, o, say="imported", v=lambda: o.v)
    d("cuMemPoolSetAttribute", imported, 4, cell("Q", 1), say="imported")
    d("cuMemPoolExportToShareableHandle", o, imported, 1, 0, say="imported")
    d("cuMemFreeAsync", p.v, 0, say="imported")
    d("cuMemFreeAsync", pointer, 0)
    d("cuMemPoolTrimTo", imported, 0, say="imported")
    d("cuMemPoolDestroy", imported)
    d("cuMemPoolDestroy", pool)
    d("cuCtxSynchronize")
