# SPDX-License-Identifier: Apache-2.0
"""Copies and fills."""

from answers import Cell, Driver, cell
from shapes import BLOCK, MIB


def copies(d: Driver) -> None:
    d.context()
    o = Cell(64)
    host, other = Cell(65536), Cell(65536)
    a, b = d.alloc(1000), d.alloc(5 * MIB)
    stream = d.stream()
    d.quiet("cuMemHostAlloc", o, 4096, 0)
    pinned = o.v
    for name, first, second in (
        ("cuMemcpyHtoD_v2", a, host),
        ("cuMemcpyDtoH_v2", host, a),
        ("cuMemcpyDtoD_v2", b, a),
        ("cuMemcpy", a, host),
        ("cuMemcpy", host, other),
        ("cuMemcpyDtoD_v2", a, host),
        ("cuMemcpyHtoD_v2", a, b),
        ("cuMemcpyHtoD_v2", host, other),
        ("cuMemcpyDtoH_v2", b, a),
        ("cuMemcpyDtoH_v2", host, pinned),
        ("cuMemcpyHtoD_v2", a, pinned),
        ("cuMemcpyDtoD_v2", a, pinned),
    ):
        say = " ".join("host" if x in (host, other) else "pinned" if x == pinned else "device" for x in (first, second))
        for size in (0, 1, 999, 1000):
            d(name, first, second, size, say=f"{say} {size}")
    for name, first, second in (
        ("cuMemcpyHtoDAsync_v2", a, host),
        ("cuMemcpyDtoHAsync_v2", host, a),
        ("cuMemcpyDtoDAsync_v2", b, a),
        ("cuMemcpyAsync", a, host),
        ("cuMemcpyAsync", pinned, a),
    ):
        for size in (0, 1000):
            d(name, first, second, size, stream, say=f"{'pinned' if first == pinned else ''}{size}")
    d("cuMemcpyHtoD_v2", 0, host, 10, say="to null")
    d("cuMemcpyHtoD_v2", a, 0, 10, say="from null")
    d("cuMemcpyDtoH_v2", 0, a, 10, say="to null")
    d("cuMemcpyDtoH_v2", host, 0, 10, say="from null")
    d("cuMemcpyDtoD_v2", a, 0, 10, say="from null")
    d("cuMemcpyHtoD_v2", 0, 0, 0, say="nulls, 0 bytes")
    d("cuMemcpyDtoD_v2", a, a + 10, 100, say="overlapping")
    d("cuMemcpyDtoD_v2", a, a, 100, say="onto itself")
    gone = d.alloc(3 * MIB)
    d.quiet("cuMemFree_v2", gone)
    d("cuMemcpyHtoD_v2", gone, host, 10, say="freed")
    d("cuMemcpyDtoH_v2", host, gone, 10, say="freed")
    d("cuMemcpyHtoD_v2", a + 995, host, 10, say="5 beyond 1000")
    d("cuMemcpyHtoD_v2", a + 1020, host, 10, say="behind 1000, beyond 1024")
    for name, step in (("cuMemsetD8_v2", 1), ("cuMemsetD16_v2", 2), ("cuMemsetD32_v2", 4)):
        for offset in (0, 1, 2, 3, 4):
            d(name, a + offset, 7, 100 // step, say=f"at {offset}")
        d(name, a, 7, 0, say="none")
        d(name, 0, 7, 10, say="null")
        d(name, 0, 7, 0, say="null, none")
        d(name, host, 7, 10, say="host")
        d(name, pinned, 7, 10, say="pinned")
        d(name, gone, 7, 10, say="freed")
    for name, step in (("cuMemsetD2D8_v2", 1), ("cuMemsetD2D16_v2", 2), ("cuMemsetD2D32_v2", 4)):
        for pitch, width, height in (
            (512, 16, 4),
            (512, 512 // step, 2),
            (16, 16, 4),
            (512, 0, 4),
            (512, 16, 0),
            (0, 16, 1),
            (511, 16, 2),
            (512, 600, 2),
        ):
            d(name, b, pitch, 3, width, height, say=f"{pitch} {width} {height}")
        d(name, b + 1, 512, 3, 16, 4, say="at 1")
        d(name, 0, 512, 3, 16, 4, say="null")
    d("cuMemsetD8Async", a, 7, 100, stream)
    d("cuMemsetD32Async", a + 1, 7, 10, stream, say="at 1")
    d("cuMemcpyPeer", a, 0, b, 0, 100, say="no contexts")
    d("cuMemGetInfo_v2", Cell(), Cell(), say="still well")
    d("cuCtxSynchronize")


def copy2d(**fields: int) -> Cell:
    """Return a CUDA_MEMCPY2D."""
    order = """
        sx sy skind shost sdevice sarray spitch dx dy dkind dhost ddevice darray dpitch width height
    """.split()
    return cell("16Q", *[fields.get(name, 0) for name in order])


def copy3d(**fields: int) -> Cell:
    """Return a CUDA_MEMCPY3D."""
    order = """
        sx sy sz slod skind shost sdevice sarray sres spitch sheight dx dy dz dlod dkind dhost ddevice darray dres
        dpitch dheight width height depth
    """.split()
    return cell("25Q", *[fields.get(name, 0) for name in order])


def copies_in_planes(d: Driver) -> None:
    d.context()
    o = Cell()
    host = Cell(1 << 16)
    a = d.alloc(1 << 16)
    d.quiet("cuArrayCreate_v2", o, cell("QQII", 64, 8, 8, 1))
    array = o.v
    h, g = {"skind": 1, "shost": host.address}, {"dkind": 2, "ddevice": a}
    for say, fields in (
        ("plain", {"spitch": 64, "dpitch": 512, "width": 64, "height": 8}),
        ("no pitch", {"width": 64, "height": 8}),
        ("pitch below width", {"spitch": 63, "dpitch": 512, "width": 64, "height": 8}),
        ("dst pitch below width", {"spitch": 64, "dpitch": 63, "width": 64, "height": 8}),
        ("width 0", {"spitch": 64, "dpitch": 512, "height": 8}),
        ("height 0", {"spitch": 64, "dpitch": 512, "width": 64}),
        ("one row, no pitch", {"width": 64, "height": 1}),
        ("x", {"sx": 5, "dx": 7, "spitch": 64, "dpitch": 512, "width": 32, "height": 8}),
        ("x beyond the pitch", {"sx": 40, "spitch": 64, "dpitch": 512, "width": 32, "height": 8}),
        ("pitch too large", {"spitch": 64, "dpitch": 1 << 33, "width": 64, "height": 1}),
        ("kind 0", {"skind": 0, "spitch": 64, "dpitch": 512, "width": 64, "height": 1}),
        ("kind 9", {"skind": 9, "spitch": 64, "dpitch": 512, "width": 64, "height": 1}),
        ("unified", {"skind": 4, "shost": 0, "sdevice": a, "spitch": 64, "dpitch": 512, "width": 64, "height": 1}),
        ("beyond", {"spitch": 64, "dpitch": 512, "width": 64, "height": 1 << 14}),
        ("from null", {"shost": 0, "spitch": 64, "dpitch": 512, "width": 64, "height": 1}),
        ("to null", {"ddevice": 0, "spitch": 64, "dpitch": 512, "width": 64, "height": 1}),
    ):
        given = copy2d(**{**h, **g, **fields})
        if say != "beyond":
            d("cuMemcpy2D_v2", given, say=say)
            d("cuMemcpy2DUnaligned_v2", given, say=say)
            d("cuMemcpy2DAsync_v2", given, d and 0, say=say)
        three = copy3d(**{**h, **g, **fields, "depth": 1})
        if say != "beyond":
            d("cuMemcpy3D_v2", three, say=say)
    d("cuMemcpy2D_v2", 0, say="nothing")
    for say, fields in (
        ("array", {"width": 64, "height": 8}),
        ("array wide", {"width": 65, "height": 8}),
        ("array high", {"width": 64, "height": 9}),
        ("array x", {"dx": 1, "width": 64, "height": 8}),
        ("array y", {"dy": 8, "width": 64, "height": 1}),
        ("array at y 7", {"dy": 7, "width": 64, "height": 1}),
    ):
        d("cuMemcpy2D_v2", copy2d(**{**h, "spitch": 64, "dkind": 3, "darray": array, **fields}), say=say)
        d(
            "cuMemcpy3D_v2",
            copy3d(**{**h, "spitch": 64, "sheight": 8, "dkind": 3, "darray": array, "depth": 1, **fields}),
            say=say,
        )
    d(
        "cuMemcpy3D_v2",
        copy3d(**{**h, **g, "spitch": 16, "dpitch": 16, "width": 16, "height": 4, "depth": 3}),
        say="no heights",
    )
    d(
        "cuMemcpy3D_v2",
        copy3d(
            **{**h, **g, "spitch": 16, "sheight": 4, "dpitch": 16, "dheight": 4, "width": 16, "height": 4, "depth": 3}
        ),
        say="heights",
    )
    d(
        "cuMemcpy3D_v2",
        copy3d(
            **{**h, **g, "spitch": 16, "sheight": 3, "dpitch": 16, "dheight": 4, "width": 16, "height": 4, "depth": 3}
        ),
        say="height below",
    )
    d(
        "cuMemcpy3D_v2",
        copy3d(
            **{**h, **g, "spitch": 16, "sheight": 4, "dpitch": 16, "dheight": 4, "width": 16, "height": 4, "depth": 0}
        ),
        say="depth 0",
    )
    d("cuMemcpyHtoA_v2", array, 0, host, 64)
    d("cuMemcpyHtoA_v2", array, 0, host, 64 * 8, say="all rows")
    d("cuMemcpyHtoA_v2", array, 60, host, 8, say="across a row")
    d("cuMemcpyHtoA_v2", array, 512, host, 8, say="beyond")
    d("cuMemcpyHtoA_v2", 0, 0, host, 8, say="null")
    d("cuMemcpyAtoH_v2", host, array, 0, 64)
    d("cuMemcpyAtoD_v2", a, array, 0, 64)
    d("cuMemcpyDtoA_v2", array, 0, a, 64)
    d("cuMemcpyAtoA_v2", array, 0, array, 64, 64)
    d("cuCtxSynchronize")


def more_of_copies(d: Driver) -> None:
    context = d.context()
    o, host = Cell(64), Cell(1 << 16)
    a, b, stream = d.alloc(1 << 16), d.alloc(1 << 16), d.stream()
    d("cuMemcpyPeer", a, context, b, context, 100)
    d("cuMemcpyPeerAsync", a, context, b, context, 100, stream)
    d("cuMemcpyPeerAsync", a, context, b, context, 0, stream, say="0 bytes")
    plain = copy3d(
        skind=1,
        shost=host.address,
        spitch=64,
        sheight=4,
        dkind=2,
        ddevice=a,
        dpitch=64,
        dheight=4,
        width=64,
        height=4,
        depth=1,
    )
    d("cuMemcpy3DAsync_v2", plain, stream)
    peer = cell("25Q", *plain.all("25Q"))
    d("cuMemcpy3DPeer", peer)
    d("cuMemcpy3DPeerAsync", peer, stream)
    for name, step in (("cuMemsetD2D8Async", 1), ("cuMemsetD2D16Async", 2), ("cuMemsetD2D32Async", 4)):
        d(name, a, 512, 3, 16, 4, stream)
        d(name, a + 1, 512, 3, 16, 4, stream, say="at 1")
        d(name, a, 8, 3, 16, 4, stream, say=f"pitch 8, {16 * step} wide")
    d("cuMemsetD16Async", a, 3, 16, stream)
    d("cuMemsetD16Async", a + 1, 3, 16, stream, say="at 1")
    d.quiet("cuArrayCreate_v2", o, cell("QQII", 64, 0, 8, 1))
    d("cuMemcpyHtoAAsync_v2", o.v, 0, host, 64, stream)
    d("cuMemcpyHtoAAsync_v2", o.v, 0, host, 65, stream, say="beyond")
    d("cuMemcpyAtoHAsync_v2", host, o.v, 0, 64, stream)
    # Several at once.
    where, source, sizes = cell("QQ", a, a + 1000), cell("QQ", b, b + 1000), cell("QQ", 100, 200)
    attributes, first = cell("IIiIiI", 1, 1, 0, 1, 0, 0), cell("Q", 0)
    d("cuMemcpyBatchAsync_v2", where, source, sizes, 2, attributes, first, 1, stream)
    d("cuMemcpyBatchAsync", where, source, sizes, 2, attributes, first, 1, Cell(), stream)
    d("cuMemcpyBatchAsync_v2", where, source, sizes, 0, attributes, first, 1, stream, say="none")
    d("cuMemcpyBatchAsync_v2", where, source, sizes, 2, attributes, first, 0, stream, say="no attributes")
    d("cuMemcpyBatchAsync_v2", where, source, sizes, 2, attributes, first, 1, 0, say="null stream")
    d("cuMemcpyBatchAsync_v2", where, source, cell("QQ", 100, 0), 2, attributes, first, 1, stream, say="0 bytes")
    d(
        "cuMemcpyBatchAsync_v2",
        where,
        source,
        sizes,
        2,
        cell("IIiIiI", 9, 1, 0, 1, 0, 0),
        first,
        1,
        stream,
        say="order 9",
    )
    d.quiet("cuMemAllocManaged", o, BLOCK, 1)
    d("cuMemPrefetchBatchAsync", cell("Q", o.v), cell("Q", BLOCK), 1, cell("Ii", 1, 0), first, 1, 0, stream)
    d("cuMemDiscardBatchAsync", cell("Q", o.v), cell("Q", BLOCK), 1, 0, stream)
    d("cuMemDiscardBatchAsync", cell("Q", a), cell("Q", 100), 1, 0, stream, say="device memory")
    d("cuStreamSynchronize", stream)
