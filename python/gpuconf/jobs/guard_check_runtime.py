# SPDX-License-Identifier: Apache-2.0
"""The way of ``gpuconf run --check`` through the CUDA runtime, which most programs take to the driver."""

from __future__ import annotations

import ctypes
import glob
import os
import sysconfig
from collections.abc import Callable, Mapping
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p

from .._typing import Any

_NAMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0")

Answer = tuple[int, Callable[[], object]]
"""The result of a request, and what gives it back."""


class _Extent(ctypes.Structure):
    """cudaExtent."""

    _fields_ = (("width", c_size_t), ("height", c_size_t), ("depth", c_size_t))


class _Format(ctypes.Structure):
    """cudaChannelFormatDesc: bits of each channel, and their kind."""

    _fields_ = (("x", c_int), ("y", c_int), ("z", c_int), ("w", c_int), ("kind", c_int))


def load() -> Any | None:
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


def _linear(runtime: Any, size: int) -> Answer:
    address = c_void_p()
    return runtime.cudaMalloc(byref(address), c_size_t(size)), lambda: runtime.cudaFree(address)


def _pitched(runtime: Any, size: int) -> Answer:
    address, pitch = c_void_p(), c_size_t()
    result = runtime.cudaMallocPitch(byref(address), byref(pitch), c_size_t(65536), c_size_t(-(-size // 65536)))
    return result, lambda: runtime.cudaFree(address)


def _managed(runtime: Any, size: int) -> Answer:
    address = c_void_p()
    return runtime.cudaMallocManaged(byref(address), c_size_t(size), c_uint(1)), lambda: runtime.cudaFree(address)


def _ordered(runtime: Any, size: int) -> Answer:
    address = c_void_p()
    return runtime.cudaMallocAsync(byref(address), c_size_t(size), None), lambda: runtime.cudaFreeAsync(address, None)


def _array(runtime: Any, size: int) -> Answer:
    array, form, extent = c_void_p(), _Format(32, 0, 0, 0, 2), _Extent(4096, 4096, -(-size // (4096 * 4096 * 4)))
    result = runtime.cudaMalloc3DArray(byref(array), byref(form), extent, c_uint(0))
    return result, lambda: runtime.cudaFreeArray(array)


CALLS: Mapping[str, Callable[[Any, int], Answer]] = {
    "cuMemAlloc": _linear,
    "cuMemAllocPitch": _pitched,
    "cuMemAllocManaged": _managed,
    "cuMemAllocAsync": _ordered,
    "cuArray3DCreate": _array,
}
"""What the runtime does by each function of the driver. It has no way to ``cuMemCreate``."""
