"""What the driver does where its documentation is silent: only noted, for the design and for the driver of the
tests.
"""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any

from checks import MIB, Missing, driver, free_and_total, note, succeed

if TYPE_CHECKING:
    from collections.abc import Callable

GRANULE = 2 * MIB
RESERVED, USED = 5, 7  # CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, CU_MEMPOOL_ATTR_USED_MEM_CURRENT


def case_what_a_request_takes_of_the_card() -> None:
    """By how much a first and a second request of each size lower the free memory, and whether a free gives it all
    back.
    """
    cuda = driver()
    for size in (1, 64 << 10, MIB, GRANULE, GRANULE + 1, 33 * MIB):
        free, blocks, taken = free_and_total(cuda)[0], [], []
        for _ in range(2):
            block = ctypes.c_uint64()
            succeed(cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(size)), f"cuMemAlloc of {size} bytes")
            blocks.append(block)
            taken.append(free - free_and_total(cuda)[0])
        for block in blocks:
            succeed(cuda.cuMemFree_v2(block), "cuMemFree")
        left, at = free - free_and_total(cuda)[0], [hex(block.value) for block in blocks]
        note(**{f"cuMemAlloc_{size}": f"takes {taken[0]}, then {taken[1]}, leaves {left}, at {' and '.join(at)}"})


def case_what_a_memory_pool_reserves() -> None:
    """What the default pool reserves, and what of it is in use, for requests of several sizes, and when it gives it
    back.
    """
    cuda, pool = driver(), ctypes.c_void_p()
    if not hasattr(cuda, "cuMemAllocAsync"):
        raise Missing("the driver has no cuMemAllocAsync")
    succeed(cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0), "cuDeviceGetDefaultMemPool")

    def state() -> str:
        values = [ctypes.c_uint64() for _ in range(2)]
        for attribute, value in zip((RESERVED, USED), values, strict=True):
            succeed(cuda.cuMemPoolGetAttribute(pool, attribute, ctypes.byref(value)), "cuMemPoolGetAttribute")
        return f"{values[0].value} reserved, {values[1].value} used"

    for size in (1, 40 * MIB, 64 * MIB, 1024 * MIB):
        block, seen = ctypes.c_uint64(), [state()]
        succeed(
            cuda.cuMemAllocAsync(ctypes.byref(block), ctypes.c_size_t(size), None), f"cuMemAllocAsync of {size} bytes"
        )
        seen.append(state())
        succeed(cuda.cuMemFreeAsync(block, None), "cuMemFreeAsync")
        seen.append(state())
        succeed(cuda.cuStreamSynchronize(None), "cuStreamSynchronize")
        seen.append(state())
        succeed(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
        seen.append(state())
        succeed(cuda.cuMemPoolTrimTo(pool, ctypes.c_size_t(0)), "cuMemPoolTrimTo")
        steps = ("before", "allocated", "freed", "stream synchronized", "context synchronized", "trimmed")
        note(**{f"pool_{size}": "; ".join(f"{step}: {one}" for step, one in zip(steps, [*seen, state()], strict=True))})


def case_what_mapping_costs() -> None:
    """Host time, in microseconds, of each call for virtual memory, by the size of a piece."""
    cuda = driver()
    if not hasattr(cuda, "cuMemCreate"):
        raise Missing("the driver has no cuMemCreate")
    for size in (GRANULE, 32 * MIB, 512 * MIB):
        pieces = min(64, free_and_total(cuda)[0] // 2 // size, 2048 * MIB // size)
        if pieces:
            note(**{f"{size // MIB}_MiB": mapped(cuda, size, pieces)})


def mapped(cuda: Any, size: int, pieces: int) -> dict[str, float]:
    """Map pieces one behind the other, then take them away again; the mean of each call."""
    begin, handles, spent = ctypes.c_uint64(), [ctypes.c_uint64() for _ in range(pieces)], dict[str, float]()
    prop, access, none = (ctypes.c_int * 8)(1, 0, 1), (ctypes.c_int * 3)(1, 0, 3), ctypes.c_uint64(0)
    bytes_, all_bytes, one = ctypes.c_size_t(size), ctypes.c_size_t(size * pieces), ctypes.c_size_t(1)

    def timed(name: str, call: Callable[[], int]) -> None:
        start = time.perf_counter()
        result = call()
        spent[name] = spent.get(name, 0.0) + (time.perf_counter() - start) / pieces * 1e6
        succeed(result, name)

    succeed(
        cuda.cuMemAddressReserve(ctypes.byref(begin), all_bytes, ctypes.c_size_t(GRANULE), none, none),
        "cuMemAddressReserve",
    )
    places = [ctypes.c_uint64(begin.value + number * size) for number in range(pieces)]
    for place, handle in zip(places, handles, strict=True):
        timed("cuMemCreate", lambda handle=handle: cuda.cuMemCreate(ctypes.byref(handle), bytes_, prop, none))  # type: ignore[misc]
        timed("cuMemMap", lambda p=place, h=handle: cuda.cuMemMap(p, bytes_, ctypes.c_size_t(0), h, none))  # type: ignore[misc]
        timed("cuMemSetAccess", lambda p=place: cuda.cuMemSetAccess(p, bytes_, access, one))  # type: ignore[misc]
    timed("cuMemSetAccess of all", lambda: cuda.cuMemSetAccess(begin, all_bytes, access, one))
    for place, handle in zip(places, handles, strict=True):
        timed("cuMemUnmap", lambda p=place: cuda.cuMemUnmap(p, bytes_))  # type: ignore[misc]
        timed("cuMemRelease", lambda h=handle: cuda.cuMemRelease(h))  # type: ignore[misc]
    succeed(cuda.cuMemAddressFree(begin, all_bytes), "cuMemAddressFree")
    return {name: round(value, 2) for name, value in spent.items()}
