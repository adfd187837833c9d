"""PyTorch on gpuconf's pools, in one of two modes.

``"whole"``, the default: every byte of device memory that PyTorch's allocator hands out, in every thread, is gpuconf's: autograd's
workers too. Its memory functions (``torch.cuda.memory_allocated`` and so on) answer with gpuconf's books, and out of memory is
``torch.OutOfMemoryError``. Not available, because PyTorch doesn't offer it to foreign allocators: CUDA graphs and ``MemPool`` (a
clear error), sharing CUDA tensors between processes, a recorded history, out-of-memory observers, and cuDNN's benchmark mode in
those versions that ask the allocator how much is free.

``"segments"``: PyTorch keeps its own caching allocator, with its statistics, snapshots and graphs, and gets its segments (2 MiB and
more) from gpuconf through a ``torch.cuda.MemPool`` for each logical GPU. A MemPool routes only the threads that have entered it:
here the thread that first used CUDA, and every thread inside ``with gpuconf.device(...)`` or :func:`segments`. **A backward pass
runs in autograd's own threads: what it allocates (gradients above all) comes from PyTorch's own memory, outside the limit.**
Hence the default.

In mode whole an inner ``with gpuconf.device("GPU:1"):`` also makes the logical GPU's own CUDA stream the current one where several
logical GPUs share a card, because a backward pass runs in its forward pass's streams, and that is how it is recognised.
On entering and leaving, the streams wait for each other. Operations in streams of your own inside a scope have backward passes
that count for the card's first logical GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch

from .. import _abi, _runtime, _scope, errors
from .._device_argument import Device
from .._fork import module_lock
from .._typing import Any
from . import _share, _torch_books

__all__ = ["MODES", "install", "installed", "mem_pool", "segments"]

MODES = ("whole", "segments")

_lock = module_lock(globals(), "_lock")
_mode: str | None = None
_allocator: Any = None  # PyTorch keeps a pointer to it for good
_pools: dict[int, Any] = {}  # segments: a MemPool for each logical GPU that was used; they outlive their tensors
_runtime.on_forget(_pools.clear)


def installed() -> str | None:
    """The mode in which PyTorch runs on gpuconf, or None."""
    return _mode


def used() -> bool:
    """Whether PyTorch has used the GPU already."""
    return bool(torch.cuda.is_initialized())


def install(mode: str = "whole") -> None:
    """Let PyTorch take its device memory from gpuconf; see the module for what the modes mean. The same call again does nothing.

    Uses no GPU yet: gpuconf's devices are initialised when PyTorch first uses CUDA. Can't be undone.

    Raises FailedPreconditionError where PyTorch has used the GPU already, has no CUDA, the other mode is installed, or the GPUs are
    simulated; ValueError for an unknown mode.
    """
    global _mode
    if mode not in MODES:
        raise errors.InvalidArgumentError(f"mode must be 'whole' or 'segments', but got {mode!r}")
    with _lock:
        if _mode == mode:
            return
        if _mode is not None:
            raise errors.FailedPreconditionError(
                f"PyTorch runs on gpuconf in mode {_mode!r} already; start a new process for {mode!r}"
            )
        if not torch.backends.cuda.is_built():
            raise errors.FailedPreconditionError(f"this PyTorch ({torch.__version__}) is built without CUDA")
        _share.require_real("PyTorch")
        if used():
            raise errors.FailedPreconditionError(
                "PyTorch has used the GPU already: its memory is outside gpuconf, and its allocator can't be exchanged any more. "
                "Call gpuconf.configure() or gpuconf.allocators.torch.install() before anything of torch.cuda"
            )
        if mode == "whole":
            _plug()
            _torch_books.replace()
            _scope.companions["torch"] = _follow
        else:
            _make_segment_allocator()
            _scope.companions["torch"] = _follow_in_segments
        torch.cuda._lazy_call(_begin)
        _mode = mode


def _begin() -> None:
    """Run by PyTorch when it first uses CUDA, before its first allocation."""
    _runtime.logical_devices("torch")
    if _mode == "segments":
        for ordinal in dict.fromkeys(_runtime.ordinals()):
            context = segments(_share.name_of(_share.routed(ordinal, "torch")))
            context.__enter__()  # for good, in this thread
            _entered_for_good.append(context)


_entered_for_good: list[Any] = []  # a context that is collected ends


def _plug() -> None:
    """Make gpuconf's functions PyTorch's allocator, with the hooks that the Python constructor leaves out."""
    global _allocator
    from .._native import library_path

    _abi.library()
    plugged = torch.cuda.memory.CUDAPluggableAllocator(library_path(), "gpuconf_torch_malloc", "gpuconf_torch_free")
    hooks = plugged.allocator()
    hooks.set_record_stream_fn(_abi.address("gpuconf_torch_record_stream"))
    hooks.set_reset_fn(_abi.address("gpuconf_torch_reset"))
    hooks.set_memory_fraction_fn(_abi.address("gpuconf_torch_memory_fraction"))
    hooks.set_base_alloc_fn(_abi.address("gpuconf_torch_base_alloc"))
    hooks.set_begin_allocate_to_pool(_abi.address("gpuconf_torch_begin_pool"))
    torch.cuda.memory.change_current_allocator(plugged)
    _allocator = plugged


def _make_segment_allocator() -> None:
    """For MemPool, which takes a null pointer for out of memory, frees its caches and tries again: nothing is thrown."""
    global _allocator
    from .._native import library_path

    _abi.library()
    _allocator = torch.cuda.memory.CUDAPluggableAllocator(library_path(), "gpuconf_malloc", "gpuconf_free")


def _follow(number: int) -> AbstractContextManager[Any]:
    """Mode whole, inside a scope: the logical GPU's device, and its stream where it shares the card."""
    ordinals = _runtime.ordinals()
    ordinal = ordinals[number]
    with contextlib.ExitStack() as stack:  # not a generator, which Python would finish at exit, when PyTorch is taken apart
        stack.enter_context(torch.cuda.device(ordinal))
        if ordinals.count(ordinal) > 1:
            before, own = torch.cuda.current_stream(ordinal), _stream_of(number, ordinal)
            if own != before:
                own.wait_stream(before)
                stack.enter_context(torch.cuda.stream(own))
                stack.callback(before.wait_stream, own)
        return stack.pop_all()


