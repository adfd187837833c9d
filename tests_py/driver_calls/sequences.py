# SPDX-License-Identifier: Apache-2.0
"""Written sequences of calls, about the edges of each kind of object."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from answers import Calls, Cell, Driver, cell

UNITS: dict[str, Callable[[int, int], None]] = {}
MIB = 1 << 20
BLOCK = 2 * MIB
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
NOTHING = FUNCTION(lambda data: None)
NOTHING_OF_STREAM = CALLBACK(lambda stream, status, data: None)
HOST_FUNCTION = ctypes.cast(NOTHING, ctypes.c_void_p).value or 0
STREAM_CALLBACK = ctypes.cast(NOTHING_OF_STREAM, ctypes.c_void_p).value or 0
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .b8 counter[16];
.visible .const .align 4 .b8 fixed[8];
.visible .entry nothing() { ret; }
.visible .entry store(.param .u64 p, .param .u32 v)
{
 .reg .u64 %a; .reg .u32 %b;
 ld.param.u64 %a, [p]; ld.param.u32 %b, [v]; cvta.to.global.u64 %a, %a; st.global.u32 [%a], %b; ret;
}
.visible .entry bounded() .maxntid 64, 1, 1 { ret; }
\0"""


def unit(function: Callable[[Driver], None]) -> Callable[[Driver], None]:
    """Register a unit."""

    def run(descriptor: int, skip: int) -> None:
        function(Driver(descriptor))

    UNITS[function.__name__] = run
    return function


def prop(
    kind: int = 1, handles: int = 0, where: int = 1, device: int = 0, compression: int = 0, rdma: int = 0, usage: int = 0
) -> Cell:
    """Return a CUmemAllocationProp."""
    return cell("IIIiQBBHI", kind, handles, where, device, 0, compression, rdma, usage, 0)


def access(flags: int = 3, where: int = 1, device: int = 0) -> Cell:
    """Return a CUmemAccessDesc."""
    return cell("IiI", where, device, flags)


def pool_props(kind: int = 1, handles: int = 0, where: int = 1, device: int = 0, most: int = 0, usage: int = 0) -> Cell:
    """Return a CUmemPoolProps."""
    return cell("IIIiQQH", kind, handles, where, device, 0, most, usage, size=88)


def alignment(pointer: int) -> int:
    """Return the alignment of an address, up to 2 MiB."""
    return min(pointer & -pointer, BLOCK)


@unit
def before_init(d: Driver) -> None:
    o, p = Cell(512), Cell(64)
    d("cuDriverGetVersion", o, v=lambda: o.u)
    d("cuDriverGetVersion", 0, say="to nowhere")
    calls: list[tuple[str, tuple[object, ...]]] = [
        ("cuDeviceGetCount", (o,)), ("cuDeviceGet", (o, 0)), ("cuCtxGetCurrent", (o,)), ("cuCtxSetCurrent", (0,)), ("cuMemAlloc_v2", (o, 100)),
        ("cuMemGetInfo_v2", (o, p)), ("cuStreamCreate", (o, 0)), ("cuEventCreate", (o, 0)), ("cuGetErrorName", (1, o)), ("cuDevicePrimaryCtxRetain", (o, 0)),
        ("cuPointerGetAttribute", (o, 1, 4096)), ("cuMemFree_v2", (0,)), ("cuStreamSynchronize", (0,)), ("cuCtxSynchronize", ()),
        ("cuModuleLoadData", (o, PTX)), ("cuMemcpy", (0, 0, 0)), ("cuMemHostAlloc", (o, 100, 0)), ("cuMemAddressReserve", (o, BLOCK, 0, 0, 0)),
        ("cuGraphCreate", (o, 0)), ("cuMemPoolCreate", (o, pool_props())), ("cuLibraryLoadData", (o, PTX, 0, 0, 0, 0, 0, 0)), ("cuProfilerStart", ()),
        ("cuThreadExchangeStreamCaptureMode", (o,)), ("cuDeviceGetName", (o, 100, 0)), ("cuModuleGetLoadingMode", (o,)), ("cuUserObjectCreate", (o, 0, HOST_FUNCTION, 1, 1)),
    ]  # fmt: skip
    for name, arguments in calls:
        d(name, *arguments)
    d("cuGetProcAddress_v2", b"cuInit", o, 12000, 0, p, v=lambda: p.i)
    for flags in (1, 2, 0x80000000):
        d("cuInit", flags, say=str(flags))
    d("cuInit", 0)
    d("cuInit", 0, say="again")
    d("cuInit", 1, say="1 afterwards")


