# SPDX-License-Identifier: Apache-2.0
"""A process that was forked after cuInit, and memory of another process."""

import ctypes
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from answers import Cell, Driver
from shapes import BLOCK, prop


def fork_after_init(d: Driver) -> None:
    context = d.context()
    pointer = d.alloc(100)
    o, p = Cell(512), Cell(64)
    child = os.fork()
    if child == 0:
        for name, given in (
            ("cuInit", (0,)),
            ("cuDriverGetVersion", (o,)),
            ("cuDeviceGetCount", (o,)),
            ("cuDeviceGet", (o, 0)),
            ("cuDeviceGetName", (o, 100, 0)),
            ("cuCtxGetCurrent", (o,)),
            ("cuCtxSetCurrent", (context,)),
            ("cuMemAlloc_v2", (o, 100)),
            ("cuMemFree_v2", (pointer,)),
            ("cuCtxSynchronize", ()),
            ("cuMemGetInfo_v2", (o, p)),
            ("cuDevicePrimaryCtxRetain", (o, 0)),
            ("cuPointerGetAttribute", (o, 2, pointer)),
            ("cuStreamCreate", (o, 0)),
            ("cuGetErrorName", (3, o)),
            ("cuDeviceGetAttribute", (o, 16, 0)),
            ("cuDevicePrimaryCtxGetState", (0, o, p)),
            ("cuGetProcAddress_v2", (b"cuInit", o, 12000, 0, p)),
        ):
            d(name, *given, say="in a forked child")
        os._exit(0)
    end = time.monotonic() + 3
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            d.note("child", "hangs")
            break
        time.sleep(0.01)
    d("cuMemAlloc_v2", o, 100, say="in the parent")
    d("cuMemFree_v2", pointer, say="in the parent")


IN_ANOTHER = """
import sys; sys.path.insert(0, {here!r})
from answers import Cell, Driver
import os
d = Driver(int(sys.argv[1]))
handle = bytes.fromhex(sys.argv[2])
event = bytes.fromhex(sys.argv[3])
d.context()
import ctypes
class Handle(ctypes.Structure):
    _fields_ = [("b", ctypes.c_char * 64)]
def of(data):
    one = Handle(); ctypes.memmove(ctypes.addressof(one), data, 64); return one
o, p, q = Cell(64), Cell(64), Cell(64)
for flags in (0, 2, 1):
    d("cuIpcOpenMemHandle_v2", o, of(handle), flags, say=f"child flags {{flags}}", v=lambda: o.v & 511)
d("cuIpcOpenMemHandle_v2", p, of(handle), 1, say="child again", v=lambda: p.v == o.v)
d("cuMemcpyDtoH_v2", q, o.v, 8, say="child", v=lambda: q.v)
d("cuMemGetAddressRange_v2", p, q, o.v, say="child", v=lambda: [p.v == o.v, q.v])
d("cuMemFree_v2", o.v, say="child, opened")
d("cuIpcGetMemHandle", Cell(64), o.v, say="child, opened")
d("cuIpcCloseMemHandle", o.v + 1, say="child interior")
d("cuIpcCloseMemHandle", o.v, say="child")
d("cuIpcCloseMemHandle", o.v, say="child second")
d("cuIpcCloseMemHandle", o.v, say="child third")
d("cuIpcOpenMemHandle_v2", o, of(bytes(64)), 1, say="child zeros")
d("cuIpcOpenMemHandle_v2", o, of(bytes(range(64))), 1, say="child noise")
d("cuIpcOpenEventHandle", o, of(event), say="child")
d("cuEventQuery", o.v, say="child")
d("cuEventRecord", o.v, 0, say="child")
d("cuEventDestroy_v2", o.v, say="child")
d("cuIpcOpenEventHandle", o, of(bytes(64)), say="child zeros")
"""


class Handle(ctypes.Structure):
    """A handle of 64 bytes, which is passed by value."""

    _fields_ = [("bytes", ctypes.c_char * 64)]


def handle_of(data: bytes) -> Handle:
    """Return such a handle."""
    one = Handle()
    ctypes.memmove(ctypes.addressof(one), data, 64)
    return one


def ipc(d: Driver) -> None:
    d.context()
    o, p = Cell(64), Cell(64)
    memory = d.alloc(1000)
    second = d.alloc(1000)
    d.quiet("cuMemsetD8_v2", memory, 7, 1000)
    d("cuIpcGetMemHandle", o, memory)
    handle = o.memory.raw[:64]
    d("cuIpcGetMemHandle", p, memory, say="again", v=lambda: p.memory.raw[:64] == handle)
    d("cuIpcGetMemHandle", p, memory + 10, say="interior", v=lambda: p.memory.raw[:64] == handle)
    d("cuIpcGetMemHandle", p, second, say="its neighbour", v=lambda: p.memory.raw[:64] == handle)
    d("cuIpcGetMemHandle", p, 0, say="null")
    d("cuIpcGetMemHandle", p, p, say="host")
    pinned, managed, pooled, virtual = Cell(), Cell(), Cell(), Cell()
    d.quiet("cuMemHostAlloc", pinned, 100, 0)
    d("cuIpcGetMemHandle", p, pinned.v, say="pinned")
    d.quiet("cuMemAllocManaged", managed, 100, 1)
    d("cuIpcGetMemHandle", p, managed.v, say="managed")
    d.quiet("cuMemAllocAsync", pooled, 100, 0)
    d("cuIpcGetMemHandle", p, pooled.v, say="pooled")
    d.quiet("cuMemAddressReserve", virtual, BLOCK, 0, 0, 0)
    d.quiet("cuMemCreate", p, BLOCK, prop(), 0)
    d.quiet("cuMemMap", virtual.v, BLOCK, 0, p.v, 0)
    d("cuIpcGetMemHandle", p, virtual.v, say="mapped")
    d("cuIpcOpenMemHandle_v2", p, handle_of(handle), 1, say="in the same process")
    d("cuIpcCloseMemHandle", memory, say="own memory")
    d("cuIpcCloseMemHandle", 0, say="null")
    plain, shared = d.event(2), d.event(6)
    d("cuIpcGetEventHandle", p, plain, say="plain")
    d("cuIpcGetEventHandle", p, shared)
    event = p.memory.raw[:64]
    d("cuIpcOpenEventHandle", o, handle_of(event), say="in the same process")
    source = IN_ANOTHER.format(here=str(Path(__file__).resolve().parent))
    command = [sys.executable, "-c", source, str(d.descriptor), handle.hex(), event.hex()]
    with subprocess.Popen(command, pass_fds=[d.descriptor], stderr=subprocess.PIPE, text=True) as process:
        try:
            errors = process.communicate(timeout=4)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            errors = "hangs"
    d.note("the other process", [process.returncode, re.sub("0x[0-9a-f]+", "X", errors[-200:])])
    d("cuMemFree_v2", memory)
