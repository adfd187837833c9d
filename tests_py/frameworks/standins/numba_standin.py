"""A stand-in for numba-cuda, for machines without it: its documented interface for External Memory Management.

Installed as ``numba.cuda`` and ``cuda.bindings.driver``. ``test_numba.py`` tests the real one if it is installed.
"""

import contextlib
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

waits = 0


class MemoryInfo(NamedTuple):
    free: int
    total: int


class MemoryPointer:
    """Calls its finalizer once, when it is collected."""

    def __init__(
        self, context: Any, pointer: int, size: int, owner: Any = None, finalizer: Callable[[], None] | None = None
    ) -> None:
        self.handle, self.size = pointer, size
        if finalizer is not None:
            weakref.finalize(self, finalizer)


class Deallocations:
    is_disabled = False


class HostOnlyCUDAMemoryManager:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.context = kwargs.pop("context")
        self.deallocations = Deallocations()

    def reset(self) -> None:
        pass

    @contextlib.contextmanager
    def defer_cleanup(self) -> Iterator[None]:
        self.deallocations.is_disabled = True
        yield
        self.deallocations.is_disabled = False


class GetIpcHandleMixin:
    def get_ipc_handle(self, memory: MemoryPointer) -> Any:
        raise CudaAPIError("no driver")


class CudaAPIError(Exception):
    pass


class DeviceNumber:
    """The type of a device's number in numba-cuda 0.20: an object of cuda.bindings, which ctypes rejects."""

    def __int__(self) -> int:
        return 0


class Context:
    def __init__(self) -> None:
        self.device = types.SimpleNamespace(id=DeviceNumber())
        self.memory_manager = module.cudadrv.driver._memory_manager(context=self)

    def create_stream(self) -> object:
        return object()

    def synchronize(self) -> None:
        global waits
        waits += 1


module: Any = types.ModuleType("numba.cuda")


def install() -> types.ModuleType:
    """Put the stand-in where imports find it."""
    numba: Any = types.ModuleType("numba")
    numba.cuda = module
    bindings: Any = types.ModuleType("cuda.bindings.driver")
    bindings.CUdeviceptr = int
    driver: Any = types.ModuleType("numba.cuda.cudadrv.driver")
    driver._memory_manager = None
    driver.driver = types.SimpleNamespace(is_initialized=False, devices={})
    driver.CudaAPIError = CudaAPIError
    module.cudadrv = types.ModuleType("numba.cuda.cudadrv")
    module.cudadrv.driver = driver
    module.HostOnlyCUDAMemoryManager, module.GetIpcHandleMixin = HostOnlyCUDAMemoryManager, GetIpcHandleMixin
    module.MemoryPointer, module.MemoryInfo = MemoryPointer, MemoryInfo
    module.gpus = [contextlib.nullcontext()] * 4

    def set_memory_manager(plugin: Any) -> None:
        if plugin(context=None).interface_version != 1:
            raise RuntimeError("EMM Plugin interface version 1 required")
        driver._memory_manager = plugin

    module.set_memory_manager = set_memory_manager
    names = {
        "numba": numba,
        "numba.cuda": module,
        "numba.cuda.cudadrv": module.cudadrv,
        "numba.cuda.cudadrv.driver": driver,
        "cuda": types.ModuleType("cuda"),
        "cuda.bindings": types.ModuleType("cuda.bindings"),
        "cuda.bindings.driver": bindings,
    }
    sys.modules.update(names)
    return numba
