# SPDX-License-Identifier: Apache-2.0
"""How much memory the card says is free, what happens when it is full, and what a fault of a kernel does to a process.

The card must have nothing else to do.
"""

import time
from collections.abc import Callable

from answers import Calls, Cell, Driver, cell
from shapes import BLOCK, MIB, PTX, access, pool_props, prop


def full(descriptor: int, skip: int) -> None:
    """All of it in one process, so that the order is that of this text."""
    n = Calls("libnvidia-ml.so.1", descriptor)
    n.quiet("nvmlInit_v2")
    handle = Cell()
    n.quiet("nvmlDeviceGetHandleByIndex_v2", 0, handle)

    def nvml(say: str) -> int:
        first, second = Cell(24), cell("IIQQQQ", 0x02000028, 0, 0, 0, 0, 0)
        n("nvmlDeviceGetMemoryInfo", handle.v, first, say=say, v=lambda: first.all("3Q"))
        n("nvmlDeviceGetMemoryInfo_v2", handle.v, second, say=say, v=lambda: second.all("4Q", 8))
        return int(first.get("Q", 16))

    idle = nvml("idle")
    d = Driver(descriptor)
    o, p = Cell(64), Cell(64)
    d.init()
    d.note("cuInit takes", nvml("after cuInit") - idle)
    d.context()
    d.note("a context takes", nvml("with a context") - idle)
    d("cuMemGetInfo_v2", o, p, say="with a context", v=lambda: [o.v, p.v])
    before = d.free_memory()

    def fell(say: str) -> None:
        nonlocal before
        now = d.free_memory()
        d.note(f"free memory falls by, {say}", before - now)
        before = now

    fell("nothing")
    second = Cell()
    d("cuCtxCreate_v2", second, 0, 0)
    fell("second context")
    d("cuCtxDestroy_v2", second.v)
    fell("second context destroyed")
    for _ in range(3):
        d.alloc(1)
        fell("1 byte")
    for size in (
        512,
        1000,
        4096,
        65536,
        MIB - 512,
        MIB - 511,
        MIB,
        MIB + 1,
        BLOCK - 1,
        BLOCK,
        BLOCK + 1,
        3 * MIB,
        4 * MIB,
        5 * MIB,
        10 * MIB,
        32 * MIB,
        32 * MIB + 1,
        33 * MIB,
        100 * MIB + 1,
    ):
        pointer = d.alloc(size)
        fell(f"{size}")
        again = d.alloc(size)
        fell(f"{size} again")
        d.quiet("cuMemFree_v2", pointer)
        fell(f"{size} freed")
        d.quiet("cuMemFree_v2", again)
        fell(f"{size} again freed")
    for size in (
        1,
        256,
        257,
        512,
        513,
        600,
        1024,
        1025,
        4096,
        5000,
        65536,
        100000,
        200000,
        400000,
        700000,
        MIB - 1,
        MIB,
        MIB + 1,
    ):
        d.alloc(size)
        d.free_memory()
        before = d.free_memory()
        last = before
        taken = []
        steps = []
        for fits in range(1, 9001):
            taken.append(d.alloc(size))
            now = d.free_memory() if size > 4000 or fits % 16 == 0 else last
            if now != last:
                steps.append([fits, last - now])
                last = now
                if len(steps) == 3:
                    break
        d.note(f"allocations of {size} until free memory falls", steps)
        for pointer in taken:
            d.quiet("cuMemFree_v2", pointer)
        before = d.free_memory()
    for _ in range(3):
        d.stream()
        fell("a stream")
    for _ in range(40):
        d.stream()
    fell("40 streams")
    for _ in range(100):
        d.event()
    fell("100 events")
    d.quiet("cuModuleLoadData", o, PTX)
    fell("a module")
    d.quiet("cuMemHostAlloc", o, 10 * MIB, 0)
    fell("10 MiB pinned")
    d.quiet("cuMemAllocManaged", o, 3 * MIB, 1)
    fell("3 MiB managed")
    d.quiet("cuMemsetD8_v2", o.v, 1, 3 * MIB)
    fell("3 MiB managed, written by the card")
    d.quiet("cuArrayCreate_v2", o, cell("QQII", 1000, 1000, 32, 1))
    fell("an array of 4 MB")
    d.quiet("cuMemAddressReserve", o, 16 * BLOCK, 0, 0, 0)
    fell("32 MiB reserved")
    d.quiet("cuMemCreate", p, 16 * BLOCK, prop(), 0)
    fell("32 MiB created")
    d.quiet("cuMemMap", o.v, 16 * BLOCK, 0, p.v, 0)
    d.quiet("cuMemSetAccess", o.v, 16 * BLOCK, access(), 1)
    fell("32 MiB mapped")
    d.quiet("cuMemRelease", p.v)
    fell("32 MiB released, mapped")
    d.quiet("cuMemUnmap", o.v, 16 * BLOCK)
    fell("32 MiB unmapped")
    stream = d.stream()
    for size in (1, 100, BLOCK, 32 * MIB, 33 * MIB, 100 * MIB):
        d.quiet("cuMemAllocAsync", o, size, stream)
        fell(f"{size} of the pool")
        d.quiet("cuMemFreeAsync", o.v, stream)
        fell(f"{size} of the pool freed")
        d.quiet("cuStreamSynchronize", stream)
        fell(f"{size} of the pool freed, synchronized")
    d.quiet("cuMemPoolCreate", o, pool_props())
    fell("a pool")
    # Full.
    began = time.monotonic()
    taken = []
    for size in (1 << 30, 64 * MIB, BLOCK, MIB, 65536, 512, 1):
        count = 0
        while time.monotonic() - began < 8:
            o.memory.raw = bytes(64)
            code = d.quiet("cuMemAlloc_v2", o, size)
            if code:
                break
            taken.append(o.v)
            count += 1
        d.note(f"until full, of {size}", [count if size > 1 << 29 else count > 0, code, d.free_memory()])
        if size in (BLOCK, MIB):
            d.note(f"count of {size}", count)
    nvml("full")
    d("cuMemGetInfo_v2", o, p, say="full", v=lambda: [o.v, p.v])
    d("cuMemAlloc_v2", o, MIB, say="full")
    d("cuMemAllocAsync", o, MIB, stream, say="full")
    d("cuMemAllocAsync", o, 1, stream, say="full, 1 byte")
    d("cuMemCreate", o, BLOCK, prop(), 0, say="full")
    d("cuMemAllocManaged", o, MIB, 1, say="full")
    d("cuMemHostAlloc", o, MIB, 0, say="full")
    d("cuMemAllocPitch_v2", o, p, 100, 1000, 4, say="full")
    d("cuArrayCreate_v2", o, cell("QQII", 1000, 1000, 32, 1), say="full")
    d("cuStreamCreate", o, 1, say="full")
    d("cuEventCreate", o, 0, say="full")
    d("cuModuleLoadData", o, PTX, say="full")
    d("cuCtxCreate_v2", o, 0, 0, say="full")
    d("cuMemAddressReserve", o, BLOCK, 0, 0, 0, say="full")
    d("cuCtxSynchronize", say="full")
    for pointer in taken[-50:]:
        d.quiet("cuMemFree_v2", pointer)
    d("cuMemAlloc_v2", o, 1, say="after some are freed")
    for pointer in taken[:-50]:
        d.quiet("cuMemFree_v2", pointer)
    d("cuMemGetInfo_v2", o, p, say="all freed", v=lambda: [o.v, p.v])
    most = 0
    low, high = 0, 200 << 30
    while high - low > BLOCK:
        middle = (low + high) // 2 // BLOCK * BLOCK
        if d.quiet("cuMemAlloc_v2", o, middle) == 0:
            d.quiet("cuMemFree_v2", o.v)
            low = most = middle
        else:
            high = middle
    d.note("largest allocation", [most, d.free_memory()])


