"""What the guard relies on: the addresses that cuGetProcAddress returns."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from checks import Missing, driver, expect, note

# The base names of functions that take or return device memory, and some that do not, in each group.
COUNTED = [
    "cuMemAlloc",
    "cuMemAllocPitch",
    "cuMemFree",
    "cuMemAllocManaged",
    "cuArrayCreate",
    "cuArray3DCreate",
    "cuArrayDestroy",
    "cuMipmappedArrayCreate",
    "cuMipmappedArrayDestroy",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemRetainAllocationHandle",
    "cuMemImportFromShareableHandle",
    "cuIpcOpenMemHandle",
    "cuIpcCloseMemHandle",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolTrimTo",
    "cuDeviceSetMemPool",
    "cuGraphAddMemAllocNode",
    "cuGraphInstantiate",
    "cuGraphUpload",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuDeviceGraphMemTrim",
    "cuMemGetInfo",
    "cuDeviceTotalMem",
    "cuGetProcAddress",
    "cuCtxDestroy",
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxReset",
]
OTHERS = [
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuLaunchKernel",
    "cuMemcpyHtoD",
    "cuMemcpyDtoH",
    "cuMemcpyDtoD",
    "cuMemcpyAsync",
    "cuMemsetD8",
    "cuMemsetD32",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemHostRegister",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemSetAccess",
    "cuMemGetAllocationGranularity",
    "cuStreamCreate",
    "cuStreamDestroy",
    "cuStreamSynchronize",
    "cuStreamQuery",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventDestroy",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuPointerGetAttribute",
    "cuPointerGetAttributes",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
]
VERSIONS = (2000, 3020, 4000, 6050, 8000, 9000, 10020, 11000, 11020, 11030, 11060, 12000, 12020, 12030, 12080, 13000)
FLAGS = (0, 1, 2)  # the default, the legacy stream, the stream of a thread


def resolved(cuda: Any, names: list[str], newest: int) -> dict[tuple[str, int, int], int]:
    """The address of each name, for each version up to the driver's and each kind of stream, where the driver has
    one.
    """
    found = {}
    for name in names:
        for version in (*(version for version in VERSIONS if version <= newest), newest):
            for flags in FLAGS:
                place, status = ctypes.c_void_p(), ctypes.c_int(-1)
                result = cuda.cuGetProcAddress_v2(
                    name.encode(), ctypes.byref(place), version, ctypes.c_uint64(flags), ctypes.byref(status)
                )
                if result == 0 and place.value:
                    found[name, version, flags] = place.value
    return found


def _forms(name: str, found: dict[tuple[str, int, int], int], exported: dict[int, str]) -> str:
    """The first version in which the resolver returns each form of a name, for the legacy stream."""
    forms: dict[str, int] = {}
    for (of, version, flags), address in found.items():
        if of == name and flags == 1:
            forms.setdefault(exported.get(address, hex(address)), version)
    return ", ".join(f"{form} from {version}" for form, version in forms.items())


def case_the_resolvers_addresses_are_stable_and_unique() -> None:
    """The same question has the same answer, in any thread, and no counted function shares its address with another
    name's.
    """
    cuda = driver()
    if not hasattr(cuda, "cuGetProcAddress_v2"):
        raise Missing("the driver has no cuGetProcAddress_v2")
    version = ctypes.c_int()
    expect(cuda.cuDriverGetVersion(ctypes.byref(version)) == 0, "no version")
    first = resolved(cuda, COUNTED + OTHERS, version.value)
    answers: list[dict[tuple[str, int, int], int]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(resolved(cuda, COUNTED + OTHERS, version.value)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(all(answer == first for answer in answers), "an address changed")
    names: dict[int, set[str]] = {}
    for (name, _, _), address in first.items():
        names.setdefault(address, set()).add(name)
    exported: dict[int, str] = {}
    for name in COUNTED:
        for suffix in ("", "_v2", "_v3", "_v4", "_ptsz", "_v2_ptsz", "_ptds", "_v2_ptds", "WithFlags"):
            symbol = getattr(cuda, name + suffix, None)
            if symbol is not None:
                exported[ctypes.cast(symbol, ctypes.c_void_p).value or 0] = name + suffix
    counted = {address for (name, _, _), address in first.items() if name in COUNTED}
    note(
        driver_version=version.value,
        answers=len(first),
        addresses=len(names),
        counted_addresses=len(counted),
        counted_addresses_that_dlsym_has=len(counted & set(exported)),
        unlike_dlsym=sorted(
            {name for (name, _, _), address in first.items() if name in COUNTED and address not in exported}
        ),
        forms="\n".join(f"{name}: {_forms(name, first, exported)}" for name in COUNTED),
    )
    shared = [sorted(group) for group in names.values() if len(group) > 1 and group & set(COUNTED)]
    expect(not shared, f"names that share an address: {shared}")