def _stream_of(number: int, ordinal: int) -> Any:
    handle = _abi.logical_stream(number)
    return torch.cuda.ExternalStream(handle, device=ordinal) if handle else torch.cuda.default_stream(ordinal)


def mem_pool(device: Device | None = None) -> Any:
    """The ``torch.cuda.MemPool`` whose segments come from a logical GPU: "GPU:1", else the thread's. Mode segments only.

    Raises FailedPreconditionError in another mode.
    """
    if _mode != "segments":
        raise errors.FailedPreconditionError("call gpuconf.allocators.torch.install(mode='segments') first")
    number = _scope.gpu_number(device, "allocators.torch.mem_pool")
    return _pool(number if number >= 0 else max(_scope.current_gpu(), 0))


def _pool(number: int) -> Any:
    with _lock:
        if number not in _pools:
            with torch.cuda.device(_runtime.ordinals()[number]):
                _pools[number] = torch.cuda.MemPool(_allocator.allocator())
        return _pools[number]


@contextlib.contextmanager
def segments(device: Device | None = None) -> Iterator[None]:
    """Route this thread's allocations to a logical GPU through its MemPool, for a ``with`` block. Mode segments only.

    ``with gpuconf.device("GPU:1"):`` does it too. For threads that you start yourself: without it they use PyTorch's own memory.
    """
    pool = mem_pool(device)
    number = _scope.gpu_number(device, "allocators.torch.segments")
    ordinal = _runtime.ordinals()[number if number >= 0 else max(_scope.current_gpu(), 0)]
    with torch.cuda.use_mem_pool(pool, torch.device("cuda", ordinal)):
        yield


def _follow_in_segments(number: int) -> AbstractContextManager[Any]:
    stack = contextlib.ExitStack()
    ordinal = _runtime.ordinals()[number]
    stack.enter_context(torch.cuda.device(ordinal))
    stack.enter_context(torch.cuda.use_mem_pool(_pool(number), torch.device("cuda", ordinal)))
    return stack


def __dir__() -> list[str]:
    return __all__
