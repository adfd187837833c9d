# SPDX-License-Identifier: Apache-2.0
"""CPU tensors that a program draws random numbers for, only to copy them to a GPU: in a rehearsal their memory is never
touched.

A random initializer of a whole storage marks it instead of writing to it, and what writes to a marked storage later
does nothing. The mark is an attribute of the storage's Python object, which PyTorch keeps for as long as the storage
lives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import torch

from ..._typing import Any
from . import graphs, memory, moves, small
from .kernels import tensor_places
from .small import LIMIT
from .unmarked import state

REQUESTS = ("aten::empty.memory_format", "aten::empty_strided", "aten::resize_")


def clearing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the kernel of an operator that allocates, which takes a dispatch key set first."""

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        if state.inside:
            return _loudly(original, keys, *args, **named)
        resized = isinstance(args[0], torch.Tensor)
        kept = args[0].untyped_storage().nbytes() if resized else 0
        result = original(keys, *args, **named)
        if _is_filled_by_pytorch() or (moves.only_small and small.is_never_written(result)):
            return result
        storage = result.untyped_storage()
        address, size = storage.data_ptr() + kept, storage.nbytes() - kept
        if size > 0 and storage.data_ptr():
            if graphs.left.value:
                graphs.wait(result)
            if graphs.capturing():
                graphs.record(lambda _seed: memory.clear(address, size))
            else:
                memory.clear(address, size)
        return result

    return kernel


def _loudly(original: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Let an operation's kernel resize a tensor. The driver copies the values if the tensor has to move."""
    quiet, state.quiet.value = state.quiet.value, 0
    try:
        return original(*args, **named)
    finally:
        state.quiet.value = quiet


def _is_filled_by_pytorch() -> bool:
    """Whether PyTorch fills the memory itself, with values that show a use of it."""
    return torch.are_deterministic_algorithms_enabled() and bool(torch.utils.deterministic.fill_uninitialized_memory)


_MARK = "_gpuconf_unwritten"
_DRAWS = ("normal_", "uniform_", "log_normal_", "cauchy_", "exponential_", "geometric_")
_CHANGES = (
    "add_.Tensor",
    "clamp_",
    "clamp_max_",
    "clamp_min_",
    "copy_",
    "div_.Tensor",
    "erfinv_",
    "fill_.Scalar",
    "fill_.Tensor",
    "mul_.Tensor",
    "sub_.Tensor",
    "zero_",
)
# Those of torch.nn.init that compute with other operators than these.
_INITIALIZERS = ("trunc_normal_", "orthogonal_", "sparse_")
NAMES = tuple(f"aten::{name}" for name in (*_DRAWS, *_CHANGES))

kernels: dict[str, Callable[..., Any]] = {}  # by operator; they return None for tensors that the CPU has to write


def activate() -> None:
    """From now on nothing is drawn for large tensors."""
    for name in _DRAWS:
        kernels[f"aten::{name}"] = _drawn
    for name in _CHANGES:
        kernels[f"aten::{name}"] = _changed
    kernels["aten::copy_"] = _copied
    for name in _INITIALIZERS:
        setattr(torch.nn.init, name, _initializer(getattr(torch.nn.init, name)))


def is_marked(tensor: torch.Tensor) -> bool:
    """Whether a tensor's memory was never written."""
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and getattr(tensor.untyped_storage(), _MARK, None) is not None
    )


def _mark(tensor: torch.Tensor) -> None:
    setattr(tensor.untyped_storage(), _MARK, True)


def _covers(tensor: torch.Tensor) -> bool:
    """Whether a large tensor is all of its storage."""
    size = tensor.numel() * tensor.itemsize
    return size >= LIMIT and tensor.layout is torch.strided and size == tensor.untyped_storage().nbytes()


def _drawn(tensor: torch.Tensor, *_args: Any, **_named: Any) -> torch.Tensor | None:
    if is_marked(tensor):
        return tensor
    if not tensor.is_floating_point() or not _covers(tensor):
        return None
    _mark(tensor)
    return tensor


def _initializer(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return one of torch.nn.init's functions that leaves large CPU tensors unwritten."""

    @wraps(original)
    def initialize(tensor: torch.Tensor, *args: Any, **named: Any) -> Any:
        with torch.no_grad():
            found = _drawn(tensor) if tensor.device.type == "cpu" else None
        return original(tensor, *args, **named) if found is None else found

    return initialize


def _changed(tensor: torch.Tensor, *_args: Any, **_named: Any) -> torch.Tensor | None:
    return tensor if is_marked(tensor) else None


def _copied(tensor: torch.Tensor, source: Any, *_args: Any, **_named: Any) -> torch.Tensor | None:
    if is_marked(tensor):
        return tensor
    if not isinstance(source, torch.Tensor) or not is_marked(source) or not _covers(tensor):
        return None
    _mark(tensor)  # as of a conversion to half precision
    return tensor


def kernel_for(name: str, overload: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel for CPU tensors. ``original`` takes a dispatch key set before the arguments."""
    places = tensor_places(overload)

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        found = kernels[name](*args, **named)
        return original(keys, *memory.as_tensors(args, places), **named) if found is None else found

    return kernel
