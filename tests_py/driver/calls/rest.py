# SPDX-License-Identifier: Apache-2.0
"""What frameworks ask besides."""

import os

from answers import Calls, Cell, Driver, cell
from shapes import BLOCK, HOST_FUNCTION, MIB


def rest(d: Driver) -> None:
    """What PyTorch and others ask besides."""
    d.context()
    o, p = Cell(512), Cell(64)
    memory = d.alloc(BLOCK)
    for kind, flags in ((1, 0), (0, 0), (2, 0), (1, 1)):
        o.memory.raw = b"\xff" * 512
        d("cuMemGetHandleForAddressRange", o, memory, BLOCK, kind, flags, say=f"{kind} {flags}")
    d("cuMemGetHandleForAddressRange", o, memory + 1, 100, 1, 0, say="unaligned")
    for handles in (1, 8, 0):
        d("cuMulticastGetGranularity", o, cell("IIQQQ", 1, 0, BLOCK, handles, 0), 0, say=str(handles), v=lambda: o.v)
        d("cuMulticastCreate", o, cell("IIQQQ", 1, 0, BLOCK, handles, 0), say=str(handles))
    d("cuMulticastGetGranularity", o, cell("IIQQQ", 2, 0, BLOCK, 1, 0), 0, say="2 devices", v=lambda: o.v)
    d("cuMulticastCreate", o, cell("IIQQQ", 2, 0, BLOCK, 1, 0), say="2 devices")
    d("cuMulticastAddDevice", o.v, 0)
    d("cuDeviceRegisterAsyncNotification", 0, HOST_FUNCTION, 0, p)
    d("cuDeviceUnregisterAsyncNotification", 0, p.v)
    tensor_map = Cell(256)
    aligned = (tensor_map.address + 63) & ~63
    sizes, strides, box, steps = cell("QQ", 64, 64), cell("Q", 256), cell("II", 16, 16), cell("II", 1, 1)
    for say, kind, rank, pointer, swizzle in (
        ("plain", 7, 2, memory, 0),
        ("kind 99", 99, 2, memory, 0),
        ("rank 0", 7, 0, memory, 0),
        ("rank 6", 7, 6, memory, 0),
        ("at 4", 7, 2, memory + 4, 0),
        ("null", 7, 2, 0, 0),
        ("swizzle 9", 7, 2, memory, 9),
    ):
        d("cuTensorMapEncodeTiled", aligned, kind, rank, pointer, sizes, strides, box, steps, 0, swizzle, 0, 0, say=say)
    d("cuTensorMapReplaceAddress", aligned, memory + 512)
    d("cuMemBatchDecompressAsync", 0, 0, 0, 0, 0, say="none")
    for name in ("cuImportExternalMemory", "cuImportExternalSemaphore"):
        d(name, o, cell("IIiIQQQII", 1, 0, 9999, 0, 0, 0, 4096, 0, 0, size=128), say="no file")
        d(name, o, Cell(128), say="zeros")
    d("cuDestroyExternalMemory", 0)
    d("cuGraphicsMapResources", 0, 0, 0)
    d("cuIpcCloseMemHandle", memory)
    d("cuMemcpyBatchAsync", 0, 0, 0, 0, 0, 0, 0, 0, d.stream(), say="none")
    d("cuFuncGetModule", o, 0)
    d("cuDeviceGetFabricClusterUuid", o, 0)
    d("cuCtxSynchronize")
    n = Calls("libnvidia-ml.so.1", d.descriptor)
    n("nvmlInit_v2")
    n("nvmlDeviceGetHandleByIndex_v2", 0, p)
    handle = p.v
    own = False
    for version in ("", "_v2", "_v3"):
        count = cell("I", 200)
        room = Cell(200 * 64)
        n(
            f"nvmlDeviceGetComputeRunningProcesses{version}",
            handle,
            count,
            room,
            v=lambda c=count, r=room: own_process(c.u, r),
        )
    d.note("own", own)


def own_process(count: int, room: Cell) -> object:
    """Return whether this process is in the list, and what is known of its memory."""
    for form, size in (("IxxxxQII", 24), ("IxxxxQ", 16)):
        rows = [room.all(form, at=number * size) for number in range(count)]
        for row in rows:
            if row[0] == os.getpid():
                return [True, row[1] > 100 * MIB, row[1] >= 1 << 63, *row[2:]]
    return [False]