@unit
def no_context(d: Driver) -> None:
    d.init()
    o, p, q = Cell(512), Cell(64), Cell(64)
    host = Cell(4096)
    d("cuCtxGetCurrent", o, v=lambda: o.v)
    d("cuCtxGetDevice", o)
    d("cuCtxGetApiVersion", 0, o)
    d("cuCtxGetFlags", o)
    d("cuCtxGetId", 0, o)
    d("cuCtxSynchronize")
    d("cuCtxPopCurrent_v2", o)
    d("cuCtxPushCurrent_v2", 0)
    d("cuCtxSetCurrent", 0)
    d("cuCtxDestroy_v2", 0)
    d("cuCtxGetLimit", o, 0)
    d("cuCtxSetLimit", 0, 1024)
    d("cuCtxGetCacheConfig", o)
    d("cuCtxGetStreamPriorityRange", o, p)
    d("cuCtxGetStreamPriorityRange", 0, 0, say="to nowhere")
    d("cuMemGetInfo_v2", o, p)
    d("cuMemAlloc_v2", o, 100)
    d("cuMemAlloc_v2", o, 0, say="0 bytes")
    d("cuMemAlloc_v2", 0, 100, say="to nowhere")
    d("cuMemFree_v2", 0, say="null")
    d("cuMemFree_v2", 0x1000, say="unknown")
    d("cuMemAllocHost_v2", o, 100)
    d("cuMemHostAlloc", o, 100, 0)
    d("cuMemFreeHost", 0)
    d("cuMemHostRegister_v2", host, 4096, 0)
    d("cuMemAllocManaged", o, 100, 1)
    d("cuMemAllocPitch_v2", o, p, 100, 10, 4)
    d("cuMemAllocAsync", o, 100, 0)
    d("cuMemFreeAsync", 0, 0)
    d("cuMemcpyHtoD_v2", 0x1000, host, 0, say="0 bytes")
    d("cuMemcpyHtoD_v2", 0x1000, host, 4)
    d("cuMemcpy", host, host, 4)
    d("cuMemsetD8_v2", 0x1000, 0, 0, say="0 bytes")
    d("cuStreamCreate", o, 0)
    d("cuStreamSynchronize", 0)
    d("cuStreamQuery", 0)
    d("cuEventCreate", o, 0)
    d("cuEventRecord", 0, 0)
    d("cuModuleLoadData", o, PTX)
    d("cuArrayCreate_v2", o, cell("QQII", 16, 16, 8, 1))
    d("cuPointerGetAttribute", o, 2, 0x1000)
    d("cuPointerGetAttribute", o, 2, host)
    d("cuMemGetAddressRange_v2", o, p, 0x1000)
    d("cuIpcGetMemHandle", o, 0x1000)
    d("cuFuncGetAttribute", o, 0, 0)
    d("cuLaunchKernel", 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    d("cuLaunchHostFunc", 0, HOST_FUNCTION, 0)
    d("cuCtxEnablePeerAccess", 0, 0)
    d("cuFlushGPUDirectRDMAWrites", 0, 100)
    d("cuMemAddressReserve", o, BLOCK, 0, 0, 0, v=lambda: alignment(o.v))
    d("cuMemCreate", p, BLOCK, prop(), 0)
    d("cuMemMap", o.v, BLOCK, 0, p.v, 0)
    d("cuMemSetAccess", o.v, BLOCK, access(), 1)
    d("cuMemsetD8_v2", o.v, 1, 10, say="mapped, without a context")
    d("cuMemUnmap", o.v, BLOCK)
    d("cuMemRelease", p.v)
    d("cuMemAddressFree", o.v, BLOCK)
    d("cuMemPoolCreate", o, pool_props(), v=lambda: o.v != 0)
    pool = o.v
    d("cuMemPoolGetAttribute", pool, 5, q, v=lambda: q.v)
    d("cuMemAllocFromPoolAsync", o, 100, pool, 0)
    d("cuMemPoolDestroy", pool)
    d("cuDeviceGetMemPool", o, 0)
    d("cuGraphCreate", o, 0)
    d("cuGraphInstantiateWithFlags", p, o.v, 0)
    d("cuGraphLaunch", p.v, 0)
    d("cuGraphDestroy", o.v)
    d("cuLibraryLoadData", o, PTX, 0, 0, 0, 0, 0, 0, v=lambda: o.v != 0)
    d("cuLibraryUnload", o.v)
    d("cuStreamBeginCapture_v2", 0, 0)
    d("cuStreamIsCapturing", 0, o)
    d("cuDevicePrimaryCtxGetState", 0, p, q, say="at the end", v=lambda: [p.u, q.u])


@unit
def primary(d: Driver) -> None:
    d.init()
    o, p, q, r = Cell(64), Cell(64), Cell(64), Cell(64)

    def state(say: str) -> None:
        d("cuDevicePrimaryCtxGetState", 0, p, q, say=say, v=lambda: [p.u, q.u])

    d("cuDevicePrimaryCtxRelease_v2", 0, say="never retained")
    d("cuDevicePrimaryCtxReset_v2", 0, say="never retained")
    d("cuDevicePrimaryCtxRetain", o, 1, say="device 1")
    d("cuDevicePrimaryCtxRetain", 0, 0, say="to nowhere")
    d("cuDevicePrimaryCtxGetState", 1, p, q, say="device 1")
    for flags in (4, 0, 3, 8, 16, 0x20, 0x40, 0x80, 0x100, 5, 4):
        d("cuDevicePrimaryCtxSetFlags_v2", 0, flags, say=hex(flags))
        state(f"flags {flags:x}")
    d("cuDevicePrimaryCtxRetain", o, 0)
    state("retained")
    d("cuDevicePrimaryCtxRetain", r, 0, say="again", v=lambda: r.v == o.v)
    d("cuDevicePrimaryCtxSetFlags_v2", 0, 1, say="while active")
    state("flags while active")
    d("cuCtxGetCurrent", p, say="after retaining", v=lambda: p.v == o.v)
    d("cuCtxSetCurrent", o.v)
    d("cuCtxGetFlags", p, v=lambda: p.u)
    d("cuCtxGetApiVersion", o.v, p, v=lambda: p.u)
    d("cuCtxDestroy_v2", o.v, say="the primary one")
    d("cuCtxGetCurrent", p, say="after that", v=lambda: p.v == o.v)
    d("cuMemAlloc_v2", r, 100, say="after that")
    d("cuCtxSetCurrent", o.v)
    d("cuDevicePrimaryCtxRelease_v2", 0)
    state("released once")
    d("cuMemAlloc_v2", r, 100, say="released once")
    d("cuDevicePrimaryCtxRelease_v2", 0, say="second")
    state("released twice")
    d("cuDevicePrimaryCtxRelease_v2", 0, say="third")
    d("cuCtxGetCurrent", p, say="released", v=lambda: p.v == o.v)
    d("cuCtxGetDevice", p, say="released")
    d("cuCtxSynchronize", say="released")
    d("cuMemAlloc_v2", r, 100, say="released")
    d("cuMemGetInfo_v2", p, q, say="released")
    d("cuCtxSetCurrent", o.v, say="released")
    d("cuCtxPushCurrent_v2", o.v, say="released")
    d("cuDevicePrimaryCtxRetain", r, 0, say="anew", v=lambda: r.v == o.v)
    d("cuCtxSetCurrent", r.v)
    d("cuMemAlloc_v2", p, 100, say="anew")
    state("anew")


@unit
def primary_reset(d: Driver) -> None:
    context = d.context()
    o, p, q = Cell(64), Cell(64), Cell(64)
    pointer, stream, event = d.alloc(100), d.stream(), d.event()
    d("cuDevicePrimaryCtxReset_v2", 0)
    d("cuDevicePrimaryCtxGetState", 0, p, q, v=lambda: [p.u, q.u])
    d("cuCtxGetCurrent", o, v=lambda: o.v == context)
    d("cuCtxGetDevice", o)
    d("cuCtxSynchronize")
    d("cuMemAlloc_v2", o, 100)
    d("cuMemFree_v2", pointer)
    d("cuPointerGetAttribute", o, 2, pointer)
    d("cuDevicePrimaryCtxRetain", o, 0, v=lambda: o.v == context)
    d("cuCtxSetCurrent", o.v)
    d("cuMemFree_v2", pointer, say="old memory, new context")
    d("cuMemAlloc_v2", o, 100, say="new context")
    d("cuDevicePrimaryCtxGetState", 0, p, q, say="new context", v=lambda: [p.u, q.u])
    d("cuDevicePrimaryCtxRelease_v2", 0, say="1")
    d("cuDevicePrimaryCtxGetState", 0, p, q, say="1", v=lambda: [p.u, q.u])
    d("cuDevicePrimaryCtxRelease_v2", 0, say="2")
    d.note("used", [stream != 0, event != 0])


@unit
def stack(d: Driver) -> None:
    primary = d.context()
    o, p = Cell(64), Cell(64)
    d("cuCtxGetId", 0, o, v=lambda: o.v)
    d("cuCtxGetId", primary, o, say="primary", v=lambda: o.v)
    d("cuCtxCreate_v2", o, 0, 0)
    a = o.v
    d("cuCtxGetId", a, o, v=lambda: o.v)
    d("cuCtxGetCurrent", o, v=lambda: o.v == a)
    d("cuCtxCreate_v2", o, 4, 0, say="second")
    b = o.v
    d("cuCtxGetFlags", o, v=lambda: o.u)
    d("cuCtxGetApiVersion", b, o, v=lambda: o.u)
    memory = d.alloc(100)
    d("cuCtxPopCurrent_v2", o, v=lambda: o.v == b)
    d("cuMemcpyHtoD_v2", memory, Cell(100), 100, say="of the other context")
    d("cuMemsetD8_v2", memory, 0, 100, say="of the other context")
    d("cuPointerGetAttribute", p, 1, memory, say="context", v=lambda: p.v == b)
    d("cuMemFree_v2", memory, say="of the other context")
    d("cuMemFree_v2", memory, say="again")
    d("cuCtxPopCurrent_v2", o, v=lambda: o.v == a)
    d("cuCtxPopCurrent_v2", o, v=lambda: o.v == primary)
    d("cuCtxPopCurrent_v2", o, say="none")
    d("cuCtxPopCurrent_v2", 0, say="none, to nowhere")
    d("cuCtxGetCurrent", o, v=lambda: o.v)
    for handle in (a, a, b):
        d("cuCtxPushCurrent_v2", handle)
    d("cuCtxPopCurrent_v2", 0, say="to nowhere")
    d("cuCtxGetCurrent", o, v=lambda: o.v == a)
    d("cuCtxSetCurrent", b)
    d("cuCtxSetCurrent", 0, say="null")
    d("cuCtxGetCurrent", o, v=lambda: [o.v == a, o.v == b, o.v == 0])
    d("cuCtxPushCurrent_v2", b)
    stream = d.stream()
    event = d.event()
    d("cuCtxSetCurrent", a)
    d("cuStreamGetCtx", stream, o, v=lambda: o.v == b)
    d("cuEventRecord", event, stream, say="both of the other context")
    d("cuEventRecord", event, 0, say="event of the other context")
    mine = d.event()
    d("cuEventRecord", mine, stream, say="stream of the other context")
    d("cuStreamWaitEvent", 0, event, 0, say="event of the other context")
    d("cuEventSynchronize", event)
    d("cuStreamSynchronize", stream)
    d("cuStreamQuery", stream)
    d("cuMemAllocAsync", o, 100, stream, say="stream of the other context")
    d("cuLaunchHostFunc", stream, HOST_FUNCTION, 0, say="stream of the other context")
    d("cuCtxDestroy_v2", b)
    d("cuCtxGetCurrent", o, v=lambda: o.v == a)
    d("cuCtxDetach", a)
    d("cuCtxGetCurrent", o, say="after detach", v=lambda: [o.v == a, o.v == 0])
    d("cuCtxAttach", o, 0)
    d("cuCtxDestroy_v2", a)
    d("cuCtxGetCurrent", o, say="after destroy", v=lambda: [o.v == a, o.v == 0])
    d("cuMemAlloc_v2", o, 100)
    for flags in (1, 2, 3, 4, 5, 8, 16, 0x20, 0x40, 0x80, 0x100, 0x1000):
        d("cuCtxCreate_v2", o, flags, 0, say=hex(flags))
        if d.quiet("cuCtxGetFlags", p) == 0:
            d("cuCtxGetFlags", p, say=hex(flags), v=lambda: p.u)
        d.quiet("cuCtxDestroy_v2", o.v)
    d("cuCtxCreate_v2", o, 0, 1, say="device 1")
    d("cuCtxCreate_v2", 0, 0, 0, say="to nowhere")
    d("cuCtxCreate_v3", o, 0, 0, 0, 0, say="without parameters")
    d("cuCtxCreate_v4", o, 0, 0, 0, say="without parameters")


@unit
def limits(d: Driver) -> None:
    context = d.context()
    o, p = Cell(64), Cell(64)
    for limit in range(14):
        d("cuCtxGetLimit", o, limit, say=str(limit), v=lambda: o.v)
        before = o.v
        for value in (0, 1, 100, 1000, 1025, 4096, 65536, 1 << 20, 1 << 40):
            if value > {0: 4096, 1: 1 << 20, 2: 1 << 20, 5: 4096}.get(limit, 1 << 40):
                continue  # it would take much of the card's memory
            d("cuCtxSetLimit", limit, value, say=f"{limit} {value}")
            d("cuCtxGetLimit", o, limit, say=f"{limit} after {value}", v=lambda: o.v)
        d("cuCtxSetLimit", limit, before, say=f"{limit} back")
    d("cuCtxGetLimit", 0, 0, say="to nowhere")
    d("cuCtxGetCacheConfig", o, v=lambda: o.u)
    for value in range(5):
        d("cuCtxSetCacheConfig", value, say=str(value))
        d("cuCtxGetCacheConfig", o, say=f"after {value}", v=lambda: o.u)
    d("cuCtxGetSharedMemConfig", o, v=lambda: o.u)
    for value in range(4):
        d("cuCtxSetSharedMemConfig", value, say=str(value))
        d("cuCtxGetSharedMemConfig", o, say=f"after {value}", v=lambda: o.u)
    d("cuCtxGetStreamPriorityRange", o, p, v=lambda: [o.i, p.i])
    d("cuCtxGetStreamPriorityRange", o, 0, say="one")
    for flags in (0, 1, 2, 3, 4, 7, 8, 0x10, 0x20, 0x40, 0x80, 0x100):
        d("cuCtxSetFlags", flags, say=hex(flags))
        d("cuCtxGetFlags", o, say=f"after {flags:x}", v=lambda: o.u)
    d("cuCtxResetPersistingL2Cache")
    for kind in range(3):
        d("cuCtxGetExecAffinity", Cell(64), kind, say=str(kind))
    for kind in range(4):
        d("cuCtxGetDevResource", context, Cell(256), kind, say=str(kind))
    for target, scope in ((0, 100), (0, 200), (1, 100), (0, 1)):
        d("cuFlushGPUDirectRDMAWrites", target, scope, say=f"{target} {scope}")
    d("cuProfilerStart")
    d("cuProfilerStop")
    d("cuCtxEnablePeerAccess", context, 0, say="to itself")
    d("cuCtxDisablePeerAccess", context, say="from itself")
    d("cuCtxEnablePeerAccess", 0, 0, say="to none")
    for attribute in range(1, 9):
        size = cell("Q", 64)
        d("cuCoredumpGetAttribute", attribute, o, size, say=str(attribute), v=lambda c=size: c.v if c.v < 64 else -1)
        size = cell("Q", 64)
        d("cuCoredumpGetAttributeGlobal", attribute, o, size, say=str(attribute), v=lambda c=size: c.v if c.v < 64 else -1)
    d("cuLogsCurrent", o, 0)
    d("cuLogsDumpToMemory", 0, Cell(4096), cell("Q", 4096), 0)
    d("cuLogsRegisterCallback", HOST_FUNCTION, 0, o)
    d("cuLogsUnregisterCallback", o.v)
    d("cuLogsUnregisterCallback", 0, say="none")


@unit
def streams(d: Driver) -> None:
    context = d.context()
    o, p, q = Cell(64), Cell(64), Cell(64)
    for flags in (0, 1, 2, 3, -1):
        d("cuStreamCreate", o, flags, say=str(flags), v=lambda: o.v != 0)
        if o.v and flags in (0, 1):
            d("cuStreamGetFlags", o.v, p, say=str(flags), v=lambda: p.u)
            d("cuStreamGetPriority", o.v, p, say=str(flags), v=lambda: p.i)
            d("cuStreamGetId", o.v, p, say=str(flags), v=lambda: p.v > 2)
            d("cuStreamGetCtx", o.v, p, say=str(flags), v=lambda: p.v == context)
            d("cuStreamGetDevice", o.v, p, say=str(flags), v=lambda: p.u)
    d("cuStreamCreate", 0, 0, say="to nowhere")
    for priority in (-100, -5, -4, -3, -1, 0, 1, 100):
        d("cuStreamCreateWithPriority", o, 1, priority, say=str(priority))
        d("cuStreamGetPriority", o.v, p, say=f"wanted {priority}", v=lambda: p.i)
        d.quiet("cuStreamDestroy_v2", o.v)
    d("cuStreamCreateWithPriority", o, 7, 0, say="flags 7")
    for name, handle in (("null", 0), ("legacy", 1), ("per thread", 2)):
        d("cuStreamGetFlags", handle, o, say=name, v=lambda: o.u)
        d("cuStreamGetPriority", handle, o, say=name, v=lambda: o.i)
        d("cuStreamGetId", handle, o, say=name, v=lambda: o.v if o.v < 1 << 62 else "large")
        d("cuStreamGetCtx", handle, o, say=name, v=lambda: o.v == context)
        d("cuStreamGetDevice", handle, o, say=name, v=lambda: o.u)
        d("cuStreamQuery", handle, say=name)
        d("cuStreamSynchronize", handle, say=name)
        d("cuStreamDestroy_v2", handle, say=name)
        d("cuStreamIsCapturing", handle, o, say=name, v=lambda: o.u)
        d("cuStreamAddCallback", handle, STREAM_CALLBACK, 0, 0, say=name)
        d("cuLaunchHostFunc", handle, HOST_FUNCTION, 0, say=name)
        d("cuStreamSynchronize", handle, say=f"{name} after")
    stream = d.stream()
    d("cuStreamGetFlags", stream, 0, say="to nowhere")
    d("cuStreamAddCallback", stream, STREAM_CALLBACK, 0, 1, say="flags 1")
    d("cuStreamAddCallback", stream, 0, 0, 0, say="null")
    d("cuLaunchHostFunc", stream, 0, 0, say="null")
    for attribute in range(1, 20):
        room = Cell(256)
        d("cuStreamGetAttribute", stream, attribute, room, say=str(attribute), v=lambda c=room: c.all("4I") if 0 else None)
        d("cuStreamSetAttribute", stream, attribute, Cell(256), say=f"{attribute} zeros")
    d("cuStreamSetAttribute", stream, 3, cell("I", 2), say="policy 2")
    d("cuStreamSetAttribute", stream, 3, cell("I", 9), say="policy 9")
    d("cuStreamCopyAttributes", stream, stream, say="to itself")
    d("cuStreamCopyAttributes", stream, 0, say="from null")
    word = d.alloc(64)
    d("cuStreamWriteValue32_v2", stream, word, 5, 0)
    d("cuStreamWriteValue32_v2", stream, word + 1, 5, 0, say="misaligned")
    d("cuStreamWriteValue32_v2", stream, word, 5, 1, say="no barrier")
    d("cuStreamWriteValue32_v2", stream, word, 5, 8, say="flags 8")
    d("cuStreamWriteValue32_v2", stream, 0, 5, 0, say="null")
    d("cuStreamWaitValue32_v2", stream, word, 5, 0, say="geq")
    d("cuStreamWaitValue32_v2", stream, word, 5, 1, say="eq")
    d("cuStreamWaitValue32_v2", stream, word + 2, 5, 1, say="misaligned")
    d("cuStreamWaitValue32_v2", stream, word, 5, 1 << 30, say="flush")
    d("cuStreamWriteValue64_v2", stream, word, 5, 0)
    d("cuStreamWriteValue64_v2", stream, word + 4, 5, 0, say="misaligned")
    d("cuStreamWaitValue64_v2", stream, word, 5, 1, say="eq")
    d("cuStreamBatchMemOp_v2", stream, 0, 0, 0, say="none")
    d("cuStreamBatchMemOp_v2", stream, 300, Cell(64 * 300), 0, say="300")
    d("cuStreamAttachMemAsync", stream, 0, 0, 1, say="null")
    d("cuStreamAttachMemAsync", stream, word, 0, 1, say="device memory")
    d.settled()
    d("cuStreamQuery", stream)
    d("cuStreamSynchronize", stream)
    d("cuMemcpyDtoH_v2", q, word, 8, v=lambda: q.v)
    d("cuStreamDestroy_v2", stream)


@unit
def stream_gone(d: Driver) -> None:
    d.context()
    o = Cell(64)
    stream = d.stream()
    d.quiet("cuStreamDestroy_v2", stream)
    d("cuStreamQuery", stream, say="destroyed")
    d("cuStreamGetFlags", stream, o, say="destroyed")
    d("cuStreamSynchronize", stream, say="destroyed")
    d("cuStreamDestroy_v2", stream, say="destroyed")


@unit
def event_gone(d: Driver) -> None:
    d.context()
    event = d.event()
    d.quiet("cuEventDestroy_v2", event)
    d("cuEventQuery", event, say="destroyed")
    d("cuEventSynchronize", event, say="destroyed")
    d("cuEventRecord", event, 0, say="destroyed")
    d("cuEventDestroy_v2", event, say="destroyed")


@unit
def events(d: Driver) -> None:
    d.context()
    o = Cell(64)
    for flags in (0, 1, 2, 3, 4, 5, 6, 7, 8, 16):
        d("cuEventCreate", o, flags, say=str(flags), v=lambda: o.v != 0)
    d("cuEventCreate", 0, 0, say="to nowhere")
    d("cuEventDestroy_v2", 0, say="null")
    d("cuEventQuery", 0, say="null")
    d("cuEventSynchronize", 0, say="null")
    d("cuEventRecord", 0, 0, say="null")
    d("cuStreamWaitEvent", 0, 0, 0, say="null")
    a, b, untimed = d.event(), d.event(), d.event(2)
    stream = d.stream()
    d("cuEventQuery", a, say="never recorded")
    d("cuEventSynchronize", a, say="never recorded")
    for name in ("cuEventElapsedTime", "cuEventElapsedTime_v2"):
        d(name, o, a, b, say="never recorded")
        d(name, o, 0, b, say="null")
    d("cuStreamWaitEvent", stream, a, 0, say="never recorded")
    d("cuEventRecord", a, stream)
    for name in ("cuEventElapsedTime", "cuEventElapsedTime_v2"):
        d(name, o, a, b, say="one recorded")
    d("cuEventRecord", b, stream)
    d("cuEventRecord", untimed, stream)
    d("cuEventSynchronize", b)
    d("cuEventSynchronize", untimed)
    for name in ("cuEventElapsedTime", "cuEventElapsedTime_v2"):
        d(name, o, a, b, say="both recorded", v=lambda: 0 <= o.get("f") < 1000)
        d(name, o, b, a, say="backwards", v=lambda: -1000 < o.get("f") <= 0)
        d(name, o, a, a, say="same", v=lambda: o.get("f"))
        d(name, o, a, untimed, say="without timing")
        d(name, 0, a, b, say="to nowhere")
    d("cuEventQuery", a)
    for flags in (0, 1, 2):
        d("cuEventRecordWithFlags", a, stream, flags, say=str(flags))
        d("cuStreamWaitEvent", stream, a, flags, say=str(flags))
    d("cuEventRecord", a, 0, say="null stream")
    d("cuEventRecord", a, 1, say="legacy")
    d("cuEventRecord", a, 2, say="per thread")
    d("cuEventDestroy_v2", a)
    d("cuCtxSynchronize")


@unit
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
    d.note("distances of 100 bytes", [b - a for a, b in zip(blocks, blocks[1:], strict=False)])
    small = [d.alloc(1) for _ in range(8)]
    d.note("distances of 1 byte", [b - a for a, b in zip(small, small[1:], strict=False)])
    odd = [d.alloc(600) for _ in range(8)]
    d.note("distances of 600 bytes", [b - a for a, b in zip(odd, odd[1:], strict=False)])
    large = [d.alloc(MIB + 1) for _ in range(4)]
    d.note("distances of 1 MiB + 1", [b - a for a, b in zip(large, large[1:], strict=False)])
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


@unit
def pitches(d: Driver) -> None:
    d.context()
    o, p = Cell(), Cell()
    for element in (4, 8, 16):
        for width in (
            1,
            4,
            16,
            31,
            32,
            33,
            64,
            127,
            128,
            129,
            255,
            256,
            257,
            500,
            511,
            512,
            513,
            1000,
            1023,
            1024,
            1025,
            2048,
            2049,
            4000,
            4096,
            4097,
            10000,
            65536,
            65537,
            100000,
            1000000,
        ):
            d("cuMemAllocPitch_v2", o, p, width, 3, element, say=f"{width} {element}", v=lambda: [p.v, alignment(o.v) >= 512])
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


@unit
def host_memory(d: Driver) -> None:
    context = d.context()
    o, p = Cell(64), Cell(64)
    for flags in (*range(9), 16):
        d("cuMemHostAlloc", o, 5000, flags, say=str(flags), v=lambda: alignment(o.v) >= 4096)
        pointer = o.v
        d("cuMemHostGetFlags", p, pointer, say=str(flags), v=lambda: p.u)
        d("cuMemHostGetDevicePointer_v2", p, pointer, 0, say=str(flags), v=lambda x=pointer: p.v == x)
        d("cuMemHostGetDevicePointer_v2", p, pointer + 10, 0, say=f"{flags} interior", v=lambda x=pointer: p.v == x + 10)
        d("cuMemHostGetDevicePointer_v2", p, pointer, 1, say=f"{flags} flags 1")
        d("cuMemHostUnregister", pointer, say=str(flags))
        if pointer:
            d.quiet("cuMemFreeHost", pointer)
        o.memory.raw = b"\0" * 64
    import mmap

    area = mmap.mmap(-1, 1 << 20)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    for flags in (0, 1, 2, 3, 4, 5, 8, 9, 16, 32):
        d("cuMemHostRegister_v2", base, 4096, flags, say=str(flags))
        d("cuMemHostGetFlags", p, base, say=f"registered {flags}", v=lambda: p.u)
        d("cuMemHostUnregister", base, say=str(flags))
    for offset, size, say in (
        (0, 0, "0 bytes"), (0, 100, "100"), (0, 100, "again"), (50, 20, "inside"), (100, 100, "behind, on the page"), (4096, 8192, "next page"), (8192, 4096, "its part"),
        (2048, 4096, "across two"), (65537, 1001, "unaligned"), (70000, 10, "on its neighbour's page"), (1 << 19, 1 << 20, "beyond the mapping"),
    ):  # fmt: skip
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
    import struct

    where = Cell(0, struct.pack(f"<{len(wanted)}Q", *[one.address for one in room]))
    kinds = Cell(0, struct.pack(f"<{len(wanted)}I", *wanted))
    d(
        "cuPointerGetAttributes", len(wanted), kinds, where, pointer, say=say,
        v=lambda: [room[0].v != 0, room[1].i, room[2].v - base if room[2].v else "null", room[3].v - base if room[3].v else "null",
                   room[4].memory.raw[0], room[5].i, room[6].i, room[7].v - base if room[7].v else "null", room[8].v, room[9].v != 0],
    )  # fmt: skip


@unit
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
    import mmap

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


@unit
def pools(d: Driver) -> None:
    d.context()
    o, p, q = Cell(64), Cell(64), Cell(64)
    d("cuDeviceGetDefaultMemPool", o, 0)
    default = o.v
    d("cuDeviceGetMemPool", o, 0, v=lambda: o.v == default)
    d("cuDeviceGetDefaultMemPool", o, 1, say="device 1")

    def look(pool: int, say: str) -> None:
        for attribute in range(1, 9):
            d("cuMemPoolGetAttribute", pool, attribute, o, say=f"{attribute} {say}", v=lambda a=attribute: o.u if a < 4 else o.v)

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
    d("cuMemFreeAsync", plain, stream, say="of cuMemAlloc again")
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
        ("plain", pool_props()), ("kind 0", pool_props(0)), ("kind 2", pool_props(2)), ("device 1", pool_props(device=1)), ("device -1", pool_props(device=-1)), ("host", pool_props(where=2)),
        ("numa 0", pool_props(where=3)), ("where 0", pool_props(where=0)), ("where 9", pool_props(where=9)), ("fd", pool_props(handles=1)), ("win32", pool_props(handles=2)),
        ("fabric", pool_props(handles=8)), ("handles 16", pool_props(handles=16)), ("most 1", pool_props(most=1)), ("most 10M", pool_props(most=10_000_000)),
        ("usage 2", pool_props(usage=2)), ("usage 1", pool_props(usage=1)), ("managed", pool_props(kind=2)),
    ):  # fmt: skip
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


