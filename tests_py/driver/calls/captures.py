# SPDX-License-Identifier: Apache-2.0
"""What may be called while a stream is captured, in each mode."""

from collections.abc import Callable

from answers import Cell, Driver, cell
from shapes import BLOCK, HOST_FUNCTION, PTX, STREAM_CALLBACK, prop


def capture_calls(
    d: Driver, stream: int, other: int, event: int, context: int
) -> list[tuple[str, str, tuple[object, ...]]]:
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
        ("cuMemAlloc_v2", "", (o, 100)),
        ("cuMemFree_v2", "", (d.alloc(100),)),
        ("cuMemHostAlloc", "", (o, 100, 0)),
        ("cuMemAllocManaged", "", (o, 100, 1)),
        ("cuStreamCreate", "", (o, 1)),
        ("cuStreamDestroy_v2", "other", (d.stream(),)),
        ("cuEventCreate", "", (o, 0)),
        ("cuEventQuery", "recorded elsewhere", (recorded,)),
        ("cuEventSynchronize", "recorded elsewhere", (recorded,)),
        ("cuEventRecord", "captured stream", (event, stream)),
        ("cuEventQuery", "captured", (event,)),
        ("cuEventSynchronize", "captured", (event,)),
        ("cuEventElapsedTime", "captured", (o, event, event)),
        ("cuStreamQuery", "captured", (stream,)),
        ("cuStreamSynchronize", "captured", (stream,)),
        ("cuStreamSynchronize", "other", (other,)),
        ("cuStreamQuery", "other", (other,)),
        ("cuStreamSynchronize", "null", (0,)),
        ("cuStreamQuery", "null", (0,)),
        ("cuCtxSynchronize", "", ()),
        ("cuMemcpyHtoD_v2", "", (memory, host, 100)),
        ("cuMemcpyHtoDAsync_v2", "captured", (memory, pinned.v, 100, stream)),
        ("cuMemcpyHtoDAsync_v2", "captured, pageable", (memory, host, 100, stream)),
        ("cuMemcpyDtoHAsync_v2", "captured, pageable", (host, memory, 100, stream)),
        ("cuMemcpyHtoDAsync_v2", "other", (memory, pinned.v, 100, other)),
        ("cuMemcpyHtoDAsync_v2", "null", (memory, pinned.v, 100, 0)),
        ("cuMemsetD8_v2", "", (memory, 1, 100)),
        ("cuMemsetD8Async", "captured", (memory, 1, 100, stream)),
        ("cuMemsetD8Async", "other", (memory, 1, 100, other)),
        ("cuMemsetD8Async", "null", (memory, 1, 100, 0)),
        ("cuMemcpyDtoD_v2", "", (memory, memory + 2048, 100)),
        ("cuMemAllocAsync", "captured", (o, 100, stream)),
        ("cuMemAllocAsync", "other", (o, 100, other)),
        ("cuMemFreeAsync", "captured", (d.alloc(100), stream)),
        ("cuMemPoolTrimTo", "", (pool.v, 0)),
        ("cuMemGetInfo_v2", "", (o, p)),
        ("cuCtxGetLimit", "", (o, 0)),
        ("cuCtxSetLimit", "", (0, 1024)),
        ("cuStreamWaitEvent", "captured, recorded elsewhere", (stream, recorded, 0)),
        ("cuStreamWaitEvent", "captured, external", (stream, recorded, 1)),
        ("cuStreamWaitEvent", "captured, own event", (stream, event, 0)),
        ("cuEventRecordWithFlags", "captured, external", (recorded, stream, 1)),
        ("cuStreamAddCallback", "captured", (stream, STREAM_CALLBACK, 0, 0)),
        ("cuLaunchHostFunc", "captured", (stream, HOST_FUNCTION, 0)),
        ("cuStreamBeginCapture_v2", "captured", (stream, 0)),
        ("cuStreamGetCaptureInfo_v2", "captured", (stream, o, p, 0, 0, q)),
        ("cuModuleLoadData", "", (o, PTX)),
        ("cuPointerGetAttribute", "", (o, 2, memory)),
        ("cuMemGetAddressRange_v2", "", (o, p, memory)),
        ("cuMemCreate", "", (o, BLOCK, prop(), 0)),
        ("cuMemAddressReserve", "", (o, BLOCK, 0, 0, 0)),
        ("cuMemHostRegister_v2", "", (Cell(8192), 8192, 0)),
        ("cuArrayCreate_v2", "", (o, cell("QQII", 16, 0, 8, 1))),
        ("cuCtxCreate_v2", "", (o, 0, 0)),
        ("cuCtxSetCurrent", "", (context,)),
        ("cuIpcGetMemHandle", "", (o, memory)),
        ("cuStreamGetFlags", "captured", (stream, o)),
        ("cuEventDestroy_v2", "", (d.event(),)),
        ("cuGraphCreate", "", (o, 0)),
        ("cuStreamAttachMemAsync", "captured", (stream, memory, 0, 1)),
        ("cuStreamWriteValue32_v2", "captured", (stream, memory, 1, 0)),
        ("cuProfilerStart", "", ()),
        ("cuDeviceGetAttribute", "", (o, 1, 0)),
        ("cuDeviceGraphMemTrim", "", (0,)),
        ("cuDevicePrimaryCtxRetain", "", (o, 0)),
        ("cuMemFreeHost", "", (0,)),
        ("cuMemAllocPitch_v2", "", (o, p, 100, 10, 4)),
        ("cuStreamDestroy_v2", "captured", (stream,)),
    ]


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
                    capture_calls(d, stream, other, event, context)[number]
                    if number % 6 == 0
                    else (name, say, arguments)
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
                    d("cuGraphGetNodes", graph.v, 0, nodes, say=f"after {name} {say}", v=lambda c=nodes: c.v)
                    d.quiet("cuGraphDestroy", graph.v)
            d.quiet("cuCtxSetCurrent", context)

    return run


capture_0, capture_1, capture_2 = map(captures, range(3))


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
