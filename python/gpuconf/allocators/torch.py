# SPDX-License-Identifier: Apache-2.0
"""PyTorch on gpuconf's pools, in one of two modes.

``"whole"``, the default: gpuconf serves every allocation of device memory. PyTorch's memory functions
(``torch.cuda.memory_allocated`` and so on) report gpuconf's accounting, and running out of memory raises
``torch.OutOfMemoryError`` with gpuconf's message. PyTorch does not support these with foreign allocators: pools shared
by CUDA graphs and ``MemPool`` (a clear error), sharing CUDA tensors between processes, memory history, out-of-memory
observers, and cuDNN's benchmark mode in versions that query the allocator for free memory.

``"segments"``: PyTorch keeps its own caching allocator, with its statistics, snapshots, graphs and pools. gpuconf
supplies the segments that this allocator would request with ``cudaMalloc``, of 2 MiB, 20 MiB and more. Expandable
segments do not use ``cudaMalloc`` and are rejected.

Both modes apply to all threads, including autograd's. If several logical GPUs share a physical GPU,
``with gpuconf.device("GPU:1"):`` also makes the logical GPU's own CUDA stream current: a backward pass runs on the
streams of its forward pass, and gpuconf identifies the logical GPU by the stream. On entry and exit the streams
synchronize with each other. For operations that use your own streams inside a scope, the backward pass counts against
the first logical GPU of the
card.
"""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

try:
    import torch
except ImportError as _error:
    from .._core import texts as _texts

    raise _texts.missing("gpuconf.allocators.torch needs", "PyTorch", "torch", _error) from _error

from .. import errors
from .._core import abi, runtime, scope
from .._core.fork import module_lock
from .._typing import Any
from . import _share, _torch_accounting, _torch_segments

__all__ = ["MODES", "install", "installed"]

MODES = ("whole", "segments")

_lock = module_lock(globals(), "_lock")
_mode: str | None = None
_allocator: Any = None  # PyTorch keeps a pointer to it until the process ends


def installed() -> str | None:
    """The mode in which PyTorch runs on gpuconf, or None."""
    return _mode


def used() -> bool:
    """Report whether PyTorch has already used the GPU."""
    return bool(torch.cuda.is_initialized())


def install(mode: str = "whole") -> None:
    """Make gpuconf supply PyTorch's device memory.

    The module describes the modes. A second call with the same mode does nothing.

    Does not use the GPU yet: gpuconf's devices are initialized when PyTorch first uses CUDA. Cannot be undone.

    Raises FailedPreconditionError if PyTorch has already used the GPU, was built without CUDA or runs in the other
    mode, if the GPUs are simulated and PyTorch was imported before that, or if PyTorch's settings contradict the mode;
    and ValueError for an unknown mode.
    """
    global _mode
    if mode not in MODES:
        raise errors.InvalidArgumentError(f"mode must be 'whole' or 'segments', but got {mode!r}")
    with _lock:
        if _mode == mode:
            return
        if _mode is not None:
            raise errors.FailedPreconditionError(
                f"PyTorch already runs on gpuconf in mode {_mode!r}; start a new process for {mode!r}"
            )
        if not torch.backends.cuda.is_built():
            raise errors.FailedPreconditionError(f"this PyTorch ({torch.__version__}) was built without CUDA")
        why = "its allocator can no longer be replaced"
        _share.require_unused("PyTorch", "torch", used(), why, "using torch.cuda")
        if mode == "whole":
            _plug()
            _torch_accounting.replace()
        else:
            _torch_segments.install()
            _torch_accounting.replace_info()
        scope.companions["torch"] = _follow
        torch.cuda._lazy_call(_begin)
        _mode = mode
    _share.check("torch", torch.__version__)


def _begin() -> None:
    """Initialize the devices. PyTorch calls this when it first uses CUDA, before its first allocation."""
    runtime.logical_devices("torch")


def _plug() -> None:
    """Make gpuconf's functions PyTorch's allocator, and set the hooks that the Python constructor does not take."""
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
    """Return a context for the logical GPU's device, and for its stream if it shares the physical GPU."""
    ordinals = runtime.ordinals()
    ordinal = ordinals[number]
    with contextlib.ExitStack() as stack:  # not a generator: Python would resume it at exit, after PyTorch is torn down
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