@unit
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


@unit
def virtual(d: Driver) -> None:
    d.context()
    o, p, q = Cell(64), Cell(64), Cell(64)
    for say, properties in (
        ("plain", prop()), ("fd", prop(handles=1)), ("win32", prop(handles=2)), ("fabric", prop(handles=8)), ("fd and fabric", prop(handles=9)), ("compressible", prop(compression=1)),
        ("compression 2", prop(compression=2)), ("rdma", prop(rdma=1)), ("usage 1", prop(usage=1)), ("usage 2", prop(usage=2)), ("kind 0", prop(0)), ("kind 2", prop(2)), ("device 1", prop(device=1)),
        ("device -1", prop(device=-1)), ("host", prop(where=2)), ("numa 0", prop(where=3)), ("numa 9", prop(where=3, device=9)), ("numa current", prop(where=4)), ("where 0", prop(where=0)), ("where 9", prop(where=9)),
    ):  # fmt: skip
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
    for size in (0, 1, 4096, 65536, BLOCK - 1, BLOCK, BLOCK + 65536, 3 * BLOCK, 1 << 30, 1 << 40, 1 << 46, 1 << 47, 1 << 48):
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


@unit
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
        ("0 bytes", a, 0, 0, h, 0), ("flags", a, 2 * BLOCK, 0, h, 1), ("no handle", a, BLOCK, 0, 0, 0), ("unknown handle", a, BLOCK, 0, 12345, 0), ("too large", a, 4 * BLOCK, 0, h, 0),
        ("half a block", a, MIB, 0, h, 0), ("unaligned size", a, BLOCK + 4096, 0, h, 0), ("unaligned address", a + 4096, BLOCK, 0, h, 0), ("offset", a, BLOCK, BLOCK, h, 0), ("unaligned offset", a, BLOCK, 4096, h, 0),
        ("part", a, BLOCK, 0, h, 0), ("not reserved", host.address & ~(BLOCK - 1), BLOCK, 0, k, 0), ("null", 0, BLOCK, 0, k, 0), ("beyond the reservation", a + 7 * BLOCK, 2 * BLOCK, 0, h, 0),
    ):  # fmt: skip
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
        ("device 1", a, 2 * BLOCK, access(device=1), 1), ("flags 2", a, 2 * BLOCK, access(2), 1), ("flags 9", a, 2 * BLOCK, access(9), 1), ("count 0", a, 2 * BLOCK, access(), 0), ("none", a, 2 * BLOCK, 0, 1),
        ("part", a, BLOCK, access(), 1), ("more", a, 3 * BLOCK, access(), 1), ("unaligned", a + 4096, BLOCK, access(), 1), ("0 bytes", a, 0, access(), 1), ("host", a, 2 * BLOCK, access(where=2), 1),
        ("not mapped", a + 2 * BLOCK, BLOCK, access(), 1), ("null", 0, BLOCK, access(), 1), ("read only", a, 2 * BLOCK, access(1), 1), ("none again", a, 2 * BLOCK, access(0), 1), ("read and write", a, 2 * BLOCK, access(), 1),
    ):  # fmt: skip
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