def beyond(d: Driver) -> None:
    """Copies that go beyond an allocation, within and behind its block of 2 MiB."""
    d.context()
    block, room = d.alloc(5 * MIB), Cell(7 * MIB)
    for size in (5 * MIB, 5 * MIB + 1, 6 * MIB, 6 * MIB + 1):
        d("cuMemcpyHtoD_v2", block, room, size, say=f"5 MiB block, {size - 5 * MIB} more")
        d("cuMemcpyDtoH_v2", room, block, size, say=f"5 MiB block, {size - 5 * MIB} more")
        d("cuMemsetD8_v2", block, 0, size, say=f"5 MiB block, {size - 5 * MIB} more")
    d("cuCtxSynchronize")


def out_of_bounds(d: Driver) -> None:
    """A copy far behind memory, whose error may stay."""
    d.context()
    host = Cell(1 << 16)
    d("cuMemsetD8Async", 0x7F0000000000, 1, 100, 0, say="unknown")
    d("cuMemcpyHtoDAsync_v2", 0x1000, host, 100, 0, say="unknown")
    d("cuMemcpyDtoDAsync_v2", 0x700000000000, 0x600000000000, 100, 0, say="both unknown")
    d("cuCtxSynchronize")
    d("cuMemAlloc_v2", Cell(), 100)


