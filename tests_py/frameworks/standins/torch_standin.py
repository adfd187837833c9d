"""A stand-in for PyTorch, for machines without it: its behavior with foreign allocators, without tensors.

Installed as the module ``torch``. ``test_torch.py`` tests the real one if it is installed.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

HOOKS: dict[str, int] = {}
STREAMS: list[str] = []  # what happened to streams
queued: list[Callable[[], None]] = []
initialized = False
plugged: Any = None
device = 0


class OutOfMemoryError(RuntimeError):
    pass


class Hooks:
    def __getattr__(self, name: str) -> Callable[[int], None]:
        return lambda address: HOOKS.__setitem__(name, address)


class CUDAPluggableAllocator:
    """Opens the library and gets two of its functions; keeps size, device and stream of each pointer, and passes them
    to free.
    """

    def __init__(self, path: str, alloc: str, free: str) -> None:
        library = ctypes.CDLL(path)
        self.alloc, self.free, self.names = library[alloc], library[free], (alloc, free)
        self.alloc.restype = ctypes.c_void_p
        self.alloc.argtypes = (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        self.free.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        self.kept: dict[int, tuple[int, int, int]] = {}

    def allocator(self) -> Hooks:
        return Hooks()

    def raw_alloc(self, size: int) -> int:
        init()
        what = (size, device, Stream.current.cuda_stream)
        pointer = self.alloc(*what) or 0
        self.kept[pointer] = what
        return int(pointer)

    def raw_delete(self, pointer: int) -> None:
        self.free(pointer, *self.kept.pop(pointer))


def change_current_allocator(allocator: CUDAPluggableAllocator) -> None:
    global plugged
    if initialized:
        raise RuntimeError("Can't swap an already initialized allocator")
    plugged = allocator


def init() -> None:
    global initialized
    if not initialized:
        initialized = True
        for call in queued:
            call()


class Stream:
    current: Stream

    def __init__(self, cuda_stream: int = 0, device: int = 0) -> None:
        self.cuda_stream, self.device = cuda_stream, device

    def wait_stream(self, other: Stream) -> None:
        STREAMS.append(f"{bool(self.cuda_stream)} waits for {bool(other.cuda_stream)}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    __hash__ = None  # type: ignore[assignment]


Stream.current = Stream()


@contextlib.contextmanager
def on_stream(stream: Stream) -> Iterator[None]:
    before, Stream.current = Stream.current, stream
    try:
        yield
    finally:
        Stream.current = before


@contextlib.contextmanager
def on_device(number: int) -> Iterator[None]:
    global device
    before, device = device, number
    try:
        yield
    finally:
        device = before


def unsupported(name: str) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise RuntimeError(f"CUDAPluggableAllocator does not yet support {name}.")

    return call


def install() -> types.ModuleType:
    """Put the stand-in where ``import torch`` finds it."""
    torch: Any = types.ModuleType("torch")
    torch.__version__ = "0.stand-in"
    torch.OutOfMemoryError = OutOfMemoryError
    torch.backends = types.SimpleNamespace(cuda=types.SimpleNamespace(is_built=lambda: True))
    torch._C = types.ModuleType("torch._C")
    for name in """
        memoryStats resetPeakMemoryStats resetAccumulatedMemoryStats getMemoryFraction memorySnapshot
    """.split():
        setattr(torch._C, f"_cuda_{name}", unsupported(name))
    for name in ("getDeviceStats", "resetPeakStats", "resetAccumulatedStats", "getMemoryInfo"):
        setattr(torch._C, f"_accelerator_{name}", unsupported(name))
    torch._C._accelerator_isAllocatorInitialized = lambda: False  # PyTorch's result with a foreign allocator
    torch._C._cuda_cudaCachingAllocator_enable = lambda value: None
    torch.cuda = types.ModuleType("torch.cuda")
    torch.cuda.memory = types.ModuleType("torch.cuda.memory")
    torch.cuda.memory.CUDAPluggableAllocator = CUDAPluggableAllocator
    torch.cuda.memory.change_current_allocator = change_current_allocator
    torch.cuda.is_initialized = lambda: initialized
    torch.cuda._lazy_call = lambda call: call() if initialized else queued.append(call)
    torch.cuda.device, torch.cuda.stream = on_device, on_stream
    torch.cuda.ExternalStream = Stream
    torch.cuda.default_stream = lambda number: Stream(0, number)
    torch.cuda.current_stream = lambda _: Stream.current
    torch.cuda.mem_get_info = torch.cuda.memory.mem_get_info = unsupported("mem_get_info")
    torch.cuda.memory_summary = torch.cuda.memory.memory_summary = unsupported("memory_summary")
    torch.cuda._get_device_index = lambda given, optional: device if given is None else given
    for module in (torch, torch._C, torch.cuda, torch.cuda.memory):
        sys.modules[module.__name__] = module
    return torch