@unit
def copies(d: Driver) -> None:
    d.context()
    o = Cell(64)
    host, other = Cell(65536), Cell(65536)
    a, b = d.alloc(1000), d.alloc(5 * MIB)
    stream = d.stream()
    d.quiet("cuMemHostAlloc", o, 4096, 0)
    pinned = o.v
    for name, first, second in (
        ("cuMemcpyHtoD_v2", a, host), ("cuMemcpyDtoH_v2", host, a), ("cuMemcpyDtoD_v2", b, a), ("cuMemcpy", a, host), ("cuMemcpy", host, other), ("cuMemcpyDtoD_v2", a, host), ("cuMemcpyHtoD_v2", a, b),
        ("cuMemcpyHtoD_v2", host, other), ("cuMemcpyDtoH_v2", b, a), ("cuMemcpyDtoH_v2", host, pinned), ("cuMemcpyHtoD_v2", a, pinned), ("cuMemcpyDtoD_v2", a, pinned),
    ):  # fmt: skip
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
    order = "sx sy skind shost sdevice sarray spitch dx dy dkind dhost ddevice darray dpitch width height".split()
    return cell("16Q", *[fields.get(name, 0) for name in order])


def copy3d(**fields: int) -> Cell:
    """Return a CUDA_MEMCPY3D."""
    order = "sx sy sz slod skind shost sdevice sarray sres spitch sheight dx dy dz dlod dkind dhost ddevice darray dres dpitch dheight width height depth".split()
    return cell("25Q", *[fields.get(name, 0) for name in order])


@unit
def copies_in_planes(d: Driver) -> None:
    d.context()
    o = Cell()
    host = Cell(1 << 16)
    a = d.alloc(1 << 16)
    d.quiet("cuArrayCreate_v2", o, cell("QQII", 64, 8, 8, 1))
    array = o.v
    h, g = {"skind": 1, "shost": host.address}, {"dkind": 2, "ddevice": a}
    for say, fields in (
        ("plain", {"spitch": 64, "dpitch": 512, "width": 64, "height": 8}), ("no pitch", {"width": 64, "height": 8}), ("pitch below width", {"spitch": 63, "dpitch": 512, "width": 64, "height": 8}),
        ("dst pitch below width", {"spitch": 64, "dpitch": 63, "width": 64, "height": 8}), ("width 0", {"spitch": 64, "dpitch": 512, "height": 8}), ("height 0", {"spitch": 64, "dpitch": 512, "width": 64}),
        ("one row, no pitch", {"width": 64, "height": 1}), ("x", {"sx": 5, "dx": 7, "spitch": 64, "dpitch": 512, "width": 32, "height": 8}), ("x beyond the pitch", {"sx": 40, "spitch": 64, "dpitch": 512, "width": 32, "height": 8}),
        ("pitch too large", {"spitch": 64, "dpitch": 1 << 33, "width": 64, "height": 1}), ("kind 0", {"skind": 0, "spitch": 64, "dpitch": 512, "width": 64, "height": 1}), ("kind 9", {"skind": 9, "spitch": 64, "dpitch": 512, "width": 64, "height": 1}),
        ("unified", {"skind": 4, "shost": 0, "sdevice": a, "spitch": 64, "dpitch": 512, "width": 64, "height": 1}), ("beyond", {"spitch": 64, "dpitch": 512, "width": 64, "height": 1 << 14}),
        ("from null", {"shost": 0, "spitch": 64, "dpitch": 512, "width": 64, "height": 1}), ("to null", {"ddevice": 0, "spitch": 64, "dpitch": 512, "width": 64, "height": 1}),
    ):  # fmt: skip
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
        ("array", {"width": 64, "height": 8}), ("array wide", {"width": 65, "height": 8}), ("array high", {"width": 64, "height": 9}), ("array x", {"dx": 1, "width": 64, "height": 8}), ("array y", {"dy": 8, "width": 64, "height": 1}),
        ("array at y 7", {"dy": 7, "width": 64, "height": 1}),
    ):  # fmt: skip
        d("cuMemcpy2D_v2", copy2d(**{**h, "spitch": 64, "dkind": 3, "darray": array, **fields}), say=say)
        d("cuMemcpy3D_v2", copy3d(**{**h, "spitch": 64, "sheight": 8, "dkind": 3, "darray": array, "depth": 1, **fields}), say=say)
    d("cuMemcpy3D_v2", copy3d(**{**h, **g, "spitch": 16, "dpitch": 16, "width": 16, "height": 4, "depth": 3}), say="no heights")
    d(
        "cuMemcpy3D_v2",
        copy3d(**{**h, **g, "spitch": 16, "sheight": 4, "dpitch": 16, "dheight": 4, "width": 16, "height": 4, "depth": 3}),
        say="heights",
    )
    d(
        "cuMemcpy3D_v2",
        copy3d(**{**h, **g, "spitch": 16, "sheight": 3, "dpitch": 16, "dheight": 4, "width": 16, "height": 4, "depth": 3}),
        say="height below",
    )
    d(
        "cuMemcpy3D_v2",
        copy3d(**{**h, **g, "spitch": 16, "sheight": 4, "dpitch": 16, "dheight": 4, "width": 16, "height": 4, "depth": 0}),
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


@unit
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


@unit
def arrays(d: Driver) -> None:
    d.context()
    o, p, q = Cell(64), Cell(64), Cell(64)
    for width, height, form, channels in (
        (64, 8, 8, 1), (64, 0, 32, 4), (0, 8, 8, 1), (64, 8, 8, 3), (64, 8, 8, 0), (64, 8, 99, 1), (131072, 0, 32, 1), (131073, 0, 32, 1), (1, 65536, 1, 1), (1, 65537, 1, 1), (1, 1, 16, 2), (100, 100, 9, 1), (100, 100, 10, 4),
    ):  # fmt: skip
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
        (16, 16, 16, 8, 1, 0), (16, 16, 6, 8, 1, 4), (16, 15, 6, 8, 1, 4), (16, 16, 5, 8, 1, 4), (16, 16, 12, 8, 1, 5), (16, 16, 3, 8, 1, 1), (16, 0, 3, 8, 1, 1), (16, 16, 0, 8, 1, 2), (16, 0, 0, 8, 1, 2), (16, 16, 0, 8, 1, 8),
        (16, 16, 0, 8, 1, 0x40), (1024, 1024, 0, 8, 4, 0x40), (16, 16, 0, 8, 1, 0x80), (1024, 1024, 0, 32, 1, 0x80), (16, 16, 0, 8, 1, 0x1000), (16384, 16384, 16384, 1, 1, 0), (16385, 1, 1, 1, 1, 0), (16, 0, 5, 8, 1, 0), (32, 32, 0, 0xB0, 3, 0),
    ):  # fmt: skip
        if width * height * depth > 1 << 30:
            continue
        say = f"{width} {height} {depth} {form} {channels} {flags:x}"
        o.memory.raw = b"\0" * 64
        d("cuArray3DCreate_v2", o, cell("QQQIIII", width, height, depth, form, channels, flags, 0), say=say, v=lambda: o.v != 0)
        if o.v:
            d("cuArray3DGetDescriptor_v2", q, o.v, say=say, v=lambda: q.all("QQQIII"))
            d("cuArrayGetMemoryRequirements", q, o.v, 0, say=say, v=lambda: q.all("QQ"))
            d("cuArrayGetSparseProperties", q, o.v, say=say, v=lambda: q.all("IIIIQI"))
            d("cuArrayDestroy", o.v, say=say)
    for levels in (0, 1, 5, 7, 8, 100):
        o.memory.raw = b"\0" * 64
        d("cuMipmappedArrayCreate", o, cell("QQQIIII", 64, 64, 0, 8, 4, 0, 0), levels, say=str(levels), v=lambda: o.v != 0)
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
        ("array", of_array(array), sampling()), ("array null", of_array(0), sampling()), ("linear", of_linear(linear, 4096), sampling()), ("linear beyond", of_linear(linear, 1 << 20), sampling()), ("linear at 4", of_linear(linear + 4, 64), sampling()),
        ("linear 0", of_linear(linear, 0), sampling()), ("linear null", of_linear(0, 64), sampling()), ("linear 3 channels", of_linear(linear, 96, 32, 3), sampling()), ("plane", of_plane(linear, 16, 4, 512), sampling()), ("plane pitch 100", of_plane(linear, 16, 4, 100), sampling()),
        ("plane pitch 64", of_plane(linear, 16, 4, 64), sampling()), ("plane at 16", of_plane(linear + 16, 16, 4, 512), sampling()), ("mode 9", of_array(array), sampling(9)), ("filter 5", of_array(array), sampling(1, 5)), ("linear filtered", of_linear(linear, 64), sampling(1, 1)),
        ("integer", of_array(array), sampling(1, 0, 1)), ("flags 80", of_array(array), sampling(1, 0, 0x80)), ("wrap", of_array(array), sampling(0)), ("wrap normalized", of_array(array), sampling(0, 1, 2)), ("kind 9", cell("I", 9, size=144), sampling()),
    ):  # fmt: skip
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


