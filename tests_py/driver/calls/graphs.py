# SPDX-License-Identifier: Apache-2.0
"""Graphs that are made node by node, and their memory."""

from answers import Cell, Driver, cell
from copies import copy3d
from shapes import HOST_FUNCTION, MIB, PTX, alignment, pool_props


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
        ("bytes", (memory, 0, 5, 1, 100, 1)),
        ("element 3", (memory, 0, 5, 3, 100, 1)),
        ("words at 1", (memory + 1, 0, 5, 4, 10, 1)),
        ("width 0", (memory, 0, 5, 1, 0, 1)),
        ("height 0", (memory, 0, 5, 1, 100, 0)),
        ("plane", (memory, 512, 5, 1, 100, 4)),
        ("pitch below width", (memory, 50, 5, 1, 100, 4)),
        ("null", (0, 0, 5, 1, 100, 1)),
        ("unknown", (0x700000000000, 0, 5, 1, 100, 1)),
        ("beyond", (memory, 0, 5, 1, 100 * MIB, 1)),
        ("value 999 in bytes", (memory, 0, 999, 1, 10, 1)),
    ):
        o.memory.raw = bytes(256)
        d("cuGraphAddMemsetNode", o, g, 0, 0, cell("QQIIQQ", *fields), context.v, say=say)
        if say == "bytes":
            m = o.v
            d("cuGraphMemsetNodeGetParams", m, r, v=lambda: r.all("QIIQQ", 8))
        elif o.v and say != "plane":
            d.quiet("cuGraphDestroyNode", o.v)
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
    r.memory.raw = bytes(256)
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
    d(
        "cuGraphKernelNodeSetParams_v2",
        k,
        cell("Q3I3IIIQQQQ", function.v, 3, 1, 1, 2000, 1, 1, 0, 0, 0, 0, 0, 0),
        say="block 2000",
    )
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
    d(
        "cuGraphInstantiateWithParams",
        p,
        g,
        out := cell("QQQI", 0, 0, 0, 0, size=64),
        v=lambda: [p.v != 0, out.get("I", 24)],
    )
    d("cuGraphInstantiateWithParams", p, g, cell("QQQI", 99 << 8, 0, 0, 0, size=64), say="flags 99")
    d("cuGraphInstantiateWithParams", p, g, cell("QQQI", 2, stream, 0, 0, size=64), say="uploaded")
    d("cuGraphInstantiate_v2", p, g, q, o, 100)
    # Dependencies of a capture.
    d("cuStreamBeginCapture_v2", stream, 2)
    d("cuLaunchKernel", function.v, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)
    captured, nodes, count, state = Cell(), Cell(), Cell(), Cell()
    d(
        "cuStreamGetCaptureInfo_v2",
        stream,
        state,
        q,
        captured,
        nodes,
        count,
        v=lambda: [state.u, captured.v != 0, count.v],
    )
    d(
        "cuStreamGetCaptureInfo_v3",
        stream,
        state,
        q,
        captured,
        nodes,
        0,
        count,
        v=lambda: [state.u, captured.v != 0, count.v],
    )
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
