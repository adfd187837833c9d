"""Memory that passes between streams, and memory of captured graphs, through the C symbols."""

from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING, Any

import gpuconf
from checks import MIB, driver, expect, live, note, rounds, succeed, wait_for_graphs

if TYPE_CHECKING:
    from collections.abc import Callable


def own_streams(count: int) -> tuple[Any, list[ctypes.c_void_p]]:
    """The driver, with the primary context of the first GPU current, and streams that do not wait for each other."""
    cuda = driver()
    streams = [ctypes.c_void_p() for _ in range(count)]
    for stream in streams:
        succeed(cuda.cuStreamCreateWithPriority(ctypes.byref(stream), 1, 0), "cuStreamCreateWithPriority")
    cuda.cuMemsetD8Async.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p]
    cuda.cuMemcpyDtoHAsync_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
    return cuda, streams


def pinned(cuda: Any, size: int) -> tuple[int, Any]:
    """Page-locked memory: its address, and its bytes."""
    place = ctypes.c_void_p()
    succeed(cuda.cuMemHostAlloc(ctypes.byref(place), ctypes.c_size_t(size), 0), "cuMemHostAlloc")
    return place.value or 0, (ctypes.c_ubyte * size).from_address(place.value or 0)


def own_allocator() -> Any:
    """The C symbols."""
    library = ctypes.CDLL(gpuconf.library_path())
    library.gpuconf_malloc.restype = ctypes.c_void_p
    library.gpuconf_malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    library.gpuconf_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    library.gpuconf_last_error.restype = ctypes.c_char_p
    return library


