# SPDX-License-Identifier: Apache-2.0
"""Random programs of calls. A seed gives the same program on every driver, whatever it answers.

Their arguments are valid, or wrong in ways that a driver is documented to check. No memory is used that another
allocation may have got, so that what a program reads depends on nothing but its own calls.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from answers import Cell, Driver
from shapes import BLOCK, HOST_FUNCTION, MIB, access, pool_props, prop

CALLS = 60
THEMES = (
    ("allocate", "release", "write", "copy", "read"),
    ("reserve", "create", "virtual", "whole_range"),
    ("capture", "end_capture", "use_graph", "whole_capture"),
    ("new_pool", "use_pool", "allocate", "release"),
    ("new_stream", "look_at_stream", "use_event", "elapsed", "contexts"),
)
SIZES = (1, 4, 100, 512, 1000, 4096, 65536, 100_000, MIB, MIB + 4, BLOCK, 3 * MIB, 10_000_000, 32 * MIB)
OPERATIONS: list[tuple[int, Callable[[Program], None]]] = []


class Memory:
    """A live piece of device memory."""

    def __init__(self, pointer: int, size: int, kind: str) -> None:
        self.pointer, self.size, self.kind = pointer, size, kind


class Program:
    """What a program has made so far. What a call did not give is 0."""

    def __init__(self, descriptor: int, seed: int) -> None:
        self.d, self.random = Driver(descriptor), random.Random(seed)
        self.context = self.d.context()
        self.streams, self.events, self.graphs, self.execs = [0], [0], [0], [0]
        self.pools, self.handles, self.ranges = [0], [(0, 1)], [(0, 1)]
        self.memory: list[Memory] = [Memory(0, 64, "null")]
        self.out, self.more, self.host, self.pinned = Cell(64), Cell(64), Cell(1 << 16), Cell()
        self.d.quiet("cuMemHostAlloc", self.pinned, 1 << 16, 0)
        self.capturing: set[int] = set()  # streams whose capture this program began, whatever a driver says
        self.default = 0
        self.sizes: dict[int, int] = {}  # of the first mapping of each range, in blocks

    def number(self, values: list[object]) -> int:
        """Choose a slot, rarely the one of nothing."""
        return (
            self.random.randrange(len(values))
            if self.random.random() < 0.1 or len(values) == 1
            else self.random.randrange(1, len(values))
        )

    def stream(self) -> tuple[int, str]:
        """Choose a stream, and name it."""
        number = self.random.randrange(len(self.streams))
        return self.streams[number], f"s{number}"


def operation(weight: int) -> Callable[[Callable[[Program], None]], Callable[[Program], None]]:
    """Register an operation."""

    def register(function: Callable[[Program], None]) -> Callable[[Program], None]:
        OPERATIONS.append((weight, function))
        return function

    return register


@operation(3)
def new_stream(p: Program) -> None:
    p.out.memory.raw = bytes(64)
    p.d(
        "cuStreamCreateWithPriority",
        p.out,
        f := p.random.choice((0, 1, 1, 2)),
        q := p.random.choice((0, 0, -1, -9, 5)),
        say=f"{f} {q}",
    )
    p.streams.append(p.out.v)


@operation(1)
def end_stream(p: Program) -> None:
    number = p.number(p.streams)
    p.d("cuStreamDestroy_v2", p.streams[number], say=f"s{number}")
    p.streams[number] = 0


@operation(5)
def look_at_stream(p: Program) -> None:
    stream, say = p.stream()
    name = p.random.choice(
        (
            "cuStreamQuery",
            "cuStreamSynchronize",
            "cuStreamIsCapturing",
            "cuStreamGetFlags",
            "cuStreamGetPriority",
            "cuStreamGetCtx",
        )
    )
    if name == "cuStreamQuery":
        if p.d.quiet("cuStreamIsCapturing", stream, p.out) == 0 and p.out.u == 0 and stream > 2:
            p.d.quiet("cuStreamSynchronize", stream)  # else the answer depends on the time
            p.d(name, stream, say=say)
        return
    p.d(
        name,
        stream,
        *([] if name.endswith("ize") else [p.out]),
        say=say,
        v=lambda: None if name.endswith("ize") else p.out.i if name != "cuStreamGetCtx" else p.out.v == p.context,
    )


@operation(2)
def new_event(p: Program) -> None:
    p.out.memory.raw = bytes(64)
    p.d("cuEventCreate", p.out, f := p.random.choice((0, 1, 2, 3, 4, 6, 9)), say=str(f))
    p.events.append(p.out.v)


@operation(1)
def end_event(p: Program) -> None:
    number = p.number(p.events)
    p.d("cuEventDestroy_v2", p.events[number], say=f"e{number}")
    p.events[number] = 0


@operation(6)
def use_event(p: Program) -> None:
    number, (stream, say) = p.number(p.events), p.stream()
    event = p.events[number]
    p.random.choice(
        (
            lambda: p.d("cuEventRecord", event, stream, say=f"e{number} {say}"),
            lambda: p.d("cuStreamWaitEvent", stream, event, 0, say=f"{say} e{number}"),
            lambda: p.d("cuEventSynchronize", event, say=f"e{number}"),
        )
    )()


@operation(2)
def elapsed(p: Program) -> None:
    a, b = p.number(p.events), p.number(p.events)
    for number in (a, b):
        p.d("cuEventSynchronize", p.events[number], say=f"e{number} before elapsed")
    p.d("cuEventElapsedTime", p.out, p.events[a], p.events[b], say=f"e{a} e{b}")


@operation(6)
def allocate(p: Program) -> None:
    size = p.random.choice((*SIZES, 0, 1 << 44))
    kind = p.random.choice(("plain", "plain", "async", "async", "pool", "pitch"))
    stream, say = p.stream()
    p.out.memory.raw = bytes(64)
    if kind == "plain":
        p.d("cuMemAlloc_v2", p.out, size, say=str(size), v=lambda: p.out.v % 512)
    elif kind == "async":
        p.d("cuMemAllocAsync", p.out, size, stream, say=f"{size} {say}", v=lambda: p.out.v % 512)
    elif kind == "pool":
        number = p.number(p.pools)
        p.d(
            "cuMemAllocFromPoolAsync",
            p.out,
            size,
            p.pools[number],
            stream,
            say=f"{size} p{number} {say}",
            v=lambda: p.out.v % 512,
        )
    else:
        width, height = p.random.choice((1, 100, 512, 1000)), p.random.choice((0, 1, 5))
        p.d("cuMemAllocPitch_v2", p.out, p.more, width, height, 4, say=f"{width} {height}", v=lambda: p.more.v)
        size = width
    p.memory.append(Memory(p.out.v, size if p.out.v else 64, kind))
    if size > 1 << 33:
        p.memory[-1].pointer = 0
    elif kind in ("async", "pool") and (p.d.quiet("cuStreamIsCapturing", stream, p.more) or p.more.u):
        p.memory[-1].pointer = 0  # a graph's
    elif p.out.v and not p.capturing:
        p.d.quiet("cuStreamSynchronize", stream)
        p.d.quiet("cuMemsetD8_v2", p.out.v, 0, size)
        p.d.quiet("cuCtxSynchronize")


@operation(5)
def release(p: Program) -> None:
    number, (stream, say) = p.number(p.memory), p.stream()
    memory = p.memory[number]
    for again in range(p.random.choice((1, 1, 1, 2))):
        if p.random.random() < 0.15 and memory.pointer:
            p.d("cuMemFree_v2", memory.pointer + 1, say=f"m{number} interior")
        if (memory.kind in ("async", "pool") and p.random.random() < 0.8) or p.random.random() < 0.1:
            p.d("cuMemFreeAsync", memory.pointer, stream, say=f"m{number} {say} {again}")
        else:
            p.d("cuMemFree_v2", memory.pointer, say=f"m{number} {again}")
    p.memory[number] = Memory(0, 64, "freed")


@operation(10)
def write(p: Program) -> None:
    number, (stream, say) = p.number(p.memory), p.stream()
    memory = p.memory[number]
    size = p.random.choice((0, 1, memory.size // 2, memory.size))
    byte = p.random.randrange(256)
    if p.random.random() < 0.5:
        p.d("cuMemsetD8_v2", memory.pointer, byte, size, say=f"m{number} {size}")
    elif p.random.random() < 0.5:
        p.d("cuMemsetD8Async", memory.pointer, byte, size, stream, say=f"m{number} {size} {say}")
    else:
        shift = p.random.choice((0, 0, 1, 2))
        p.d(
            "cuMemsetD32_v2",
            memory.pointer + shift if memory.pointer else 0,
            byte,
            max(size - 4, 0) // 4,
            say=f"m{number} at {shift}, {max(size - 4, 0) // 4}",
        )


@operation(10)
def copy(p: Program) -> None:
    a, b, (stream, say) = p.number(p.memory), p.number(p.memory), p.stream()
    first, second = p.memory[a], p.memory[b]
    size = p.random.choice((0, 1, min(first.size, second.size, 60000)))
    kind = p.random.randrange(6)
    if kind == 0:
        p.d("cuMemcpyDtoD_v2", first.pointer, second.pointer, size, say=f"m{a} m{b} {size}")
    elif kind == 1:
        p.d("cuMemcpyDtoDAsync_v2", first.pointer, second.pointer, size, stream, say=f"m{a} m{b} {size} {say}")
    elif kind == 2:
        p.d("cuMemcpyHtoD_v2", first.pointer, p.host, size, say=f"m{a} {size}")
    elif kind == 3:
        p.d("cuMemcpyHtoDAsync_v2", first.pointer, p.pinned.v, size, stream, say=f"m{a} {size} {say}")
    elif kind == 4:
        p.d("cuMemcpy", first.pointer, second.pointer, size, say=f"m{a} m{b} {size}")
    else:
        p.d("cuMemcpyDtoHAsync_v2", p.pinned.v, first.pointer, size, stream, say=f"m{a} {size} {say}")


@operation(5)
def read(p: Program) -> None:
    number = p.number(p.memory)
    memory = p.memory[number]
    if p.capturing:
        p.d("cuMemcpyDtoH_v2", p.more, memory.pointer, min(memory.size, 8), say=f"m{number}")
    else:
        p.d.quiet("cuCtxSynchronize")
        p.more.memory.raw = bytes(64)
        p.d("cuMemcpyDtoH_v2", p.more, memory.pointer, min(memory.size, 8), say=f"m{number}", v=lambda: p.more.v)


@operation(4)
def look(p: Program) -> None:
    number = p.number(p.memory)
    memory = p.memory[number]
    kind = p.random.randrange(3)
    if kind == 0:
        p.d("cuPointerGetAttribute", p.out, 2, memory.pointer, say=f"m{number}", v=lambda: p.out.u)
    elif kind == 1:
        p.d(
            "cuMemGetAddressRange_v2",
            p.out,
            p.more,
            memory.pointer,
            say=f"m{number}",
            v=lambda: [memory.pointer - p.out.v, p.more.v],
        )
    else:
        p.d(
            "cuPointerGetAttribute",
            p.out,
            17,
            memory.pointer,
            say=f"m{number} pool",
            v=lambda: p.pools.index(p.out.v) if p.out.v in p.pools else "another",
        )


@operation(2)
def new_pool(p: Program) -> None:
    p.out.memory.raw = bytes(64)
    device, handles = p.random.choice((0, 0, 0, 1)), p.random.choice((0, 0, 1))
    p.d("cuMemPoolCreate", p.out, pool_props(device=device, handles=handles), say=f"{device} {handles}")
    p.pools.append(p.out.v)


@operation(5)
def use_pool(p: Program) -> None:
    number = p.number(p.pools)
    pool, kind, attribute = p.pools[number], p.random.randrange(6), p.random.randrange(1, 10)
    if kind < 3:
        p.d(
            "cuMemPoolGetAttribute",
            pool,
            attribute,
            p.out,
            say=f"p{number} {attribute}",
            v=lambda: p.out.u if attribute < 4 else p.out.v,
        )
    elif kind == 3:
        value = p.random.choice((0, 1, BLOCK, 1 << 40))
        p.d(
            "cuMemPoolSetAttribute",
            pool,
            attribute,
            Cell(8, value.to_bytes(8, "little")),
            say=f"p{number} {attribute} {value}",
        )
    elif kind == 4:
        p.d("cuMemPoolTrimTo", pool, size := p.random.choice((0, BLOCK, 32 * MIB)), say=f"p{number} {size}")
    elif not any(one.kind in ("async", "pool") for one in p.memory):
        p.d("cuMemPoolDestroy", pool, say=f"p{number}")
        p.pools[number] = 0


@operation(2)
def default_pool(p: Program) -> None:
    p.out.memory.raw = bytes(64)
    p.d("cuDeviceGetDefaultMemPool", p.out, 0)
    if not p.default:
        p.default = len(p.pools)
        p.pools.append(p.out.v)


@operation(3)
def reserve(p: Program) -> None:
    p.out.memory.raw = bytes(64)
    blocks, odd = p.random.choice((1, 2, 4)), p.random.choice((0, 0, 0, 4096))
    p.d("cuMemAddressReserve", p.out, blocks * BLOCK + odd, 0, 0, 0, say=f"{blocks} {odd}", v=lambda: p.out.v % BLOCK)
    p.ranges.append((p.out.v, blocks))


@operation(3)
def create(p: Program) -> None:
    p.out.memory.raw = bytes(64)
    blocks, odd, handles = p.random.choice((1, 2, 4)), p.random.choice((0, 0, 0, 65536)), p.random.choice((0, 1))
    p.d("cuMemCreate", p.out, blocks * BLOCK + odd, prop(handles=handles), 0, say=f"{blocks} {odd} {handles}")
    p.handles.append((p.out.v, blocks))


@operation(9)
def virtual(p: Program) -> None:
    r, h = p.number(p.ranges), p.number(p.handles)
    (base, blocks), (handle, _) = p.ranges[r], p.handles[h]
    at, size, kind = p.random.randrange(blocks), p.random.choice((1, 1, 2, 4)) * BLOCK, p.random.randrange(10)
    if p.random.random() < 0.6:  # as it should be
        at, size = 0, p.sizes.get(r, p.handles[h][1]) * BLOCK
        if kind < 3:
            p.sizes.setdefault(r, size // BLOCK)
    where = base + at * BLOCK if base else 0
    say = f"r{r} at {at}, {size // BLOCK}"
    if kind < 3:
        p.d("cuMemMap", where, size, 0, handle, 0, say=f"{say}, h{h}")
    elif kind < 6:
        p.d("cuMemSetAccess", where, size, access(f := p.random.choice((3, 3, 1, 0))), 1, say=f"{say}, {f}")
    elif kind == 6:
        p.d("cuMemUnmap", where, size, say=say)
    elif kind == 7:
        p.d("cuMemRelease", handle, say=f"h{h}")
        p.handles[h] = (0, 1)
    elif kind == 8:
        p.d("cuMemAddressFree", base, blocks * BLOCK, say=f"r{r}")
    else:
        p.d("cuMemGetAddressRange_v2", p.out, p.more, where, say=say, v=lambda: [where - p.out.v, p.more.v])


@operation(3)
def capture(p: Program) -> None:
    number, mode = p.number(p.streams), p.random.choice((0, 1, 2))
    p.d("cuStreamBeginCapture_v2", p.streams[number], mode, say=f"s{number} {mode}")
    p.capturing.add(number)


@operation(4)
def end_capture(p: Program) -> None:
    number = p.random.choice(sorted(p.capturing)) if p.capturing and p.random.random() < 0.9 else p.number(p.streams)
    p.capturing.discard(number)
    p.out.memory.raw = bytes(64)
    p.d("cuStreamEndCapture", p.streams[number], p.out, say=f"s{number}", v=lambda: p.out.v != 0, always=True)
    p.graphs.append(p.out.v)


@operation(3)
def use_graph(p: Program) -> None:
    g, e, (stream, say) = p.number(p.graphs), p.number(p.execs), p.stream()
    kind = p.random.randrange(4)
    if kind == 0:
        p.out.memory.raw = bytes(64)
        p.d("cuGraphInstantiateWithFlags", p.out, p.graphs[g], 0, say=f"g{g}", v=lambda: p.out.v != 0)
        p.execs.append(p.out.v)
    elif kind == 1:
        p.d("cuGraphLaunch", p.execs[e], stream, say=f"x{e} {say}")
    elif kind == 2:
        p.d("cuGraphGetNodes", p.graphs[g], 0, p.out, say=f"g{g}", v=lambda: p.out.v)
    else:
        p.d("cuLaunchHostFunc", stream, HOST_FUNCTION, 0, say=say)


@operation(1)
def whole_capture(p: Program) -> None:
    """Capture a few calls and launch them; sometimes one of them is wrong."""
    stream, event, number = p.d.stream(), p.d.event(), p.number(p.memory)
    memory, size = p.memory[number], min(p.memory[number].size, 60000)
    p.d("cuStreamBeginCapture_v2", stream, mode := p.random.choice((0, 1, 2)), say=f"whole {mode}")
    taken = 0
    for _ in range(p.random.randrange(6)):
        kind = p.random.randrange(12)
        if kind < 3:
            p.d("cuMemsetD8Async", memory.pointer, kind, size, stream, say=f"whole m{number} {size}")
        elif kind < 5:
            p.d("cuMemcpyDtoHAsync_v2", p.pinned.v, memory.pointer, size, stream, say=f"whole m{number} {size}")
        elif kind == 5:
            p.d("cuLaunchHostFunc", stream, HOST_FUNCTION, 0, say="whole")
        elif kind == 6:
            p.d("cuEventRecord", event, stream, say="whole")
        elif kind == 7:
            p.out.memory.raw = bytes(64)
            p.d("cuMemAllocAsync", p.out, size, stream, say=f"whole {size}", v=lambda: p.out.v % 512)
            taken = p.out.v
        elif kind == 8:
            p.d("cuMemFreeAsync", taken, stream, say="whole")
            taken = 0
        elif kind == 9:
            p.d("cuStreamWaitEvent", stream, event, 0, say="whole")
        elif kind == 10:
            p.d("cuMemAlloc_v2", p.out, 100, say=f"whole {mode}")
        else:
            p.d(p.random.choice(("cuStreamSynchronize", "cuStreamQuery")), stream, say="whole")
    p.out.memory.raw = p.more.memory.raw = bytes(64)
    p.d("cuStreamEndCapture", stream, p.out, say="whole", v=lambda: p.out.v != 0, always=True)
    if not p.out.v:
        return
    p.d("cuGraphGetNodes", p.out.v, 0, p.more, say="whole", v=lambda: p.more.v)
    p.more.memory.raw = bytes(64)
    p.d("cuGraphInstantiateWithFlags", p.more, p.out.v, p.random.choice((0, 1)), say="whole", v=lambda: p.more.v != 0)
    if p.more.v and not p.capturing:
        for time in range(2):
            p.d("cuGraphLaunch", p.more.v, stream, say=f"whole {time}")
        p.d("cuStreamSynchronize", stream, say="whole, launched")


@operation(1)
def whole_range(p: Program) -> None:
    """Reserve, create, map, allow, write, unmap, release and free; sometimes in another order."""
    size = p.random.choice((1, 2, 4)) * BLOCK
    base, handle = Cell(), Cell()
    steps: list[tuple[str, Callable[[], object]]] = [
        ("reserve", lambda: p.d("cuMemAddressReserve", base, size, 0, 0, 0, say="whole")),
        ("create", lambda: p.d("cuMemCreate", handle, size, prop(), 0, say="whole")),
        ("map", lambda: p.d("cuMemMap", base.v, size, 0, handle.v, 0, say="whole")),
        ("allow", lambda: p.d("cuMemSetAccess", base.v, size, access(), 1, say="whole")),
        ("read", lambda: p.d("cuMemcpyDtoH_v2", p.more, base.v, 8, say="whole")),
        ("unmap", lambda: p.d("cuMemUnmap", base.v, size, say="whole")),
        ("release", lambda: p.d("cuMemRelease", handle.v, say="whole")),
        ("free", lambda: p.d("cuMemAddressFree", base.v, size, say="whole")),
    ]
    if p.random.random() < 0.6:
        a, b = p.random.randrange(8), p.random.randrange(8)
        steps[a], steps[b] = steps[b], steps[a]
    if p.random.random() < 0.3:
        steps.insert(p.random.randrange(8), steps[p.random.randrange(8)])
    for _, step in steps:
        step()


@operation(2)
def contexts(p: Program) -> None:
    p.random.choice(
        (
            lambda: p.d("cuCtxSynchronize"),
            lambda: p.d("cuCtxSetCurrent", 0, say="null"),
            lambda: p.d("cuCtxSetCurrent", p.context, say="primary"),
            lambda: p.d("cuCtxPushCurrent_v2", p.context),
            lambda: p.d("cuCtxPopCurrent_v2", p.out, v=lambda: p.out.v == p.context),
            lambda: p.d("cuCtxGetDevice", p.out, v=lambda: p.out.u),
            lambda: p.d("cuCtxGetFlags", p.out, v=lambda: p.out.u),
        )
    )()
    if p.random.random() < 0.7:
        p.d.quiet("cuCtxSetCurrent", p.context)


def program(descriptor: int, seed: int) -> None:
    """Run the program of this seed."""
    p = Program(descriptor, seed)
    for first in (new_stream, new_event, new_pool, default_pool, allocate, reserve, create):
        first(p)
    stressed = THEMES[seed // 2 % len(THEMES)]
    weights = [weight * 5 if function.__name__ in stressed else weight for weight, function in OPERATIONS]
    for _ in range(CALLS):
        p.random.choices([function for _, function in OPERATIONS], weights)[0](p)
    p.d.quiet("cuCtxSetCurrent", p.context)
    p.d("cuCtxSynchronize", say="at the end")
