# SPDX-License-Identifier: Apache-2.0
"""``gpuconf run --check``: requests more than the limit in every way that is known, and reports what got past the
guard.

It runs as the program of the job. The budget counts refusals, so a refusal by the driver, which has no more memory, is
told apart from one by the guard. Without a budget, the driver itself keeps the limit.
"""

from __future__ import annotations

import ctypes
import glob
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p

from .._core import sizes
from .._core.table import human_bytes
from .._typing import Any
from ..jobs.budget import Reader, current, find
from .console import CONDITION, ERROR, OK
from .output import print_table

_NAMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0")

Answer = tuple[int, Callable[[], object]]
"""The result of a request, and what gives it back."""


class _Extent(ctypes.Structure):
    """cudaExtent."""

    _fields_ = (("width", c_size_t), ("height", c_size_t), ("depth", c_size_t))


class _Format(ctypes.Structure):
    """cudaChannelFormatDesc: bits of each channel, and their kind."""

    _fields_ = (("x", c_int), ("y", c_int), ("z", c_int), ("w", c_int), ("kind", c_int))


def load_runtime() -> Any | None:
    """Load the CUDA runtime that programs of this Python would find: on the loader's path, or as a package.

    None without one.
    """
    for path in (*_NAMES, *_packaged()):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def _packaged() -> list[str]:
    """NVIDIA's packages have a folder for each version of CUDA, and older ones a folder for the runtime."""
    place = os.path.join(sysconfig.get_paths()["purelib"], "nvidia")
    return sorted(glob.glob(f"{place}/*/lib/libcudart.so.*"), reverse=True)


def _runtime_linear(runtime: Any, size: int) -> Answer:
    address = c_void_p()
    return runtime.cudaMalloc(byref(address), c_size_t(size)), lambda: runtime.cudaFree(address)


