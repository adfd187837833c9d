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

Find = Callable[[str, int], Any]  # the exported name of a function, and the version of CUDA that brought it

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


def _taken(find: Find, made: Any, function: tuple[str, int], arguments: tuple[Any, ...], *undo: Any) -> Answer:
    """Call a function that allocates. ``undo`` is the one that releases, and what it takes after what was made."""
    result = find(*function)(byref(made), *arguments)
    return result, lambda: find(*undo[0])(made, *undo[1:])


def _pitch(size: int) -> tuple[Any, ...]:
    return byref(c_size_t()), c_size_t(65536), c_size_t(-(-size // 65536))


def _sides(size: int) -> tuple[int, int, int]:
    return 4096, 4096, -(-size // (4096 * 4096 * 4))


_RUNTIME_FREE = ("cudaFree", 0)


def _runtime_linear(find: Find, size: int) -> Answer:
    return _taken(find, c_void_p(), ("cudaMalloc", 0), (c_size_t(size),), _RUNTIME_FREE)


def _runtime_pitched(find: Find, size: int) -> Answer:
    return _taken(find, c_void_p(), ("cudaMallocPitch", 0), _pitch(size), _RUNTIME_FREE)


def _runtime_managed(find: Find, size: int) -> Answer:
    return _taken(find, c_void_p(), ("cudaMallocManaged", 0), (c_size_t(size), c_uint(1)), _RUNTIME_FREE)


def _runtime_ordered(find: Find, size: int) -> Answer:
    return _taken(find, c_void_p(), ("cudaMallocAsync", 0), (c_size_t(size), None), ("cudaFreeAsync", 0), None)


def _runtime_array(find: Find, size: int) -> Answer:
    arguments = byref(_Format(32, 0, 0, 0, 2)), _Extent(*_sides(size)), c_uint(0)
    return _taken(find, c_void_p(), ("cudaMalloc3DArray", 0), arguments, ("cudaFreeArray", 0))


RUNTIME_CALLS: Mapping[str, Callable[[Find, int], Answer]] = {
    "cuMemAlloc": _runtime_linear,
    "cuMemAllocPitch": _runtime_pitched,
    "cuMemAllocManaged": _runtime_managed,
    "cuMemAllocAsync": _runtime_ordered,
    "cuArray3DCreate": _runtime_array,
}
"""What the runtime does by each function of the driver. It has no way to ``cuMemCreate``."""


_GRANULE = 2 << 20
_OUT_OF_MEMORY = 2
_FREE = ("cuMemFree_v2", 3020)


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
    return _taken(find, c_uint64(), ("cuMemAlloc_v2", 3020), (c_size_t(size),), _FREE)


def _pitched(find: Find, size: int) -> Answer:
    return _taken(find, c_uint64(), ("cuMemAllocPitch_v2", 3020), (*_pitch(size), c_uint(4)), _FREE)


def _managed(find: Find, size: int) -> Answer:
    return _taken(find, c_uint64(), ("cuMemAllocManaged", 6000), (c_size_t(size), c_uint(1)), _FREE)


def _ordered(find: Find, size: int) -> Answer:
    undo = ("cuMemFreeAsync", 11020), None
    return _taken(find, c_uint64(), ("cuMemAllocAsync", 11020), (c_size_t(size), None), *undo)


def _virtual(find: Find, size: int) -> Answer:
    arguments = c_size_t(-(-size // _GRANULE) * _GRANULE), byref(_Prop(1, 0, 1, 0, None)), c_ulonglong(0)
    return _taken(find, c_uint64(), ("cuMemCreate", 10020), arguments, ("cuMemRelease", 10020))


def _array(find: Find, size: int) -> Answer:
    shape = _Shape(*_sides(size), 0x20, 1, 0)
    return _taken(find, c_void_p(), ("cuArray3DCreate_v2", 3020), (byref(shape),), ("cuArrayDestroy", 2000))


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
    return lambda exported, _version: getattr(library, exported)


def _resolved(resolver: Any, *more: Any) -> Find:
    def find(exported: str, version: int) -> Any:
        address, base = c_void_p(), exported.removesuffix("_v2")
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


def _verdict(reader: Reader | None, call: Callable[[Find, int], Answer] | None, find: Find, size: int) -> str:
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
    begun = library.cuInit(0), library.cuDevicePrimaryCtxRetain(byref(context), 0)
    for result in (*begun, library.cuCtxSetCurrent(context)):
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
            calls = (RUNTIME_CALLS.get(name) for name in _CALLS)
            rows.append(["CUDA runtime", *(_verdict(reader, call, _exported(library), size) for call in calls)])
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
