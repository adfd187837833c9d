# SPDX-License-Identifier: Apache-2.0
"""Before cuInit, without a context, and contexts: the primary one, their stack, limits, and green ones."""

from answers import Cell, Driver, cell
from shapes import BLOCK, HOST_FUNCTION, PTX, access, alignment, pool_props, prop


def before_init(d: Driver) -> None:
    o, p = Cell(512), Cell(64)
    d("cuDriverGetVersion", o, v=lambda: o.u)
    d("cuDriverGetVersion", 0, say="to nowhere")
    calls: list[tuple[str, tuple[object, ...]]] = [
        ("cuDeviceGetCount", (o,)),
        ("cuDeviceGet", (o, 0)),
        ("cuCtxGetCurrent", (o,)),
        ("cuCtxSetCurrent", (0,)),
        ("cuMemAlloc_v2", (o, 100)),
        ("cuMemGetInfo_v2", (o, p)),
        ("cuStreamCreate", (o, 0)),
        ("cuEventCreate", (o, 0)),
        ("cuGetErrorName", (1, o)),
        ("cuDevicePrimaryCtxRetain", (o, 0)),
        ("cuPointerGetAttribute", (o, 1, 4096)),
        ("cuMemFree_v2", (0,)),
        ("cuStreamSynchronize", (0,)),
        ("cuCtxSynchronize", ()),
        ("cuModuleLoadData", (o, PTX)),
        ("cuMemcpy", (0, 0, 0)),
        ("cuMemHostAlloc", (o, 100, 0)),
        ("cuMemAddressReserve", (o, BLOCK, 0, 0, 0)),
        ("cuGraphCreate", (o, 0)),
        ("cuMemPoolCreate", (o, pool_props())),
        ("cuLibraryLoadData", (o, PTX, 0, 0, 0, 0, 0, 0)),
        ("cuProfilerStart", ()),
        ("cuThreadExchangeStreamCaptureMode", (o,)),
        ("cuDeviceGetName", (o, 100, 0)),
        ("cuModuleGetLoadingMode", (o,)),
        ("cuUserObjectCreate", (o, 0, HOST_FUNCTION, 1, 1)),
    ]
    for name, arguments in calls:
        d(name, *arguments)
    d("cuGetProcAddress_v2", b"cuInit", o, 12000, 0, p, v=lambda: p.i)
    for flags in (1, 2, 0x80000000):
        d("cuInit", flags, say=str(flags))
    d("cuInit", 0)
    d("cuInit", 0, say="again")
    d("cuInit", 1, say="1 afterwards")


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
        for name in ("cuCoredumpGetAttribute", "cuCoredumpGetAttributeGlobal"):
            room, size = Cell(1 << 16), cell("Q", 4096)
            d(name, attribute, room, size, say=str(attribute), v=lambda c=size: c.v)
    d("cuLogsCurrent", o, 0)
    d("cuLogsDumpToMemory", 0, Cell(4096), cell("Q", 4096), 0)
    d("cuLogsRegisterCallback", HOST_FUNCTION, 0, o)
    d("cuLogsUnregisterCallback", o.v)
    d("cuLogsUnregisterCallback", 0, say="none")


def green(d: Driver) -> None:
    context = d.context()
    o, p, q = Cell(256), Cell(256), Cell(64)
    whole = Cell(256)
    d(
        "cuDeviceGetDevResource",
        0,
        whole,
        1,
        v=lambda: [whole.u, whole.get("I", 96), whole.get("I", 100), whole.get("I", 104)],
    )
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
