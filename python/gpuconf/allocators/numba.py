# SPDX-License-Identifier: Apache-2.0
"""Numba on gpuconf's pools: an External Memory Management plug-in.

::

    NUMBA_CUDA_MEMORY_MANAGER=gpuconf.allocators.numba python program.py

or call :func:`install` before the first CUDA context is created. Requires the numba-cuda package.

Numba does not pass streams to a memory manager. While a program uses only the default stream, freed memory can be
reused at once. After the first ``cuda.stream()``, freed memory is queued, as in Numba's own deallocations. When enough
is queued, the manager synchronizes the context once and frees all of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

from . import _share

try:
    from cuda.bindings.driver import CUdeviceptr
    from numba import cuda
    from numba.cuda.cudadrv import driver

    if _share.is_numbas_own(cuda):
        raise ImportError(f"{cuda.__file__} is Numba's own numba.cuda")
except ImportError as _error:
    from .._core import texts as _texts

    raise _texts.missing("gpuconf.allocators.numba needs", "numba-cuda", "numba", _error) from _error

from .. import errors
from .._core import abi, runtime, scope
from .._typing import Any
from . import _share

__all__ = ["GpuconfMemoryManager", "install", "installed"]

_MOST_PENDING, _MOST_PENDING_BYTES = 10, 256 << 20
_STREAM_MAKERS = ("create_stream", "create_external_stream", "get_per_thread_default_stream")


class GpuconfMemoryManager(cuda.GetIpcHandleMixin, cuda.HostOnlyCUDAMemoryManager):  # type: ignore[misc]
    """Numba's memory manager over gpuconf's pools, one per context.

    Device memory only; Numba manages host memory itself.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._blocks: dict[int, int] = {}  # sizes of live blocks by address; a reset replaces the dictionary
        self._pending: list[int] = []  # freed blocks that streams may still use
        self._pending_bytes = 0
        self._streams = False  # whether the program has created streams
        if self.context is not None:  # None if Numba only queries the version
            _share.require_gpu("Numba")
            for name in _STREAM_MAKERS:
                self._watch(name)

    @property
    def interface_version(self) -> int:
        """The version of Numba's interface."""
        return 1

    @property
    def _ordinal(self) -> int:
        return int(self.context.device.id)  # numba-cuda 0.20 has an object of cuda.bindings there

    def initialize(self) -> None:
        """Do nothing: the first allocation initializes gpuconf.

        Numba calls this often, and not always before ``reset``.
        """

    def memalloc(self, size: int) -> Any:
        """Allocate device memory on the logical GPU of the thread's scope.

        Raises MemoryError with gpuconf's message.
        """
        runtime.logical_devices("numba")
        ordinal = self._ordinal
        ptr = abi.malloc("numba", size, ordinal, None)
        if not ptr and size:
            if " an injected failure" not in abi.last_error():  # a retry would hide it
                self.free_pending()  # the queued blocks may be enough
                ptr = abi.malloc("numba", size, ordinal, None)
            if not ptr:
                raise abi.failure()
        if ptr:
            self._blocks[ptr] = size
        return cuda.MemoryPointer(self.context, CUdeviceptr(ptr), size, finalizer=self._finalizer(ptr, size))

    def _finalizer(self, ptr: int, size: int) -> Callable[[], None]:
        blocks = self._blocks

        def finalize() -> None:
            if blocks is not self._blocks or blocks.pop(ptr, None) is None:
                return  # a reset came first
            if not self._streams:
                _free(ptr)
                return
            self._pending.append(ptr)
            self._pending_bytes += size
            if len(self._pending) > _MOST_PENDING or self._pending_bytes > _MOST_PENDING_BYTES:
                self.free_pending()

        return finalize

    def free_pending(self) -> None:
        """Synchronize the context and free the queued blocks. Does nothing inside ``cuda.defer_cleanup()``."""
        if not self._pending or self.deallocations.is_disabled:
            return
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        with cuda.gpus[self._ordinal]:
            self.context.synchronize()
        for ptr in pending:
            _free(ptr)

    def _watch(self, name: str) -> None:
        """Detect the creation of streams by wrapping a method of this one context object."""
        make = getattr(self.context, name, None)
        if make is None:
            return

        def watched(*args: Any, **kwargs: Any) -> Any:
            self._streams = True
            return make(*args, **kwargs)

        setattr(self.context, name, watched)

    def get_memory_info(self) -> Any:
        """Return the memory left within the limit, and the limit, of the logical GPU that this thread allocates
        from.
        """
        stats = _share.stats_of(self._ordinal, "numba")
        return cuda.MemoryInfo(free=stats.bytes_limit - stats.bytes_in_use, total=stats.bytes_limit)

    def get_ipc_handle(self, memory: Any) -> Any:
        """Return an IPC handle of the driver allocation, and the offset in it.

        Raises UnimplementedError for a growing pool.
        """
        try:
            return super().get_ipc_handle(memory)
        except driver.CudaAPIError as error:
            raise errors.UnimplementedError(
                f"CUDA IPC cannot share the memory of a growing pool between processes ({error}): configure "
                "growth=False"
            ) from error

    def reset(self) -> None:
        """Free all memory of this context. Arrays that remain are invalid, as with Numba's own manager."""
        super().reset()
        blocks, self._blocks = self._blocks, {}
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        for ptr in (*blocks, *pending):
            _free(ptr)


def _free(ptr: int) -> None:
    abi.library().gpuconf_free(ptr, 0, 0, None)


_numba_memory_manager = GpuconfMemoryManager


def installed() -> bool:
    """Report whether Numba creates its contexts with gpuconf's memory manager."""
    return driver._memory_manager is GpuconfMemoryManager


def used() -> bool:
    """Report whether Numba already has a CUDA context."""
    if not driver.driver.is_initialized:
        return False
    return any(device.primary_context is not None for device in driver.driver.devices.values())


def install() -> None:
    """Make gpuconf Numba's memory manager. A second call does nothing.

    Raises FailedPreconditionError if Numba already has a CUDA context, or the GPUs are simulated.
    """
    if not installed():
        why = "its context has its own memory manager"
        _share.require_unused("Numba", "numba", used(), why, "the first use of numba.cuda")
        cuda.set_memory_manager(GpuconfMemoryManager)
        version = getattr(sys.modules.get("numba_cuda"), "__version__", "of an unknown version")
        _share.check("numba-cuda", version)
    scope.companions["numba"] = _follow


def _follow(number: int) -> AbstractContextManager[Any]:
    """Return a context for the logical GPU's device.

    Not a generator: Python would resume it at exit, after Numba is torn down.
    """
    device: AbstractContextManager[Any] = cuda.gpus[runtime.ordinals()[number]]
    return device


def __dir__() -> list[str]:
    return __all__
