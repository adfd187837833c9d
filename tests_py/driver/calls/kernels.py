# SPDX-License-Identifier: Apache-2.0
"""Modules, libraries, kernels, occupancy, launches and the linker."""

import ctypes
import struct

from answers import Cell, Driver, cell
from shapes import PTX, alignment


def modules(d: Driver) -> None:
    d.context()
    o, p, q = Cell(64), Cell(64), Cell(64)
    for say, image in (
        ("empty", b""),
        ("text", b"nothing of the kind"),
        ("elf magic", b"\x7fELF" + bytes(60)),
        ("fatbin magic", b"\x50\xed\x55\xba" + bytes(60)),
        ("ptx, wrong", b".version 7.0\n.target sm_70\n.address_size 64\nnonsense;\n\0"),
        ("ptx, newer card", PTX.replace(b"sm_70", b"sm_120")),
        ("ptx, version 99", PTX.replace(b"7.0", b"99.0")),
    ):
        d("cuModuleLoadData", o, image + bytes(4096), say=say)
        d("cuLibraryLoadData", o, image + bytes(4096), 0, 0, 0, 0, 0, 0, say=say)
    d("cuModuleLoadData", o, 0, say="null")
    d("cuModuleLoad", o, b"/nonexistent/file.ptx", say="no file")
    d("cuModuleLoad", o, b"/dev/null", say="an empty file")
    d("cuLibraryLoadFromFile", o, b"/nonexistent/file.ptx", 0, 0, 0, 0, 0, 0, say="no file")
    d("cuModuleLoadData", o, PTX, v=lambda: o.v != 0)
    m = o.v
    d("cuModuleGetFunctionCount", o, m, v=lambda: o.u)
    d("cuModuleGetFunction", o, m, b"absent", say="absent")
    d("cuModuleGetFunction", o, m, b"", say="empty")
    d("cuModuleGetFunction", o, m, 0, say="null")
    d("cuModuleGetFunction", o, 0, b"nothing", say="of no module")
    d("cuModuleGetGlobal_v2", p, q, m, b"counter", v=lambda: [alignment(p.v) >= 256, q.v])
    d("cuModuleGetGlobal_v2", p, 0, m, b"counter", say="address only")
    d("cuModuleGetGlobal_v2", 0, q, m, b"fixed", say="size only", v=lambda: q.v)
    d("cuModuleGetGlobal_v2", p, q, m, b"absent", say="absent")
    d("cuMemGetAddressRange_v2", o, q, p.v, say="of a global", v=lambda: [p.v - o.v, q.v])
    d("cuMemFree_v2", p.v, say="a global")
    d("cuPointerGetAttribute", o, 2, p.v, say="2 of a global", v=lambda: o.u)
    d("cuModuleGetTexRef", o, m, b"absent")
    d("cuModuleGetSurfRef", o, m, b"absent")
    functions = {}
    for name in ("nothing", "store", "bounded"):
        d("cuModuleGetFunction", o, m, name.encode(), say=name, v=lambda: o.v != 0)
        functions[name] = f = o.v
        for attribute in range(0, 20):
            if attribute not in (4, 5, 6):
                d("cuFuncGetAttribute", o, attribute, f, say=f"{name} {attribute}", v=lambda: o.i)
        d("cuFuncGetName", o, f, say=name, v=lambda: ctypes.string_at(o.v).decode())
        d("cuFuncGetModule", o, f, say=name, v=lambda: o.v == m)
        d("cuFuncIsLoaded", o, f, say=name, v=lambda: o.u)
        d("cuFuncLoad", f, say=name)
        for index in range(3):
            d("cuFuncGetParamInfo", f, index, p, q, say=f"{name} {index}", v=lambda: [p.v, q.v])
    f, store, bounded = functions["nothing"], functions["store"], functions["bounded"]
    for attribute, value in (
        (8, 0),
        (8, 48 << 10),
        (8, (48 << 10) + 1),
        (8, 227 << 10),
        (8, (227 << 10) + 1),
        (8, -1),
        (9, 50),
        (9, 101),
        (9, -1),
        (0, 5),
        (10, 1),
        (11, 2),
        (14, 1),
        (99, 1),
    ):
        d("cuFuncSetAttribute", f, attribute, value, say=f"{attribute} {value}")
        d("cuFuncGetAttribute", o, attribute, f, say=f"after {attribute} {value}", v=lambda: o.i)
    for config in range(5):
        d("cuFuncSetCacheConfig", f, config, say=str(config))
    d("cuFuncSetSharedMemConfig", f, 1)
    d.quiet("cuFuncSetAttribute", f, 8, 0)
    for block, shared in (
        (1, 0),
        (32, 0),
        (64, 0),
        (128, 0),
        (256, 0),
        (1024, 0),
        (1025, 0),
        (0, 0),
        (128, 1000),
        (128, 48 << 10),
        (128, 100 << 10),
        (128, 227 << 10),
        (128, 228 << 10),
        (-1, 0),
    ):
        d("cuOccupancyMaxActiveBlocksPerMultiprocessor", o, f, block, shared, say=f"{block} {shared}", v=lambda: o.i)
        d(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            o,
            bounded,
            block,
            shared,
            say=f"bounded {block} {shared}",
            v=lambda: o.i,
        )
        d("cuOccupancyAvailableDynamicSMemPerBlock", o, f, 1, block, say=f"{block}", v=lambda: o.v)
    for limit in (0, 100, 2000):
        d("cuOccupancyMaxPotentialBlockSize", p, q, f, 0, 0, limit, say=str(limit), v=lambda: [p.u, q.u])
    stream = d.stream()
    memory = d.alloc(64)
    value = cell("QI", memory, 4242)
    arguments = cell("QQ", value.address, value.address + 8)
    for say, dims in (
        ("one", (1, 1, 1, 1, 1, 1)),
        ("grid 0", (0, 1, 1, 1, 1, 1)),
        ("block 0", (1, 1, 1, 0, 1, 1)),
        ("block 1024", (1, 1, 1, 1024, 1, 1)),
        ("block 1025", (1, 1, 1, 1025, 1, 1)),
        ("block 32x32", (1, 1, 1, 32, 32, 1)),
        ("block 32x33", (1, 1, 1, 32, 33, 1)),
        ("block z 64", (1, 1, 1, 1, 1, 64)),
        ("block z 65", (1, 1, 1, 1, 1, 65)),
        ("grid y 65535", (1, 65535, 1, 1, 1, 1)),
        ("grid y 65536", (1, 65536, 1, 1, 1, 1)),
        ("grid z 65536", (1, 1, 65536, 1, 1, 1)),
        ("grid x 2^31", (1 << 31, 1, 1, 1, 1, 1)),
    ):
        d("cuLaunchKernel", f, *dims, 0, stream, 0, 0, say=say)
        d("cuLaunchKernelEx", cell("3I3IIIQQI", *dims, 0, 0, stream, 0, 0), f, 0, 0, say=say)
    d("cuLaunchKernel", bounded, 1, 1, 1, 65, 1, 1, 0, stream, 0, 0, say="more than maxntid")
    for shared in (48 << 10, (48 << 10) + 1, 227 << 10, 228 << 10):
        d("cuLaunchKernel", f, 1, 1, 1, 1, 1, 1, shared, stream, 0, 0, say=f"shared {shared}")
    d("cuFuncSetAttribute", f, 8, 200 << 10, say="200 KiB")
    d("cuLaunchKernel", f, 1, 1, 1, 1, 1, 1, 200 << 10, stream, 0, 0, say="200 KiB allowed")
    d("cuLaunchKernel", 0, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0, say="null")
    d("cuLaunchKernel", store, 1, 1, 1, 1, 1, 1, 0, stream, arguments, 0, say="store")
    d("cuLaunchCooperativeKernel", f, 1, 1, 1, 1, 1, 1, 0, stream, 0, say="one")
    d("cuLaunchCooperativeKernel", f, 1 << 20, 1, 1, 1024, 1, 1, 0, stream, 0, say="too many")
    size = cell("Q", 12)
    extra = cell("QQQQQ", 1, value.address, 2, size.address, 0)
    d("cuLaunchKernel", store, 1, 1, 1, 1, 1, 1, 0, stream, 0, extra, say="extra")
    d("cuLaunchKernel", store, 1, 1, 1, 1, 1, 1, 0, stream, arguments, extra, say="both")
    d("cuStreamSynchronize", stream)
    d("cuGraphCreate", o, 0)
    g = o.v
    parameters = cell("Q3I3IIIQQQQ", store, 1, 1, 1, 1, 1, 1, 0, 0, arguments.address, 0, 0, 0)
    d("cuGraphAddKernelNode_v2", p, g, 0, 0, parameters)
    d("cuGraphKernelNodeGetParams_v2", p.v, r := Cell(128), v=lambda: r.all("3I3II", 8))
    d("cuGraphAddKernelNode_v2", q, g, 0, 0, cell("Q3I3IIIQQQQ", 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0), say="null")
    d(
        "cuGraphAddKernelNode_v2",
        q,
        g,
        0,
        0,
        cell("Q3I3IIIQQQQ", store, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0),
        say="parameters missing",
    )
    d("cuGraphAddKernelNode_v2", q, g, 0, 0, cell("Q3I3IIIQQQQ", f, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0), say="grid 0")
    d(
        "cuGraphAddKernelNode_v2",
        q,
        g,
        0,
        0,
        cell("Q3I3IIIQQQQ", f, 1, 1, 1, 1025, 1, 1, 0, 0, 0, 0, 0, 0),
        say="block 1025",
    )
    d("cuGraphExecKernelNodeSetParams_v2", 0, p.v, parameters, say="null")
    d("cuModuleUnload", m)
    d("cuModuleUnload", 0, say="null")
    # A library of the newer kind.
    d("cuLibraryLoadData", o, PTX, 0, 0, 0, 0, 0, 0)
    library = o.v
    d("cuLibraryGetKernelCount", o, library, v=lambda: o.u)
    d("cuLibraryGetKernel", o, library, b"store")
    kernel = o.v
    d("cuLibraryGetKernel", q, library, b"absent", say="absent")
    d("cuKernelGetName", o, kernel, v=lambda: ctypes.string_at(o.v).decode())
    d("cuKernelGetFunction", o, kernel, v=lambda: o.v != 0)
    d("cuKernelGetAttribute", o, 0, kernel, 0, v=lambda: o.i)
    d("cuKernelGetParamInfo", kernel, 1, p, q, v=lambda: [p.v, q.v])
    d("cuLibraryGetGlobal", p, q, library, b"counter", v=lambda: q.v)
    d("cuLibraryGetManaged", p, q, library, b"counter")
    d("cuLibraryGetModule", o, library, v=lambda: o.v != 0)
    d("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, 0, say="a kernel of a library")
    d("cuStreamSynchronize", stream)
    d("cuLibraryUnload", library)
    d("cuLibraryUnload", 0, say="null")
    # The linker.
    d("cuLinkCreate_v2", 0, 0, 0, o)
    link = o.v
    d("cuLinkAddData_v2", link, 1, PTX, len(PTX), b"a.ptx", 0, 0, 0)
    d("cuLinkAddFile_v2", link, 1, b"/nonexistent", 0, 0, 0, say="no file")
    d("cuLinkComplete", link, p, q, v=lambda: [p.v != 0, q.v > 100])
    d("cuModuleLoadData", o, p.v, say="linked")
    d("cuModuleGetFunction", o, o.v, b"nothing", say="linked")
    d("cuLinkDestroy", link)
    d("cuLinkCreate_v2", 0, 0, 0, 0, say="to nowhere")
    log = Cell(4096)

    options = Cell(0, struct.pack("<3I", 5, 6, 4))
    values = Cell(0, struct.pack("<3Q", log.address, 4096, 0))
    d(
        "cuModuleLoadDataEx",
        o,
        b".version 7.0\n.target sm_70\n.address_size 64\nnonsense;\n\0",
        3,
        options,
        values,
        say="with a log",
        v=lambda: log.text != "",
        always=True,
    )
    d("cuModuleLoadDataEx", o, PTX, 1, Cell(0, struct.pack("<I", 99)), Cell(8), say="option 99")
    d("cuModuleLoadData", o, PTX)
    d("cuModuleGetFunction", p, o.v, b"store")
    d("cuLaunchKernel", p.v, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0, say="parameters missing")
    d("cuCtxSynchronize", say="after that")


def more_of_kernels(d: Driver) -> None:
    d.context()
    o, p, q = Cell(512), Cell(64), Cell(64)
    module, function, library, kernel = Cell(), Cell(), Cell(), Cell()
    d("cuModuleLoadFatBinary", o, PTX)
    d.quiet("cuModuleLoadData", module, PTX)
    d.quiet("cuModuleGetFunction", function, module.v, b"store")
    f = function.v
    d("cuModuleEnumerateFunctions", o, 3, module.v, v=lambda: [x != 0 for x in o.all("3Q")])
    d("cuModuleEnumerateFunctions", o, 0, module.v, say="0 places")
    d("cuFuncGetParamCount", f, o, v=lambda: o.v)
    for flags in (0, 1, 2):
        d("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", o, f, 128, 0, flags, say=str(flags), v=lambda: o.i)
        d("cuOccupancyMaxPotentialBlockSizeWithFlags", p, q, f, 0, 0, 0, flags, say=str(flags), v=lambda: [p.u, q.u])
    config = cell("3I3IIIQQI", 4, 1, 1, 128, 1, 1, 0, 0, 0, 0, 0)
    d("cuOccupancyMaxPotentialClusterSize", o, f, config, v=lambda: o.i)
    d("cuOccupancyMaxActiveClusters", o, f, config, v=lambda: o.i)
    d("cuFuncSetBlockShape", f, 1, 1, 1)
    d("cuFuncSetSharedSize", f, 0)
    d("cuParamSetSize", f, 16)
    d("cuParamSetv", f, 0, Cell(16), 16)
    d("cuLaunchGrid", f, 0, 1, say="0")
    d("cuProfilerInitialize", b"", b"", 0)
    d.quiet("cuLibraryLoadData", library, PTX, 0, 0, 0, 0, 0, 0)
    d.quiet("cuLibraryGetKernel", kernel, library.v, b"store")
    d("cuLibraryEnumerateKernels", o, 3, library.v, v=lambda: [x != 0 for x in o.all("3Q")])
    d("cuLibraryGetUnifiedFunction", o, library.v, b"store")
    d("cuKernelGetLibrary", o, kernel.v, v=lambda: o.v == library.v)
    d("cuKernelGetParamCount", kernel.v, o, v=lambda: o.v)
    for attribute, value in ((8, 1000), (8, 1 << 20), (0, 1), (9, 50)):
        d("cuKernelSetAttribute", attribute, value, kernel.v, 0, say=f"{attribute} {value}")
        d("cuKernelGetAttribute", o, attribute, kernel.v, 0, say=f"{attribute} after {value}", v=lambda: o.i)
    d("cuKernelSetCacheConfig", kernel.v, 1, 0)
    d("cuFuncGetAttribute", o, 0, kernel.v, say="of a kernel", v=lambda: o.i)
    d("cuKernelGetFunction", o, kernel.v, v=lambda: o.v == kernel.v)
    d("cuFuncGetModule", p, o.v, say="of a kernel")
    d("cuLibraryGetModule", q, library.v, v=lambda: q.v == p.v)
    d("cuModuleUnload", q.v, say="of a library")
    # Attributes of launches.
    stream = d.stream()
    nothing = Cell()
    d.quiet("cuModuleGetFunction", nothing, module.v, b"nothing")
    for kind, first in ((0, 0), (1, 0), (2, 1), (4, 1), (6, 1), (7, 0), (8, 0), (10, 0), (14, 0), (99, 0)):
        attributes = cell("II16I", kind, 0, first, 1, 1, *[0] * 13)
        d(
            "cuLaunchKernelEx",
            cell("3I3IIIQQI", 4, 1, 1, 32, 1, 1, 0, 0, stream, attributes.address, 1),
            nothing.v,
            0,
            0,
            say=f"attribute {kind}",
        )
    for cluster in (2, 3, 8, 16, 32):
        attributes = cell("II16I", 4, 0, cluster, 1, 1, *[0] * 13)
        d(
            "cuLaunchKernelEx",
            cell("3I3IIIQQI", 48, 1, 1, 32, 1, 1, 0, 0, stream, attributes.address, 1),
            nothing.v,
            0,
            0,
            say=f"cluster {cluster}",
        )
    d("cuStreamSynchronize", stream)