def illegal_address(d: Driver) -> None:
    """A kernel that writes to no memory, and what each call says afterwards."""
    context = d.context()
    o, p = Cell(64), Cell(64)
    d.quiet("cuModuleLoadData", o, PTX)
    d.quiet("cuModuleGetFunction", p, o.v, b"store")
    memory, stream, event = d.alloc(100), d.stream(), d.event()
    value = cell("QI", 0x100, 1)
    arguments = cell("QQ", value.address, value.address + 8)
    if "simulated" not in name_of(d):
        d.quiet("cuLaunchKernel", p.v, 1, 1, 1, 1, 1, 1, 0, stream, arguments, 0)
        for _ in range(1000):
            if d.quiet("cuStreamQuery", stream) not in (0, 600):
                break
            time.sleep(0.001)
    d("cuStreamQuery", stream)
    for name, given in (
        ("cuStreamSynchronize", (stream,)),
        ("cuCtxSynchronize", ()),
        ("cuMemAlloc_v2", (o, 100)),
        ("cuMemFree_v2", (memory,)),
        ("cuEventRecord", (event, stream)),
        ("cuEventQuery", (event,)),
        ("cuStreamCreate", (o, 0)),
        ("cuMemGetInfo_v2", (o, p)),
        ("cuCtxGetCurrent", (o,)),
        ("cuCtxGetDevice", (o,)),
        ("cuDeviceGetAttribute", (o, 1, 0)),
        ("cuMemHostAlloc", (o, 100, 0)),
        ("cuPointerGetAttribute", (o, 2, memory)),
        ("cuEventDestroy_v2", (event,)),
        ("cuStreamDestroy_v2", (stream,)),
        ("cuModuleLoadData", (o, PTX)),
        ("cuCtxPopCurrent_v2", (o,)),
        ("cuCtxSetCurrent", (context,)),
        ("cuDevicePrimaryCtxReset_v2", (0,)),
        ("cuDevicePrimaryCtxRetain", (o, 0)),
    ):
        d(name, *given, say="after it")
    d("cuCtxSetCurrent", o.v, say="the new one")
    d("cuMemAlloc_v2", p, 100, say="of the new one")


def name_of(d: Driver) -> str:
    """Return the device's name."""
    text = Cell(256)
    d.quiet("cuDeviceGetName", text, 256, 0)
    return text.text


def unit(function: Callable[[Driver], None]) -> Callable[[int, int], None]:
    """Return a unit that runs the function."""
    return lambda descriptor, _skip: function(Driver(descriptor))


UNITS = {
    "full": full,  # first: nothing of an ended process is left then
    "beyond": unit(beyond),
    "out_of_bounds": unit(out_of_bounds),
    "illegal_address": unit(illegal_address),
}
