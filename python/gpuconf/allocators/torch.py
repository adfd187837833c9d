"""PyTorch on gpuconf's pools, in one of two modes.

``"whole"``, the default: every allocation of device memory is gpuconf's own. PyTorch's memory functions
(``torch.cuda.memory_allocated`` and so on) answer with gpuconf's accounting, and running out of memory raises
``torch.OutOfMemoryError`` with gpuconf's text. PyTorch does not offer to foreign allocators: pools shared by CUDA graphs and
``MemPool`` (a clear error), sharing CUDA tensors between processes, a recorded history, out-of-memory observers, and cuDNN's
benchmark mode in those versions that ask the allocator how much memory is free.

``"segments"``: PyTorch keeps its own caching allocator, with its statistics, snapshots, graphs and pools, and takes the allocator's
segments from gpuconf: what it would take with ``cudaMalloc``, in pieces of 2 MiB, 20 MiB and more. Expandable segments do
not use ``cudaMalloc`` and are refused.

In both modes all threads are routed, autograd's too. Where several logical GPUs share a card, an inner
``with gpuconf.device("GPU:1"):`` also makes the logical GPU's own CUDA stream the current one, because a backward pass runs in the
streams of its forward pass, and that is how it is recognized. On entering and leaving, the streams wait for each other.
Operations in streams of your own inside a scope have backward passes that count for the card's first logical GPU.
"""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

import torch

from .. import errors
from .._core import abi, runtime, scope
from .._core.fork import module_lock
from .._typing import Any
from . import _share, _torch_books, _torch_segments, _versions

__all__ = ["MODES", "install", "installed"]

MODES = ("whole", "segments")

_lock = module_lock(globals(), "_lock")
_mode: str | None = None
_allocator: Any = None  # PyTorch keeps a pointer to it for good


def installed() -> str | None:
    """The mode in which PyTorch runs on gpuconf, or None."""
    return _mode


def used() -> bool:
    """Whether PyTorch has used the GPU already."""
    return bool(torch.cuda.is_initialized())


def install(mode: str = "whole") -> None:
    """Let PyTorch take its device memory from gpuconf; see the module for what the modes mean. The same call again does nothing.

    Uses no GPU yet: gpuconf's devices are initialised when PyTorch first uses CUDA. Can't be undone.

    Raises FailedPreconditionError where PyTorch has used the GPU already, has no CUDA, the other mode is installed, the GPUs are
    simulated, or PyTorch's settings contradict the mode; ValueError for an unknown mode.
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
        else:
            _torch_segments.install()
        scope.companions["torch"] = _follow
        torch.cuda._lazy_call(_begin)
        _mode = mode
    _versions.check("torch", torch.__version__)


def _begin() -> None:
    """Run by PyTorch when it first uses CUDA, before its first allocation."""
    runtime.logical_devices("torch")


def _plug() -> None:
    """Make gpuconf's functions PyTorch's allocator, with the hooks that the Python constructor leaves out."""
    global _allocator
    from .._core.native import library_path

    abi.library()
    plugged = torch.cuda.memory.CUDAPluggableAllocator(library_path(), "gpuconf_torch_malloc", "gpuconf_torch_free")
    hooks = plugged.allocator()
    hooks.set_record_stream_fn(abi.address("gpuconf_torch_record_stream"))
    hooks.set_reset_fn(abi.address("gpuconf_torch_reset"))
    hooks.set_memory_fraction_fn(abi.address("gpuconf_torch_memory_fraction"))
    hooks.set_base_alloc_fn(abi.address("gpuconf_torch_base_alloc"))
    hooks.set_begin_allocate_to_pool(abi.address("gpuconf_torch_begin_pool"))
    torch.cuda.memory.change_current_allocator(plugged)
    _allocator = plugged


def _follow(number: int) -> AbstractContextManager[Any]:
    """Inside a scope: the logical GPU's device, and its stream where it shares the card."""
    ordinals = runtime.ordinals()
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
    handle = abi.logical_stream(number)
    return torch.cuda.ExternalStream(handle, device=ordinal) if handle else torch.cuda.default_stream(ordinal)


def __dir__() -> list[str]:
    return __all__