def _runtime_pitched(runtime: Any, size: int) -> Answer:
    address, pitch = c_void_p(), c_size_t()
    result = runtime.cudaMallocPitch(byref(address), byref(pitch), c_size_t(65536), c_size_t(-(-size // 65536)))
    return result, lambda: runtime.cudaFree(address)


def _runtime_managed(runtime: Any, size: int) -> Answer:
    address = c_void_p()
    return runtime.cudaMallocManaged(byref(address), c_size_t(size), c_uint(1)), lambda: runtime.cudaFree(address)


def _runtime_ordered(runtime: Any, size: int) -> Answer:
    address = c_void_p()
    return runtime.cudaMallocAsync(byref(address), c_size_t(size), None), lambda: runtime.cudaFreeAsync(address, None)


def _runtime_array(runtime: Any, size: int) -> Answer:
    array, form, extent = c_void_p(), _Format(32, 0, 0, 0, 2), _Extent(4096, 4096, -(-size // (4096 * 4096 * 4)))
    result = runtime.cudaMalloc3DArray(byref(array), byref(form), extent, c_uint(0))
    return result, lambda: runtime.cudaFreeArray(array)


RUNTIME_CALLS: Mapping[str, Callable[[Any, int], Answer]] = {
    "cuMemAlloc": _runtime_linear,
    "cuMemAllocPitch": _runtime_pitched,
    "cuMemAllocManaged": _runtime_managed,
    "cuMemAllocAsync": _runtime_ordered,
    "cuArray3DCreate": _runtime_array,
}
"""What the runtime does by each function of the driver. It has no way to ``cuMemCreate``."""


_GRANULE = 2 << 20
_OUT_OF_MEMORY = 2

Find = Callable[[str, str, int], Any]  # exported name, base name, CUDA version


class _Prop(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", c_int), ("handle_types", c_int), ("location_type", c_int), ("location_id", c_int), ("other", c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )  # fmt: skip


class _Shape(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = (
        ("width", c_size_t), ("height", c_size_t), ("depth", c_size_t), ("format", c_int), ("channels", c_uint),
        ("flags", c_uint),
    )  # fmt: skip


def _linear(find: Find, size: int) -> Answer:
    address = c_uint64()
    result = find("cuMemAlloc_v2", "cuMemAlloc", 3020)(byref(address), c_size_t(size))
    return result, lambda: find("cuMemFree_v2", "cuMemFree", 3020)(address)


def _pitched(find: Find, size: int) -> Answer:
    address, pitch = c_uint64(), c_size_t()
    call = find("cuMemAllocPitch_v2", "cuMemAllocPitch", 3020)
    result = call(byref(address), byref(pitch), c_size_t(65536), c_size_t(-(-size // 65536)), c_uint(4))
    return result, lambda: find("cuMemFree_v2", "cuMemFree", 3020)(address)


def _managed(find: Find, size: int) -> Answer:
    address = c_uint64()
    result = find("cuMemAllocManaged", "cuMemAllocManaged", 6000)(byref(address), c_size_t(size), c_uint(1))
    return result, lambda: find("cuMemFree_v2", "cuMemFree", 3020)(address)


def _ordered(find: Find, size: int) -> Answer:
    address = c_uint64()
    result = find("cuMemAllocAsync", "cuMemAllocAsync", 11020)(byref(address), c_size_t(size), None)
    return result, lambda: find("cuMemFreeAsync", "cuMemFreeAsync", 11020)(address, None)


def _virtual(find: Find, size: int) -> Answer:
    handle = c_uint64()
    prop = _Prop(1, 0, 1, 0, None)
    call = find("cuMemCreate", "cuMemCreate", 10020)
    result = call(byref(handle), c_size_t(-(-size // _GRANULE) * _GRANULE), byref(prop), c_ulonglong(0))
    return result, lambda: find("cuMemRelease", "cuMemRelease", 10020)(handle)


def _array(find: Find, size: int) -> Answer:
    array = c_void_p()
    shape = _Shape(4096, 4096, -(-size // (4096 * 4096 * 4)), 0x20, 1, 0)
    result = find("cuArray3DCreate_v2", "cuArray3DCreate", 3020)(byref(array), byref(shape))
    return result, lambda: find("cuArrayDestroy", "cuArrayDestroy", 2000)(array)


_CALLS = {
    "cuMemAlloc": _linear,
    "cuMemAllocPitch": _pitched,
    "cuMemAllocManaged": _managed,
    "cuMemAllocAsync": _ordered,
    "cuMemCreate": _virtual,
    "cuArray3DCreate": _array,
}


_BY_PATH = "by path"


def _exported(library: Any) -> Find:
    return lambda exported, _base, _version: getattr(library, exported)


def _resolved(resolver: Any, *more: Any) -> Find:
    def find(exported: str, base: str, version: int) -> Any:
        address = c_void_p()
        if resolver(base.encode(), byref(address), c_int(version), c_uint64(0), *more) != 0 or not address.value:
            raise AttributeError(exported)
        return ctypes.CFUNCTYPE(c_int)(address.value)

    return find


def _ways(real: str) -> Iterator[tuple[str, Find]]:
    library = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    yield "by name", _exported(library)
    yield "RTLD_DEFAULT", _exported(ctypes.CDLL(None))
    if hasattr(library, "cuGetProcAddress"):
        yield "cuGetProcAddress", _resolved(library.cuGetProcAddress)
    if hasattr(library, "cuGetProcAddress_v2"):
        yield "cuGetProcAddress_v2", _resolved(library.cuGetProcAddress_v2, byref(c_int()))
    yield _BY_PATH, _exported(ctypes.CDLL(real))


def _refused(reader: Reader | None) -> int:
    return 0 if reader is None else sum(card.refused for card in reader.usage().values())


def _verdict(reader: Reader | None, call: Callable[[Any, int], Answer] | None, find: Any, size: int) -> str:
    if call is None:
        return "-"
    before = _refused(reader)
    try:
        result, undo = call(find, size)
    except AttributeError:
        return "the driver lacks it"
    if result == 0:
        undo()
        return "GOT PAST"
    if reader is None or _refused(reader) > before:
        return "refused" if result == _OUT_OF_MEMORY else f"refused with {result}"
    return f"the driver refused ({result})"


def _begin() -> str:
    """Make a context of the first GPU current. Returns what is wrong, or an empty text."""
    library, context = ctypes.CDLL("libcuda.so.1"), c_void_p()
    for result in (
        library.cuInit(0),
        library.cuDevicePrimaryCtxRetain(byref(context), 0),
        library.cuCtxSetCurrent(context),
    ):
        if result:
            return f"the driver does not start: error {result}"
    return ""


def _shown_total() -> int:
    free, total = c_size_t(), c_size_t()
    return total.value if ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2(byref(free), byref(total)) == 0 else 0


def _limit(reader: Reader | None) -> int:
    """The limit of the first GPU, which is the same for all."""
    if reader is None:
        return sizes.size("GPUCONF_LIMIT", os.environ.get("GPUCONF_LIMIT") or "0")
    cards = reader.usage()
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
    return cards[first].limit if first in cards else max(card.limit for card in cards.values())


def _real(reader: Reader | None) -> str | None:
    """The path of the driver's library."""
    if reader is None:
        return find("libcuda.so.1", os.environ)
    return os.readlink(os.path.join(os.path.dirname(reader.path), "libgpuconf-driver.so"))


def main() -> int:
    """Try every way, print a table, and return the exit code."""
    reader = current()
    limit, real = _limit(reader), _real(reader)
    wrong = "the program has no limit" if limit == 0 else "there is no driver" if real is None else _begin()
    if wrong or real is None:
        print(f"gpuconf run --check: {wrong}", file=sys.stderr)
        return ERROR
    library, size, rows = load_runtime(), limit + _GRANULE, list[list[str]]()
    for way, found in _ways(real):
        if way == _BY_PATH and library is not None:  # before that one, whose memory the driver's pool may keep
            rows.append(
                ["CUDA runtime", *(_verdict(reader, RUNTIME_CALLS.get(name), library, size) for name in _CALLS)]
            )
        rows.append([way, *(_verdict(reader, call, found, size) for call in _CALLS.values())])
    print_table(["way", *_CALLS], rows)
    if library is None:
        print("the CUDA runtime was not tried: this Python finds no libcudart")
    total = _shown_total()
    print(f"limit {human_bytes(limit)}; the driver reports a total of {human_bytes(total)}")
    past = [row[0] for row in rows if "GOT PAST" in row]
    if past:
        hint = "; --guard=preload covers it" if past == [_BY_PATH] else ""
        print(f"memory beyond the limit was allocated: {', '.join(past)}{hint}")
    return CONDITION if past or total > limit else OK


if __name__ == "__main__":
    sys.exit(main())
