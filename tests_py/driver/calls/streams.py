# SPDX-License-Identifier: Apache-2.0
"""Streams and events."""

from answers import Cell, Driver, cell
from shapes import HOST_FUNCTION, STREAM_CALLBACK


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
        d(
            "cuStreamGetAttribute",
            stream,
            attribute,
            room,
            say=str(attribute),
            v=lambda c=room: c.all("4I") if 0 else None,
        )
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
    d.settled(stream)
    d("cuStreamQuery", stream)
    d("cuStreamSynchronize", stream)
    d("cuMemcpyDtoH_v2", q, word, 8, v=lambda: q.v)
    d("cuStreamDestroy_v2", stream)


def stream_gone(d: Driver) -> None:
    d.context()
    o = Cell(64)
    stream = d.stream()
    d.quiet("cuStreamDestroy_v2", stream)
    d("cuStreamQuery", stream, say="destroyed")
    d("cuStreamGetFlags", stream, o, say="destroyed")
    d("cuStreamSynchronize", stream, say="destroyed")
    d("cuStreamDestroy_v2", stream, say="destroyed")


def event_gone(d: Driver) -> None:
    d.context()
    event = d.event()
    d.quiet("cuEventDestroy_v2", event)
    d("cuEventQuery", event, say="destroyed")
    d("cuEventSynchronize", event, say="destroyed")
    d("cuEventRecord", event, 0, say="destroyed")
    d("cuEventDestroy_v2", event, say="destroyed")


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