def capture_calls(d: Driver, stream: int, other: int, event: int, context: int) -> list[tuple[str, str, tuple[object, ...]]]:
    """Return calls that may or may not be made during a capture."""
    o, p, q = Cell(64), Cell(64), Cell(64)
    memory, host = d.alloc(4096), Cell(4096)
    pinned = Cell()
    d.quiet("cuMemHostAlloc", pinned, 4096, 0)
    recorded = d.event()
    d.quiet("cuEventRecord", recorded, other)
    d.quiet("cuStreamSynchronize", other)
    pool = Cell()
    d.quiet("cuDeviceGetDefaultMemPool", pool, 0)
    return [
        ("cuMemAlloc_v2", "", (o, 100)), ("cuMemFree_v2", "", (d.alloc(100),)), ("cuMemHostAlloc", "", (o, 100, 0)), ("cuMemAllocManaged", "", (o, 100, 1)), ("cuStreamCreate", "", (o, 1)), ("cuStreamDestroy_v2", "other", (d.stream(),)),
        ("cuEventCreate", "", (o, 0)), ("cuEventQuery", "recorded elsewhere", (recorded,)), ("cuEventSynchronize", "recorded elsewhere", (recorded,)), ("cuEventRecord", "captured stream", (event, stream)), ("cuEventQuery", "captured", (event,)),
        ("cuEventSynchronize", "captured", (event,)), ("cuEventElapsedTime", "captured", (o, event, event)), ("cuStreamQuery", "captured", (stream,)), ("cuStreamSynchronize", "captured", (stream,)), ("cuStreamSynchronize", "other", (other,)), ("cuStreamQuery", "other", (other,)),
        ("cuStreamSynchronize", "null", (0,)), ("cuStreamQuery", "null", (0,)), ("cuCtxSynchronize", "", ()), ("cuMemcpyHtoD_v2", "", (memory, host, 100)), ("cuMemcpyHtoDAsync_v2", "captured", (memory, pinned.v, 100, stream)), ("cuMemcpyHtoDAsync_v2", "captured, pageable", (memory, host, 100, stream)),
        ("cuMemcpyDtoHAsync_v2", "captured, pageable", (host, memory, 100, stream)), ("cuMemcpyHtoDAsync_v2", "other", (memory, pinned.v, 100, other)), ("cuMemcpyHtoDAsync_v2", "null", (memory, pinned.v, 100, 0)), ("cuMemsetD8_v2", "", (memory, 1, 100)), ("cuMemsetD8Async", "captured", (memory, 1, 100, stream)),
        ("cuMemsetD8Async", "other", (memory, 1, 100, other)), ("cuMemsetD8Async", "null", (memory, 1, 100, 0)), ("cuMemcpyDtoD_v2", "", (memory, memory + 2048, 100)), ("cuMemAllocAsync", "captured", (o, 100, stream)), ("cuMemAllocAsync", "other", (o, 100, other)), ("cuMemFreeAsync", "captured", (d.alloc(100), stream)),
        ("cuMemPoolTrimTo", "", (pool.v, 0)), ("cuMemGetInfo_v2", "", (o, p)), ("cuCtxGetLimit", "", (o, 0)), ("cuCtxSetLimit", "", (0, 1024)), ("cuStreamWaitEvent", "captured, recorded elsewhere", (stream, recorded, 0)), ("cuStreamWaitEvent", "captured, external", (stream, recorded, 1)), ("cuStreamWaitEvent", "captured, own event", (stream, event, 0)),
        ("cuEventRecordWithFlags", "captured, external", (recorded, stream, 1)), ("cuStreamAddCallback", "captured", (stream, STREAM_CALLBACK, 0, 0)), ("cuLaunchHostFunc", "captured", (stream, HOST_FUNCTION, 0)), ("cuStreamBeginCapture_v2", "captured", (stream, 0)), ("cuStreamGetCaptureInfo_v2", "captured", (stream, o, p, 0, 0, q)),
        ("cuModuleLoadData", "", (o, PTX)), ("cuPointerGetAttribute", "", (o, 2, memory)), ("cuMemGetAddressRange_v2", "", (o, p, memory)), ("cuMemCreate", "", (o, BLOCK, prop(), 0)), ("cuMemAddressReserve", "", (o, BLOCK, 0, 0, 0)), ("cuMemHostRegister_v2", "", (Cell(8192), 8192, 0)), ("cuArrayCreate_v2", "", (o, cell("QQII", 16, 0, 8, 1))),
        ("cuCtxCreate_v2", "", (o, 0, 0)), ("cuCtxSetCurrent", "", (context,)), ("cuIpcGetMemHandle", "", (o, memory)), ("cuStreamGetFlags", "captured", (stream, o)), ("cuEventDestroy_v2", "", (d.event(),)), ("cuGraphCreate", "", (o, 0)), ("cuStreamAttachMemAsync", "captured", (stream, memory, 0, 1)),
        ("cuStreamWriteValue32_v2", "captured", (stream, memory, 1, 0)), ("cuProfilerStart", "", ()), ("cuDeviceGetAttribute", "", (o, 1, 0)), ("cuDeviceGraphMemTrim", "", (0,)), ("cuDevicePrimaryCtxRetain", "", (o, 0)), ("cuMemFreeHost", "", (0,)), ("cuMemAllocPitch_v2", "", (o, p, 100, 10, 4)), ("cuStreamDestroy_v2", "captured", (stream,)),
    ]  # fmt: skip


def captures(mode: int) -> Callable[[Driver], None]:
    """Return a unit that makes each call while a stream is captured in this mode."""

    def run(d: Driver) -> None:
        context = d.context()
        o, graph = Cell(64), Cell(64)
        count = len(capture_calls(d, d.stream(), d.stream(), d.event(), context))
        first = d.stream()
        calls = capture_calls(d, first, d.stream(), d.event(), context)
        for number in range(count):
            name, say, arguments = calls[number]
            if "captured" in say:  # a stream and an event that no call before has spoiled
                stream, other, event = d.stream(), d.stream(), d.event()
                name, say, arguments = (
                    capture_calls(d, stream, other, event, context)[number] if number % 6 == 0 else (name, say, arguments)
                )
                if number % 6:
                    stream = first
            else:
                stream = first
            code = d.quiet("cuStreamBeginCapture_v2", stream, mode)
            if code:
                d.note(f"begin before {name} {say}", code)
                first = d.stream()
                calls = capture_calls(d, first, d.stream(), d.event(), context)
                name, say, arguments = calls[number]
                stream = first
                d.quiet("cuStreamBeginCapture_v2", stream, mode)
            d(name, *arguments, say=f"mode {mode} {say}")
            if name != "cuStreamDestroy_v2" or say != "captured":
                d("cuStreamIsCapturing", stream, o, say=f"after {name} {say}", v=lambda: o.u)
                graph.memory.raw = b"\xee" * 64
                d("cuStreamEndCapture", stream, graph, say=f"after {name} {say}", v=lambda: graph.v != 0, always=True)
                if graph.v not in (0, 0xEEEEEEEEEEEEEEEE):
                    nodes = Cell()
                    d("cuGraphGetNodes", graph.v, 0, nodes, say=f"after {name} {say}", v=lambda: nodes.v)
                    d.quiet("cuGraphDestroy", graph.v)
            d.quiet("cuCtxSetCurrent", context)

    run.__name__ = f"capture_{mode}"
    return run


for _mode in range(3):
    unit(captures(_mode))


