# SPDX-License-Identifier: Apache-2.0
"""Arrays, textures and surfaces."""

from answers import Cell, Driver, cell


def arrays(d: Driver) -> None:
    d.context()
    o, p, q = Cell(64), Cell(64), Cell(64)
    for width, height, form, channels in (
        (64, 8, 8, 1),
        (64, 0, 32, 4),
        (0, 8, 8, 1),
        (64, 8, 8, 3),
        (64, 8, 8, 0),
        (64, 8, 99, 1),
        (131072, 0, 32, 1),
        (131073, 0, 32, 1),
        (1, 65536, 1, 1),
        (1, 65537, 1, 1),
        (1, 1, 16, 2),
        (100, 100, 9, 1),
        (100, 100, 10, 4),
    ):
        say = f"{width} {height} {form} {channels}"
        o.memory.raw = b"\0" * 64
        d("cuArrayCreate_v2", o, cell("QQII", width, height, form, channels), say=say, v=lambda: o.v != 0)
        if o.v:
            d("cuArrayGetDescriptor_v2", q, o.v, say=say, v=lambda: q.all("QQII"))
            d("cuArray3DGetDescriptor_v2", q, o.v, say=say, v=lambda: q.all("QQQIII"))
            d("cuArrayGetMemoryRequirements", q, o.v, 0, say=say, v=lambda: q.all("QQ"))
            d("cuArrayGetSparseProperties", q, o.v, say=say)
            d("cuArrayGetPlane", p, o.v, 0, say=say)
            d("cuArrayDestroy", o.v, say=say)
    for width, height, depth, form, channels, flags in (
        (16, 16, 16, 8, 1, 0),
        (16, 16, 6, 8, 1, 4),
        (16, 15, 6, 8, 1, 4),
        (16, 16, 5, 8, 1, 4),
        (16, 16, 12, 8, 1, 5),
        (16, 16, 3, 8, 1, 1),
        (16, 0, 3, 8, 1, 1),
        (16, 16, 0, 8, 1, 2),
        (16, 0, 0, 8, 1, 2),
        (16, 16, 0, 8, 1, 8),
        (16, 16, 0, 8, 1, 0x40),
        (1024, 1024, 0, 8, 4, 0x40),
        (16, 16, 0, 8, 1, 0x80),
        (1024, 1024, 0, 32, 1, 0x80),
        (16, 16, 0, 8, 1, 0x1000),
        (16384, 16384, 16384, 1, 1, 0),
        (16385, 1, 1, 1, 1, 0),
        (16, 0, 5, 8, 1, 0),
        (32, 32, 0, 0xB0, 3, 0),
    ):
        if width * height * depth > 1 << 30:
            continue
        say = f"{width} {height} {depth} {form} {channels} {flags:x}"
        o.memory.raw = b"\0" * 64
        d(
            "cuArray3DCreate_v2",
            o,
            cell("QQQIIII", width, height, depth, form, channels, flags, 0),
            say=say,
            v=lambda: o.v != 0,
        )
        if o.v:
            d("cuArray3DGetDescriptor_v2", q, o.v, say=say, v=lambda: q.all("QQQIII"))
            d("cuArrayGetMemoryRequirements", q, o.v, 0, say=say, v=lambda: q.all("QQ"))
            d("cuArrayGetSparseProperties", q, o.v, say=say, v=lambda: q.all("IIIIQI"))
            d("cuArrayDestroy", o.v, say=say)
    for levels in (0, 1, 5, 7, 8, 100):
        o.memory.raw = b"\0" * 64
        d(
            "cuMipmappedArrayCreate",
            o,
            cell("QQQIIII", 64, 64, 0, 8, 4, 0, 0),
            levels,
            say=str(levels),
            v=lambda: o.v != 0,
        )
        if o.v:
            for level in (0, 1, 4, 6, 7, 100):
                p.memory.raw = b"\0" * 64
                d("cuMipmappedArrayGetLevel", p, o.v, level, say=f"{levels} {level}", v=lambda: p.v != 0)
                if p.v:
                    d("cuArray3DGetDescriptor_v2", q, p.v, say=f"{levels} {level}", v=lambda: q.all("QQQIII"))
            d("cuArrayDestroy", p.v, say="a level")
            d("cuMipmappedArrayGetMemoryRequirements", q, o.v, 0, say=str(levels), v=lambda: q.all("QQ"))
            d("cuMipmappedArrayDestroy", o.v, say=str(levels))
    d("cuArrayCreate_v2", 0, cell("QQII", 64, 8, 8, 1), say="to nowhere")
    d("cuArrayCreate_v2", o, 0, say="of nothing")
    d("cuArrayDestroy", 0, say="null")
    d("cuArrayGetDescriptor_v2", q, 0, say="null")
    # Textures and surfaces.
    d("cuArray3DCreate_v2", o, cell("QQQIIII", 64, 8, 0, 32, 1, 2, 0))
    array = o.v
    linear = d.alloc(4096)

    def of_array(handle: int) -> Cell:
        return cell("IIQ", 0, 0, handle, size=144)

    def of_linear(pointer: int, size: int, form: int = 32, channels: int = 1) -> Cell:
        return cell("IIQIIQ", 2, 0, pointer, form, channels, size, size=144)

    def of_plane(pointer: int, width: int, height: int, pitch: int) -> Cell:
        return cell("IIQIIQQQ", 3, 0, pointer, 32, 1, width, height, pitch, size=144)

    def sampling(mode: int = 1, filtering: int = 0, flags: int = 0, anisotropy: int = 0) -> Cell:
        return cell("IIIIII", mode, mode, mode, filtering, flags, anisotropy, size=104)

    for say, resource, texture in (
        ("array", of_array(array), sampling()),
        ("array null", of_array(0), sampling()),
        ("linear", of_linear(linear, 4096), sampling()),
        ("linear beyond", of_linear(linear, 1 << 20), sampling()),
        ("linear at 4", of_linear(linear + 4, 64), sampling()),
        ("linear 0", of_linear(linear, 0), sampling()),
        ("linear null", of_linear(0, 64), sampling()),
        ("linear 3 channels", of_linear(linear, 96, 32, 3), sampling()),
        ("plane", of_plane(linear, 16, 4, 512), sampling()),
        ("plane pitch 100", of_plane(linear, 16, 4, 100), sampling()),
        ("plane pitch 64", of_plane(linear, 16, 4, 64), sampling()),
        ("plane at 16", of_plane(linear + 16, 16, 4, 512), sampling()),
        ("mode 9", of_array(array), sampling(9)),
        ("filter 5", of_array(array), sampling(1, 5)),
        ("linear filtered", of_linear(linear, 64), sampling(1, 1)),
        ("integer", of_array(array), sampling(1, 0, 1)),
        ("flags 80", of_array(array), sampling(1, 0, 0x80)),
        ("wrap", of_array(array), sampling(0)),
        ("wrap normalized", of_array(array), sampling(0, 1, 2)),
        ("kind 9", cell("I", 9, size=144), sampling()),
    ):
        o.memory.raw = b"\0" * 64
        d("cuTexObjectCreate", o, resource, texture, 0, say=say, v=lambda: o.v != 0)
        if o.v:
            room = Cell(256)
            d("cuTexObjectGetResourceDesc", room, o.v, say=say, v=lambda c=room: c.u)
            d("cuTexObjectGetTextureDesc", room, o.v, say=say, v=lambda c=room: c.all("6I"))
            d("cuTexObjectGetResourceViewDesc", room, o.v, say=say)
            d("cuTexObjectDestroy", o.v, say=say)
        o.memory.raw = b"\0" * 64
        d("cuSurfObjectCreate", o, resource, say=say, v=lambda: o.v != 0)
        if o.v:
            d("cuSurfObjectGetResourceDesc", Cell(256), o.v, say=say)
            d("cuSurfObjectDestroy", o.v, say=say)
    d("cuTexObjectDestroy", 0, say="null")
    d("cuTexObjectDestroy", 999999, say="unknown")
    d("cuSurfObjectDestroy", 0, say="null")
    d("cuTexRefCreate", o)
    d("cuTexRefSetFormat", o.v, 32, 1)
    d("cuTexRefSetArray", o.v, array, 1)
    d("cuTexRefGetFormat", p, q, o.v, v=lambda: [p.u, q.u])
    d("cuTexRefSetAddress_v2", p, o.v, linear, 4096, v=lambda: p.v)
    d("cuTexRefGetAddress_v2", p, o.v, v=lambda: p.v == linear)
    d("cuTexRefSetFlags", o.v, 1)
    d("cuTexRefGetFlags", p, o.v, v=lambda: p.u)
    d("cuTexRefDestroy", o.v)
