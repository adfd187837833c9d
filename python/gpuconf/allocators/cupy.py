# SPDX-License-Identifier: Apache-2.0
"""CuPy on gpuconf's pools.

::

    cupy.cuda.set_allocator(gpuconf.allocators.cupy.allocate)      # or install(), which checks that CuPy is still
    unused

An allocation belongs to CuPy's current stream. Running out of memory raises ``cupy.cuda.memory.OutOfMemoryError`` with
gpuconf's message. CuPy's own ``used_bytes`` and memory hooks do not see these allocations: use
``gpuconf.memory.stats()``. CuPy keeps its own pool of pinned host memory.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

try:
    import cupy
    from cupy.cuda import memory
except ImportError as _error:
    from .._core import texts as _texts

    raise _texts.missing("gpuconf.allocators.cupy needs", "CuPy", "cupy", _error) from _error

from .. import errors
from .._core import abi, runtime, scope
from .._typing import Any
from . import _share

__all__ = ["OutOfMemoryError", "allocate", "install", "installed"]


class OutOfMemoryError(errors.ResourceExhaustedError, memory.OutOfMemoryError):  # type: ignore[misc]
    """CuPy's out-of-memory error with gpuconf's message, which has the cause.

    A process that has not imported CuPy unpickles it as a plain ResourceExhaustedError.
    """

    _library = "cupy"

    def __init__(self, text: str, size: int, total: int, limit: int) -> None:
        memory.OutOfMemoryError.__init__(self, size, total, limit)
        self.args: tuple[Any, ...] = (text,)


def allocate(nbytes: int) -> Any:
    """Allocate ``nbytes`` on the current device for the current stream. For ``cupy.cuda.set_allocator``.

    Returns a ``cupy.cuda.MemoryPointer``. Dropping its last reference, in any thread, frees the memory. Raises
    OutOfMemoryError.
    """
    device = cupy.cuda.device.get_device_id()
    owned = _take(nbytes, device)
    if not owned.ptr and nbytes:
        if not runtime.initialized():  # the first allocation
            runtime.logical_devices("cupy")
            return allocate(nbytes)
        raise _failure(nbytes, device)
    return memory.MemoryPointer(owned, 0)


def _failure(nbytes: int, device: int) -> Exception:
    error = abi.failure()
    if not isinstance(error, errors.ResourceExhaustedError):
        return error
    stats = _share.stats_of(device, "cupy")
    return OutOfMemoryError(str(error), nbytes, stats.bytes_in_use, stats.bytes_limit)


def _find_way(nbytes: int, device: int) -> Any:
    """Return memory that frees itself.

    The first call selects the implementation for this CuPy, and replaces itself with it.
    """
    global _take
    _share.require_gpu("CuPy")
    current_stream = _current_stream_function()
    _take = _by_c(current_stream) if current_stream and hasattr(memory, "CFunctionAllocatorMemory") else _by_python
    return _take(nbytes, device)


_take: Callable[[int, int], Any] = _find_way


def _by_c(current_stream: int) -> Callable[[int, int], Any]:
    """Return an allocator that runs in C: CuPy's own memory class calls gpuconf, which gets the stream from CuPy."""
    take, malloc, free = (
        memory.CFunctionAllocatorMemory,
        abi.address("gpuconf_cupy_malloc"),
        abi.address("gpuconf_cupy_free"),
    )

    return lambda nbytes, device: take(nbytes, current_stream, malloc, free, device)


class _Owned:
    """Memory that is freed on the stream that it was allocated for."""

    __slots__ = ("free", "key")

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending

    def __init__(self, ptr: int, nbytes: int, device: int, stream: int) -> None:
        self.key = (ptr, nbytes, device, stream)
        self.free = abi.library().gpuconf_free

    def __del__(self) -> None:
        if not self._ending() and self.key[0]:
            self.free(*self.key)


def _by_python(nbytes: int, device: int) -> Any:
    """Allocate through CuPy's documented interface only, for a CuPy whose functions C cannot find."""
    stream = cupy.cuda.get_current_stream().ptr
    ptr = abi.malloc("cupy", nbytes, device, stream)
    return memory.UnownedMemory(ptr, nbytes, _Owned(ptr, nbytes, device, stream), device)


@functools.cache
def _current_stream_function() -> int:
    """Return the address of CuPy's C function ``intptr_t get_current_stream_ptr()``, exported by a Cython module.

    0 if missing.
    """
    signature = b"intptr_t (void)"
    capsule = getattr(cupy.cuda.stream, "__pyx_capi__", {}).get("get_current_stream_ptr")
    is_valid, pointer = ctypes.pythonapi["PyCapsule_IsValid"], ctypes.pythonapi["PyCapsule_GetPointer"]
    is_valid.argtypes = pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    pointer.restype = ctypes.c_void_p
    if capsule is None or not is_valid(capsule, signature):
        return 0
    return int(pointer(capsule, signature) or 0)


_installed = False


def installed() -> bool:
    """Report whether :func:`install` has made :func:`allocate` CuPy's allocator."""
    return _installed


def used() -> bool:
    """Report whether CuPy's own pool holds device memory."""
    try:
        return bool(cupy.get_default_memory_pool().total_bytes() > 0)
    except cupy.cuda.runtime.CUDARuntimeError:  # no driver, no GPU
        return False


def install() -> None:
    """Make :func:`allocate` CuPy's allocator, in all threads. A second call does nothing.

    Raises FailedPreconditionError if CuPy's own pool already holds memory, or the GPUs are simulated.
    """
    global _installed
    if _installed:
        return
    why = "its pool holds memory outside gpuconf"
    _share.require_unused("CuPy", "cupy", used(), why, "creating the first array")
    cupy.cuda.set_allocator(allocate)
    scope.companions["cupy"] = _follow
    _installed = True
    _share.check("cupy", cupy.__version__)


def _follow(number: int) -> AbstractContextManager[Any]:
    """Return a context for the logical GPU's device.

    Not a generator: Python would resume it at exit, after CuPy is torn down.
    """
    device: AbstractContextManager[Any] = cupy.cuda.Device(runtime.ordinals()[number])
    return device


def __dir__() -> list[str]:
    return __all__