@unit
def capture_rules(d: Driver) -> None:
    d.context()
    o, p, graph, deps = Cell(64), Cell(64), Cell(64), Cell(64)
    a, b = d.stream(), d.stream(0)
    x, y = d.event(), d.event()
    for name, handle in (("null", 0), ("legacy", 1)):
        d("cuStreamBeginCapture_v2", handle, 0, say=name)
    d("cuStreamBeginCapture_v2", a, 3, say="mode 3")
    d("cuStreamEndCapture", a, graph, say="not begun")
    d("cuStreamIsCapturing", a, o, v=lambda: o.u)
    d("cuStreamGetCaptureInfo_v2", a, o, p, 0, 0, 0, say="not begun", v=lambda: o.u)
    d("cuStreamBeginCapture_v2", a, 0)
    d("cuStreamGetCaptureInfo_v2", a, o, p, 0, deps, graph, v=lambda: [o.u, p.v != 0])
    d("cuStreamBeginCapture_v2", a, 0, say="again")
    d("cuEventRecord", x, a)
    d("cuStreamWaitEvent", b, x, 0)
    d("cuStreamIsCapturing", b, o, say="joined", v=lambda: o.u)
    d("cuStreamEndCapture", b, graph, say="of the joined stream")
    d("cuStreamIsCapturing", a, o, say="after that", v=lambda: o.u)
    d("cuStreamEndCapture", a, graph, say="not joined again", v=lambda: graph.v != 0, always=True)
    d("cuStreamIsCapturing", b, o, say="after end", v=lambda: o.u)
    d("cuStreamBeginCapture_v2", a, 0, say="second")
    d("cuEventRecord", x, a)
    d("cuStreamWaitEvent", b, x, 0)
    d("cuLaunchHostFunc", b, HOST_FUNCTION, 0)
    d("cuStreamEndCapture", a, graph, say="unjoined work", v=lambda: graph.v != 0, always=True)
    d("cuStreamIsCapturing", b, o, say="after unjoined", v=lambda: o.u)
    d("cuStreamBeginCapture_v2", a, 0, say="third")
    d("cuEventRecord", x, a)
    d("cuStreamWaitEvent", b, x, 0)
    d("cuLaunchHostFunc", b, HOST_FUNCTION, 0)
    d("cuEventRecord", y, b)
    d("cuStreamWaitEvent", a, y, 0)
    d("cuEventSynchronize", y, say="of the capture")
    d("cuStreamIsCapturing", a, o, say="after synchronizing", v=lambda: o.u)
    d("cuStreamEndCapture", a, graph, v=lambda: graph.v != 0, always=True)
    d("cuEventQuery", y, say="after the capture")
    d("cuStreamWaitEvent", a, y, 0, say="after the capture")
    d("cuStreamBeginCapture_v2", a, 2, say="relaxed")
    d("cuStreamEndCapture", a, graph, say="empty", v=lambda: graph.v != 0)
    d("cuGraphGetNodes", graph.v, 0, o, say="empty", v=lambda: o.v)
    d("cuStreamEndCapture", a, 0, say="to nowhere")
    mode = cell("I", 2)
    for value in (2, 1, 0, 5):
        mode = cell("I", value)
        d("cuThreadExchangeStreamCaptureMode", mode, say=str(value), v=lambda c=mode: c.u)
    d("cuStreamBeginCapture_v2", a, 0, say="to destroy")
    d("cuStreamDestroy_v2", a, say="captured")
    d("cuStreamBeginCaptureToGraph", b, 0, 0, 0, 0, 0, say="no graph")
    d("cuGraphCreate", o, 0)
    d("cuStreamBeginCaptureToGraph", b, o.v, 0, 0, 0, 0)
    d("cuStreamEndCapture", b, graph, say="to a graph", v=lambda: graph.v == o.v)


@unit
def graphs(d: Driver) -> None:
    d.context()
    o, p, q, r = Cell(256), Cell(64), Cell(64), Cell(256)
    memory, host = d.alloc(4096), Cell(4096)
    stream = d.stream()
    d("cuGraphCreate", o, 1, say="flags 1")
    d("cuGraphCreate", 0, 0, say="to nowhere")
    d("cuGraphCreate", o, 0)
    g = o.v
    d("cuGraphInstantiateWithFlags", p, g, 0, say="empty", v=lambda: p.v != 0)
    d("cuGraphLaunch", p.v, stream, say="empty")
    d("cuGraphAddEmptyNode", o, g, 0, 0)
    e = o.v
    d("cuGraphAddEmptyNode", o, g, cell("Q", e), 1, say="behind it")
    f = o.v
    d("cuGraphAddEmptyNode", o, g, 0, 1, say="no dependencies given")
    d("cuGraphAddHostNode", o, g, 0, 0, cell("QQ", HOST_FUNCTION, 0))
    h = o.v
    d("cuGraphAddHostNode", o, g, 0, 0, cell("QQ", 0, 0), say="null function")
    d("cuGraphAddHostNode", o, g, 0, 0, 0, say="no parameters")
    d("cuGraphAddMemsetNode", o, g, 0, 0, cell("QQIIQQ", memory, 0, 5, 1, 100, 1), 0, say="no context")
    context = Cell()
    d.quiet("cuCtxGetCurrent", context)
    for say, fields in (
        ("bytes", (memory, 0, 5, 1, 100, 1)), ("element 3", (memory, 0, 5, 3, 100, 1)), ("words at 1", (memory + 1, 0, 5, 4, 10, 1)), ("width 0", (memory, 0, 5, 1, 0, 1)), ("height 0", (memory, 0, 5, 1, 100, 0)), ("plane", (memory, 512, 5, 1, 100, 4)),
        ("pitch below width", (memory, 50, 5, 1, 100, 4)), ("null", (0, 0, 5, 1, 100, 1)), ("unknown", (0x700000000000, 0, 5, 1, 100, 1)), ("beyond", (memory, 0, 5, 1, 100 * MIB, 1)), ("value 999 in bytes", (memory, 0, 999, 1, 10, 1)),
    ):  # fmt: skip
        d("cuGraphAddMemsetNode", o, g, 0, 0, cell("QQIIQQ", *fields), context.v, say=say)
        if say == "bytes":
            m = o.v
            d("cuGraphMemsetNodeGetParams", m, r, v=lambda: r.all("QIIQQ", 8))
        elif d.quiet("cuGraphNodeGetType", o.v, q) == 0 and say != "plane":
            d.quiet("cuGraphDestroyNode", o.v) if o.v != m else None
    good = copy3d(
        skind=1,
        shost=host.address,
        dkind=2,
        ddevice=memory,
        spitch=100,
        dpitch=100,
        sheight=1,
        dheight=1,
        width=100,
        height=1,
        depth=1,
    )
    d("cuGraphAddMemcpyNode", o, g, 0, 0, good, context.v)
    c = o.v
    d("cuGraphMemcpyNodeGetParams", c, r, v=lambda: [r.get("Q", 176), r.get("Q", 184), r.get("Q", 192)])
    d("cuGraphAddMemcpyNode", o, g, 0, 0, copy3d(), context.v, say="zeros")
    event = d.event()
    d("cuGraphAddEventRecordNode", o, g, 0, 0, event)
    d("cuGraphAddEventWaitNode", q, g, cell("Q", o.v), 1, event)
    d("cuGraphAddEventRecordNode", q, g, 0, 0, 0, say="null")
    for name, node in (("empty", e), ("host", h), ("memset", m), ("memcpy", c), ("event", o.v)):
        d("cuGraphNodeGetType", node, q, say=name, v=lambda: q.u)
    d("cuGraphAddDependencies", g, cell("Q", e), cell("Q", h), 1)
    d("cuGraphAddDependencies", g, cell("Q", e), cell("Q", h), 1, say="again")
    d("cuGraphAddDependencies", g, cell("Q", e), cell("Q", e), 1, say="to itself")
    d("cuGraphAddDependencies", g, cell("Q", f), cell("Q", e), 1, say="a cycle")
    d("cuGraphInstantiateWithFlags", p, g, 0, say="with a cycle")
    d("cuGraphRemoveDependencies", g, cell("Q", f), cell("Q", e), 1, say="the cycle")
    d("cuGraphRemoveDependencies", g, cell("Q", f), cell("Q", m), 1, say="not there")
    for name in ("cuGraphGetNodes", "cuGraphGetRootNodes"):
        d(name, g, 0, q, v=lambda: q.v)
        room = cell("Q", 2)
        d(name, g, r, room, say="2 places", v=lambda c=room: c.v)
        room = cell("Q", 20)
        d(name, g, r, room, say="20 places", v=lambda c=room: [c.v, r.all("20Q")[c.v :] == [0] * (20 - c.v)])
    d("cuGraphGetEdges", g, 0, 0, q, v=lambda: q.v)
    d("cuGraphNodeGetDependencies", h, 0, q, v=lambda: q.v)
    d("cuGraphNodeGetDependentNodes", e, 0, q, v=lambda: q.v)
    for flags in (0, 1, 2, 4, 8, 16, 32):
        p.memory.raw = b"\0" * 64
        d("cuGraphInstantiateWithFlags", p, g, flags, say=str(flags), v=lambda: p.v != 0)
        if p.v:
            d("cuGraphExecGetFlags", p.v, q, say=str(flags), v=lambda: q.v)
            d.quiet("cuGraphExecDestroy", p.v)
    d("cuGraphInstantiateWithFlags", p, g, 0)
    exe = p.v
    d("cuGraphUpload", exe, stream)
    d("cuGraphLaunch", exe, stream)
    d("cuGraphLaunch", exe, 0, say="null stream")
    d("cuGraphLaunch", 0, stream, say="null")
    d("cuStreamSynchronize", stream)
    d("cuGraphClone", o, g)
    clone = o.v
    d("cuGraphNodeFindInClone", q, m, clone, v=lambda: q.v not in (0, m))
    d("cuGraphExecUpdate_v2", exe, clone, r, v=lambda: r.u)
    d("cuGraphExecMemsetNodeSetParams", exe, m, cell("QQIIQQ", memory, 0, 6, 1, 50, 1), context.v)
    d("cuGraphExecMemsetNodeSetParams", exe, m, cell("QQIIQQ", memory, 512, 6, 1, 50, 4), context.v, say="a plane")
    d("cuGraphExecMemcpyNodeSetParams", exe, c, good, context.v)
    d("cuGraphExecHostNodeSetParams", exe, h, cell("QQ", HOST_FUNCTION, 1))
    d("cuGraphMemsetNodeSetParams", m, cell("QQIIQQ", memory, 0, 6, 1, 60, 1))
    d("cuGraphNodeSetEnabled", exe, m, 0)
    d("cuGraphNodeGetEnabled", exe, m, q, v=lambda: q.u)
    d("cuGraphNodeSetEnabled", exe, h, 0, say="host node")
    d("cuGraphNodeFindInClone", q, e, clone)
    d("cuGraphDestroyNode", q.v)
    d("cuGraphExecUpdate_v2", exe, clone, r, say="a node less", v=lambda: r.u, always=True)
    d("cuGraphAddChildGraphNode", o, g, 0, 0, clone)
    d("cuGraphChildGraphNodeGetGraph", o.v, q, v=lambda: q.v not in (0, clone))
    d("cuGraphAddChildGraphNode", o, g, 0, 0, g, say="itself")
    d("cuGraphExecUpdate_v2", exe, g, r, say="a node more", v=lambda: r.u, always=True)
    d("cuGraphKernelNodeGetParams_v2", m, r, say="of a memset")
    d("cuGraphHostNodeGetParams", h, r, v=lambda: r.v == HOST_FUNCTION)
    d("cuGraphHostNodeGetParams", m, r, say="of a memset")
    d("cuGraphMemcpyNodeGetParams", e, r, say="of an empty node")
    d("cuGraphGetId", g, q, v=lambda: q.u > 0)
    d("cuGraphDebugDotPrint", g, b"/dev/null", 0)
    d("cuUserObjectCreate", q, 0, HOST_FUNCTION, 2, 1)
    user = q.v
    d("cuUserObjectCreate", r, 0, HOST_FUNCTION, 0, 1, say="0 references")
    d("cuUserObjectCreate", r, 0, HOST_FUNCTION, 1, 0, say="flags 0")
    d("cuGraphRetainUserObject", g, user, 1, 1, say="moved")
    d("cuGraphRetainUserObject", g, user, 1, 0)
    d("cuGraphReleaseUserObject", g, user, 1)
    d("cuUserObjectRelease", user, 1)
    d("cuGraphDestroyNode", h)
    d("cuGraphDestroy", g)
    d("cuGraphLaunch", exe, stream, say="after its graph")
    d("cuStreamSynchronize", stream)
    d("cuGraphExecDestroy", exe)
    d("cuGraphExecDestroy", 0, say="null")
    d("cuGraphDestroy", 0, say="null")


