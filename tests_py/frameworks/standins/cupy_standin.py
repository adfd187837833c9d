"""A stand-in for CuPy's documented interface for allocators, installed as the module ``cupy``.

For what the real CuPy cannot do without a GPU: query the driver for the current device, and start its own allocator.
"""

from __future__ import annotations

import sys
import types
from typing import Any


class OutOfMemoryError(MemoryError):
    def __init__(self, size: int, total: int, limit: int = 0) -> None:
        super().__init__(
            f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes, limit set to: {limit:,} "
            "bytes)."
        )


class UnownedMemory:
    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        if device_id < 0 and ptr == 0:
            raise RuntimeError("UnownedMemory requires explicit device ID for a null pointer.")
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    def __init__(self, mem: UnownedMemory, offset: int) -> None:
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id


class Stream:
    current: Stream

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


Stream.current = Stream(0)


class Device:
    current = 0

    def __init__(self, number: int) -> None:
        self.number, self.before = number, 0

    def __enter__(self) -> None:
        self.before, Device.current = Device.current, self.number

    def __exit__(self, *_: object) -> None:
        Device.current = self.before


class Pool:
    bytes_held = 0

    def total_bytes(self) -> int:
        return Pool.bytes_held


def install() -> types.ModuleType:
    """Put the stand-in where ``import cupy`` finds it."""
    cupy: Any = types.ModuleType("cupy")
    cupy.__version__ = "14.2.0"
    cupy.cuda = types.ModuleType("cupy.cuda")
    cupy.cuda.memory = types.ModuleType("cupy.cuda.memory")
    cupy.cuda.device = types.SimpleNamespace(get_device_id=lambda: Device.current)
    cupy.cuda.stream = types.ModuleType("cupy.cuda.stream")
    cupy.cuda.runtime = types.SimpleNamespace(CUDARuntimeError=RuntimeError)
    cupy.cuda.memory.OutOfMemoryError = OutOfMemoryError
    cupy.cuda.memory.UnownedMemory = UnownedMemory
    cupy.cuda.memory.MemoryPointer = cupy.cuda.MemoryPointer = MemoryPointer
    cupy.cuda.get_current_stream = lambda: Stream.current
    cupy.cuda.Device = Device
    cupy.cuda.set_allocator = lambda allocator: setattr(cupy.cuda, "allocator", allocator)
    cupy.get_default_memory_pool = Pool
    cupy.Stream = Stream
    sys.modules.update({"cupy": cupy, "cupy.cuda": cupy.cuda, "cupy.cuda.memory": cupy.cuda.memory})
    return cupy