def case_a_million_hand_overs_lose_no_canary() -> None:
    """One block passes from stream to stream while they work: each reads what it wrote, and no other stream writes in
    between.
    """
    gpuconf.configure(limit="64MiB", libraries=[])
    gpuconf.config.list_logical_devices()
    library, (cuda, streams) = own_allocator(), own_streams(3)
    batch, size, slow = 4096, 4096, 32 * MIB
    slab = library.gpuconf_malloc(slow, 0, None)
    ballast = library.gpuconf_malloc(64 * MIB - slow - size, 0, None)
    expect(bool(slab and ballast), library.gpuconf_last_error().decode())
    place, read = pinned(cuda, batch)
    handed = rounds(1_000_000)
    while todo := list(itertools.islice(handed, batch)):
        for i in range(len(todo)):
            stream = streams[i % 3]
            if i % 64 == 0:
                # It keeps the stream busy while the host continues.
                succeed(cuda.cuMemsetD8Async(slab, 0, slow, stream), "cuMemsetD8Async")
            block = library.gpuconf_malloc(size, 0, stream)
            if not block:
                raise AssertionError(library.gpuconf_last_error().decode())
            succeed(cuda.cuMemsetD8Async(block, i % 251 + 1, size, stream), "cuMemsetD8Async")
            succeed(cuda.cuMemcpyDtoHAsync_v2(place + i, block + i % size, 1, stream), "cuMemcpyDtoHAsync")
            library.gpuconf_free(block, size, 0, stream)
        for stream in streams:
            succeed(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize")
        wrong = [i for i in range(len(todo)) if read[i] != i % 251 + 1]
        expect(not wrong, f"canaries died in rounds {[todo[i] for i in wrong[:5]]}")
    for block in (slab, ballast):
        library.gpuconf_free(block, 0, 0, None)
    expect(live() == 0, "blocks are left")


def case_a_captured_graph_keeps_its_memory() -> None:
    """Memory allocated for a captured stream belongs to the graph until the graph is destroyed: its launches harm no
    other data.
    """
    gpuconf.configure(limit="64MiB", libraries=[])
    gpuconf.config.list_logical_devices()
    library, (cuda, (side, other)) = own_allocator(), own_streams(2)
    succeed(cuda.cuStreamBeginCapture_v2(side, 0), "cuStreamBeginCapture")
    inside = library.gpuconf_malloc(MIB, 0, side)
    expect(bool(inside), library.gpuconf_last_error().decode())
    succeed(cuda.cuMemsetD8Async(inside, 1, MIB, side), "cuMemsetD8Async")
    library.gpuconf_free(inside, 0, 0, side)
    graph, execute = ctypes.c_void_p(), ctypes.c_void_p()
    succeed(cuda.cuStreamEndCapture(side, ctypes.byref(graph)), "cuStreamEndCapture")
    succeed(
        cuda.cuGraphInstantiateWithFlags(ctypes.byref(execute), graph, ctypes.c_ulonglong(0)),
        "cuGraphInstantiateWithFlags",
    )
    succeed(cuda.cuGraphDestroy(graph), "cuGraphDestroy")
    outside = library.gpuconf_malloc(63 * MIB, 0, other)
    expect(bool(outside), library.gpuconf_last_error().decode())
    succeed(cuda.cuMemsetD8Async(outside, 9, 63 * MIB, other), "cuMemsetD8Async")
    succeed(cuda.cuGraphLaunch(execute, other), "cuGraphLaunch")
    succeed(cuda.cuStreamSynchronize(other), "cuStreamSynchronize")
    for block, value in ((inside, 1), (outside, 9), (outside + 63 * MIB - 1, 9)):
        byte = ctypes.c_ubyte()
        succeed(cuda.cuMemcpyDtoH_v2(ctypes.byref(byte), ctypes.c_uint64(block), ctypes.c_size_t(1)), "cuMemcpyDtoH")
        expect(byte.value == value, f"{byte.value} instead of {value}")
    library.gpuconf_free(outside, 0, 0, other)
    expect(gpuconf.memory.stats().captured_bytes == MIB, "the graph has lost its memory")
    succeed(cuda.cuGraphExecDestroy(execute), "cuGraphExecDestroy")
    wait_for_graphs()


def case_which_calls_spoil_a_capture() -> None:
    """What the driver answers during a capture, and at its end, in the modes global, thread-local and relaxed: only
    noted.
    """
    gpuconf.configure(limit="64MiB", libraries=[])
    cuda, (stream,) = own_streams(1)
    number, size, handle = ctypes.c_uint64(), ctypes.c_size_t(2 * MIB), ctypes.c_uint64()
    prop = (ctypes.c_int * 8)(1, 0, 1)  # CUmemAllocationProp: pinned memory of the first GPU
    calls: dict[str, Callable[[], int]] = {
        "nothing": lambda: 0,
        "cuStreamGetId": lambda: int(cuda.cuStreamGetId(stream, ctypes.byref(number))),
        "cuMemGetInfo": lambda: int(
            cuda.cuMemGetInfo_v2(ctypes.byref(ctypes.c_size_t()), ctypes.byref(ctypes.c_size_t()))
        ),
        "cuMemAlloc": lambda: int(cuda.cuMemAlloc_v2(ctypes.byref(number), size)),
        "cuMemCreate": lambda: int(cuda.cuMemCreate(ctypes.byref(handle), size, prop, ctypes.c_uint64(0))),
        "cuStreamQuery": lambda: int(cuda.cuStreamQuery(stream)),
    }
    for name, call in calls.items():
        answers = []
        for mode in range(3):
            graph = ctypes.c_void_p()
            number.value = handle.value = 0
            succeed(cuda.cuStreamBeginCapture_v2(stream, mode), "cuStreamBeginCapture")
            answer = call() if name == "nothing" or hasattr(cuda, name) else "missing"
            end = cuda.cuStreamEndCapture(stream, ctypes.byref(graph))
            answers.append(f"{answer}/{end}")
            expect(name != "nothing" or end == 0, "a capture of nothing was spoiled")
            if graph.value:
                cuda.cuGraphDestroy(graph)
            if name == "cuMemAlloc" and answer == 0:
                cuda.cuMemFree_v2(number)
            if name == "cuMemCreate" and answer == 0:
                cuda.cuMemRelease(handle)
        note(**{name: " ".join(answers)})