@unit
def graph_memory(d: Driver) -> None:
    d.context()
    o, p, q = Cell(64), Cell(64), Cell(64)
    stream = d.stream()

    def look(say: str) -> None:
        for attribute in range(4):
            d("cuDeviceGetGraphMemAttribute", 0, attribute, o, say=f"{attribute} {say}", v=lambda: o.v)

    def wanted(size: int, device: int = 0) -> Cell:
        properties = pool_props(device=device).memory.raw[:88]
        return Cell(120, properties + cell("QQQQ", 0, 0, size, 0).memory.raw[:32])

    look("at first")
    d("cuGraphCreate", o, 0)
    g = o.v
    for say, parameters in (("0 bytes", wanted(0)), ("device 1", wanted(100, 1)), ("large", wanted(1 << 45))):
        d("cuGraphAddMemAllocNode", o, g, 0, 0, parameters, say=say)
    d("cuGraphDestroy", g, say="with wrong nodes")
    d("cuGraphCreate", o, 0)
    g = o.v
    parameters = wanted(3 * MIB)
    d("cuGraphAddMemAllocNode", o, g, 0, 0, parameters, v=lambda: alignment(parameters.get("Q", 112)))
    node, pointer = o.v, parameters.get("Q", 112)
    look("with a node")
    d("cuGraphMemAllocNodeGetParams", node, Cell(120))
    d("cuMemFree_v2", pointer, say="of a graph")
    d("cuPointerGetAttribute", o, 2, pointer, say="of a graph", v=lambda: o.u)
    d("cuGraphClone", p, g)
    d("cuGraphInstantiateWithFlags", p, g, 0, v=lambda: p.v != 0)
    exe = p.v
    d("cuGraphInstantiateWithFlags", q, g, 0, say="twice", v=lambda: q.v != 0)
    look("instantiated")
    d("cuGraphLaunch", exe, stream)
    d("cuStreamSynchronize", stream)
    look("launched")
    d("cuGraphLaunch", exe, stream, say="again, not freed")
    d("cuMemsetD8_v2", pointer, 1, 100)
    d("cuMemFreeAsync", pointer, stream)
    d("cuMemFreeAsync", pointer, stream, say="again")
    d("cuStreamSynchronize", stream)
    look("freed")
    d("cuDeviceGraphMemTrim", 0)
    look("trimmed")
    d("cuGraphLaunch", exe, stream, say="again")
    d("cuStreamSynchronize", stream)
    d("cuMemFree_v2", pointer, say="after a launch")
    d("cuGraphExecDestroy", exe)
    d("cuGraphDestroy", g)
    look("destroyed")
    d("cuGraphCreate", o, 0)
    g = o.v
    parameters = wanted(MIB)
    d("cuGraphAddMemAllocNode", o, g, 0, 0, parameters, say="to free")
    d("cuGraphAddMemFreeNode", p, g, 0, 0, parameters.get("Q", 112), say="not behind it")
    d("cuGraphAddMemFreeNode", p, g, cell("Q", o.v), 1, parameters.get("Q", 112))
    d("cuGraphAddMemFreeNode", q, g, cell("Q", o.v), 1, parameters.get("Q", 112), say="again")
    d("cuGraphDestroyNode", p.v)
    d("cuGraphClone", q, g, say="with memory")
    d("cuGraphInstantiateWithFlags", p, g, 1, say="free on launch")
    for _ in range(3):
        d("cuGraphLaunch", p.v, stream)
    d("cuStreamSynchronize", stream)
    look("three launches")
    for attribute in range(5):
        d("cuDeviceSetGraphMemAttribute", 0, attribute, cell("Q", 0), say=f"{attribute} 0")
        d("cuDeviceSetGraphMemAttribute", 0, attribute, cell("Q", 5), say=f"{attribute} 5")
    look("set to 0")
    # Captured.
    d("cuStreamBeginCapture_v2", stream, 2)
    d("cuMemAllocAsync", o, 5 * MIB, stream, say="captured", v=lambda: alignment(o.v))
    taken = o.v
    d("cuMemAllocAsync", o, 100, stream, say="captured second", v=lambda: alignment(o.v))
    d("cuMemsetD8Async", taken, 1, 100, stream)
    d("cuMemFreeAsync", taken, stream)
    d("cuMemFreeAsync", taken, stream, say="captured twice")
    d("cuStreamEndCapture", stream, q, v=lambda: q.v != 0, always=True)
    d("cuGraphInstantiateWithFlags", p, q.v, 0)
    d("cuGraphLaunch", p.v, stream)
    d("cuStreamSynchronize", stream)
    look("captured")


@unit
def modules(d: Driver) -> None:
    d.context()
    o, p, q = Cell(64), Cell(64), Cell(64)
    for say, image in (("empty", b""), ("text", b"nothing of the kind"), ("elf magic", b"\x7fELF" + bytes(60)), ("fatbin magic", b"\x50\xed\x55\xba" + bytes(60)), ("ptx, wrong", b".version 7.0\n.target sm_70\n.address_size 64\nnonsense;\n\0"), ("ptx, newer card", PTX.replace(b"sm_70", b"sm_120")), ("ptx, version 99", PTX.replace(b"7.0", b"99.0"))):  # fmt: skip
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
        d("cuOccupancyMaxActiveBlocksPerMultiprocessor", o, bounded, block, shared, say=f"bounded {block} {shared}", v=lambda: o.i)
        d("cuOccupancyAvailableDynamicSMemPerBlock", o, f, 1, block, say=f"{block}", v=lambda: o.v)
    for limit in (0, 100, 2000):
        d("cuOccupancyMaxPotentialBlockSize", p, q, f, 0, 0, limit, say=str(limit), v=lambda: [p.u, q.u])
    stream = d.stream()
    memory = d.alloc(64)
    value = cell("QI", memory, 4242)
    arguments = cell("QQ", value.address, value.address + 8)
    for say, dims in (
        ("one", (1, 1, 1, 1, 1, 1)), ("grid 0", (0, 1, 1, 1, 1, 1)), ("block 0", (1, 1, 1, 0, 1, 1)), ("block 1024", (1, 1, 1, 1024, 1, 1)), ("block 1025", (1, 1, 1, 1025, 1, 1)), ("block 32x32", (1, 1, 1, 32, 32, 1)), ("block 32x33", (1, 1, 1, 32, 33, 1)),
        ("block z 64", (1, 1, 1, 1, 1, 64)), ("block z 65", (1, 1, 1, 1, 1, 65)), ("grid y 65535", (1, 65535, 1, 1, 1, 1)), ("grid y 65536", (1, 65536, 1, 1, 1, 1)), ("grid z 65536", (1, 1, 65536, 1, 1, 1)), ("grid x 2^31", (1 << 31, 1, 1, 1, 1, 1)),
    ):  # fmt: skip
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
    d("cuGraphAddKernelNode_v2", q, g, 0, 0, cell("Q3I3IIIQQQQ", f, 1, 1, 1, 1025, 1, 1, 0, 0, 0, 0, 0, 0), say="block 1025")
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
    import struct

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


@unit
def fork_after_init(d: Driver) -> None:
    context = d.context()
    pointer = d.alloc(100)
    o, p = Cell(512), Cell(64)
    child = os.fork()
    if child == 0:
        for name, given in (
            ("cuInit", (0,)), ("cuDriverGetVersion", (o,)), ("cuDeviceGetCount", (o,)), ("cuDeviceGet", (o, 0)), ("cuDeviceGetName", (o, 100, 0)), ("cuCtxGetCurrent", (o,)), ("cuCtxSetCurrent", (context,)), ("cuMemAlloc_v2", (o, 100)), ("cuMemFree_v2", (pointer,)),
            ("cuCtxSynchronize", ()), ("cuMemGetInfo_v2", (o, p)), ("cuDevicePrimaryCtxRetain", (o, 0)), ("cuPointerGetAttribute", (o, 2, pointer)), ("cuStreamCreate", (o, 0)), ("cuGetErrorName", (3, o)), ("cuDeviceGetAttribute", (o, 16, 0)), ("cuDevicePrimaryCtxGetState", (0, o, p)),
            ("cuGetProcAddress_v2", (b"cuInit", o, 12000, 0, p)),
        ):  # fmt: skip
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


@unit
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


@unit
def green(d: Driver) -> None:
    context = d.context()
    o, p, q = Cell(256), Cell(256), Cell(64)
    whole = Cell(256)
    d("cuDeviceGetDevResource", 0, whole, 1, v=lambda: [whole.u, whole.get("I", 96), whole.get("I", 100), whole.get("I", 104)])
    rest = Cell(256)
    for least in (0, 8, 16, 100, 132, 133, 1000):
        count = cell("I", 1)
        d(
            "cuDevSmResourceSplitByCount",
            o,
            count,
            whole,
            rest,
            0,
            least,
            say=str(least),
            v=lambda c=count: [c.u, o.get("I", 96), rest.get("I", 96)],
        )
    count = cell("I", 0)
    d("cuDevSmResourceSplitByCount", 0, count, whole, 0, 0, 8, say="how many", v=lambda: count.u)
    d("cuDevSmResourceSplitByCount", o, cell("I", 1), whole, rest, 0, 16)
    d("cuDevResourceGenerateDesc", p, o, 1)
    d("cuDevResourceGenerateDesc", q, o, 0, say="none")
    for flags in (0, 1):
        d("cuGreenCtxCreate", q, p.v, 0, flags, say=str(flags), v=lambda: q.v != 0)
    green = q.v
    d("cuCtxFromGreenCtx", o, green)
    d("cuCtxSetCurrent", o.v, say="green")
    d("cuCtxGetDevice", p, v=lambda: p.u)
    d("cuMemAlloc_v2", p, 100)
    d("cuStreamCreate", p, 0, say="flags 0")
    d("cuStreamCreate", p, 1, say="flags 1")
    d("cuCtxSetCurrent", context)
    d("cuGreenCtxStreamCreate", p, green, 1, 0, v=lambda: p.v != 0)
    stream = p.v
    d("cuGreenCtxStreamCreate", p, green, 0, 0, say="flags 0")
    d("cuStreamGetGreenCtx", stream, p, v=lambda: p.v == green)
    d("cuStreamGetCtx_v2", stream, p, q, v=lambda: [p.v != 0, q.v == green])
    d("cuStreamGetGreenCtx", d.stream(), p, say="of a plain stream", v=lambda: p.v)
    d("cuGreenCtxGetDevResource", green, o, 1, v=lambda: o.get("I", 96))
    d("cuGreenCtxGetId", green, o)
    event = d.event()
    d("cuGreenCtxRecordEvent", green, event)
    d("cuGreenCtxWaitEvent", green, event)
    d("cuCtxRecordEvent", context, event)
    d("cuCtxWaitEvent", context, event)
    d("cuStreamDestroy_v2", stream)
    d("cuGreenCtxDestroy", green)
    d("cuGreenCtxDestroy", 0, say="null")


@unit
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
        n(f"nvmlDeviceGetComputeRunningProcesses{version}", handle, count, room, v=lambda c=count, r=room: own_process(c.u, r))
    d.note("own", own)


def own_process(count: int, room: Cell) -> object:
    """Return whether this process is in the list, and what is known of its memory."""
    for form, size in (("IxxxxQII", 24), ("IxxxxQ", 16)):
        rows = [room.all(form, at=number * size) for number in range(count)]
        for row in rows:
            if row[0] == os.getpid():
                return [True, row[1] > 100 * MIB, row[1] >= 1 << 63, *row[2:]]
    return [False]


@unit
def more_of_graphs(d: Driver) -> None:
    d.context()
    o, p, q, r = Cell(512), Cell(64), Cell(64), Cell(512)
    context, module, function = Cell(), Cell(), Cell()
    d.quiet("cuCtxGetCurrent", context)
    d.quiet("cuModuleLoadData", module, PTX)
    d.quiet("cuModuleGetFunction", function, module.v, b"nothing")
    memory, stream, a, b = d.alloc(4096), d.stream(), d.event(), d.event()
    d.quiet("cuGraphCreate", o, 0)
    g = o.v
    parameters = cell("Q3I3IIIQQQQ", function.v, 2, 1, 1, 32, 1, 1, 0, 0, 0, 0, 0, 0)
    d("cuGraphAddKernelNode_v2", o, g, 0, 0, parameters)
    k = o.v
    d("cuGraphAddKernelNode_v2", o, g, cell("Q", k), 1, parameters, say="second")
    second = o.v
    d("cuGraphAddEventRecordNode", o, g, 0, 0, a)
    record = o.v
    d("cuGraphAddEventWaitNode", o, g, 0, 0, a)
    wait = o.v
    d("cuGraphAddMemsetNode", o, g, 0, 0, cell("QQIIQQ", memory, 0, 5, 1, 100, 1), context.v)
    memset = o.v
    d("cuGraphEventRecordNodeGetEvent", record, q, v=lambda: q.v == a)
    d("cuGraphEventRecordNodeSetEvent", record, b)
    d("cuGraphEventRecordNodeGetEvent", record, q, say="set", v=lambda: q.v == b)
    d("cuGraphEventWaitNodeGetEvent", wait, q, v=lambda: q.v == a)
    d("cuGraphEventWaitNodeSetEvent", wait, b)
    d("cuGraphEventRecordNodeGetEvent", k, q, say="of a kernel")
    for number in range(1, 20):
        d("cuGraphKernelNodeGetAttribute", k, number, Cell(256), say=str(number))
        d("cuGraphKernelNodeSetAttribute", k, number, Cell(256), say=f"{number} zeros")
    d("cuGraphKernelNodeCopyAttributes", k, second)
    d("cuGraphKernelNodeSetParams_v2", k, cell("Q3I3IIIQQQQ", function.v, 3, 1, 1, 64, 1, 1, 0, 0, 0, 0, 0, 0))
    d("cuGraphKernelNodeGetParams_v2", k, r, v=lambda: r.all("3I3II", 8))
    d("cuGraphKernelNodeSetParams_v2", k, cell("Q3I3IIIQQQQ", function.v, 3, 1, 1, 2000, 1, 1, 0, 0, 0, 0, 0, 0), say="block 2000")
    d("cuGraphNodeGetContainingGraph", k, q, v=lambda: q.v == g)
    d("cuGraphNodeGetLocalId", k, q, v=lambda: q.u)
    d("cuGraphNodeGetLocalId", memset, q, say="memset", v=lambda: q.u)
    d("cuGraphNodeGetToolsId", k, q, v=lambda: q.v != 0)
    d("cuGraphInstantiateWithFlags", p, g, 0)
    exe = p.v
    d("cuGraphExecGetId", exe, q)
    d("cuGraphExecKernelNodeSetParams_v2", exe, k, cell("Q3I3IIIQQQQ", function.v, 4, 1, 1, 96, 1, 1, 0, 0, 0, 0, 0, 0))
    d("cuGraphExecKernelNodeSetParams_v2", exe, memset, parameters, say="of a memset")
    d("cuGraphExecEventRecordNodeSetEvent", exe, record, a)
    d("cuGraphExecEventWaitNodeSetEvent", exe, wait, a)
    d("cuGraphLaunch", exe, stream)
    d("cuStreamSynchronize", stream)
    d("cuEventQuery", a)
    # The form of later versions: a type and its parameters.
    for kind in (2, 5, 0, 20):
        d("cuGraphAddNode_v2", o, g, 0, 0, 0, cell("I", kind, size=256), say=f"kind {kind} of zeros")
    empty = cell("I", 5, size=256)
    d("cuGraphAddNode_v2", o, g, 0, 0, 0, empty, say="empty")
    d("cuGraphInstantiateWithParams", p, g, out := cell("QQQI", 0, 0, 0, 0, size=64), v=lambda: [p.v != 0, out.get("I", 24)])
    d("cuGraphInstantiateWithParams", p, g, cell("QQQI", 99 << 8, 0, 0, 0, size=64), say="flags 99")
    d("cuGraphInstantiateWithParams", p, g, cell("QQQI", 2, stream, 0, 0, size=64), say="uploaded")
    d("cuGraphInstantiate_v2", p, g, q, o, 100)
    # Dependencies of a capture.
    d("cuStreamBeginCapture_v2", stream, 2)
    d("cuLaunchKernel", function.v, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)
    captured, nodes, count, state = Cell(), Cell(), Cell(), Cell()
    d("cuStreamGetCaptureInfo_v2", stream, state, q, captured, nodes, count, v=lambda: [state.u, captured.v != 0, count.v])
    d("cuStreamGetCaptureInfo_v3", stream, state, q, captured, nodes, 0, count, v=lambda: [state.u, captured.v != 0, count.v])
    d("cuGraphAddEmptyNode", o, captured.v, 0, 0, say="during a capture")
    d("cuStreamUpdateCaptureDependencies", stream, o, 1, 1, say="set")
    d("cuStreamUpdateCaptureDependencies", stream, o, 1, 0, say="add")
    d("cuStreamUpdateCaptureDependencies_v2", stream, o, 0, 1, 1, say="set")
    d("cuStreamUpdateCaptureDependencies", stream, o, 1, 5, say="flags 5")
    d("cuStreamGetCaptureInfo_v2", stream, state, q, captured, nodes, count, say="set", v=lambda: count.v)
    d("cuLaunchKernel", function.v, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0, say="behind it")
    d("cuLaunchKernel", function.v, 1, 1, 1, 1025, 1, 1, 0, stream, 0, 0, say="block 1025, captured")
    d("cuStreamIsCapturing", stream, q, say="after that", v=lambda: q.u)
    d("cuStreamEndCapture", stream, q, v=lambda: q.v != 0, always=True)
    d("cuGraphGetNodes", q.v, 0, o, v=lambda: o.v)
    d("cuGraphGetEdges", q.v, 0, 0, o, v=lambda: o.v)
    d("cuGraphGetRootNodes", q.v, 0, o, v=lambda: o.v)
    d("cuUserObjectCreate", q, 0, HOST_FUNCTION, 1, 1)
    d("cuUserObjectRetain", q.v, 2)
    d("cuUserObjectRelease", q.v, 5, say="too many")
    d("cuUserObjectRetain", 0, 1, say="null")


@unit
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


@unit
def more_of_copies(d: Driver) -> None:
    context = d.context()
    o, host = Cell(64), Cell(1 << 16)
    a, b, stream = d.alloc(1 << 16), d.alloc(1 << 16), d.stream()
    d("cuMemcpyPeer", a, context, b, context, 100)
    d("cuMemcpyPeerAsync", a, context, b, context, 100, stream)
    d("cuMemcpyPeerAsync", a, context, b, context, 0, stream, say="0 bytes")
    plain = copy3d(
        skind=1, shost=host.address, spitch=64, sheight=4, dkind=2, ddevice=a, dpitch=64, dheight=4, width=64, height=4, depth=1
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
    d("cuMemcpyBatchAsync_v2", where, source, sizes, 2, cell("IIiIiI", 9, 1, 0, 1, 0, 0), first, 1, stream, say="order 9")
    d.quiet("cuMemAllocManaged", o, BLOCK, 1)
    d("cuMemPrefetchBatchAsync", cell("Q", o.v), cell("Q", BLOCK), 1, cell("Ii", 1, 0), first, 1, 0, stream)
    d("cuMemDiscardBatchAsync", cell("Q", o.v), cell("Q", BLOCK), 1, 0, stream)
    d("cuMemDiscardBatchAsync", cell("Q", a), cell("Q", 100), 1, 0, stream, say="device memory")
    d("cuStreamSynchronize", stream)


@unit
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
