# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's own allocator has in use, where gpuconf's pools do not serve its tensors."""

from __future__ import annotations

import os
import sys

from .. import memory
from .._core import runtime
from .._core.native import loaded
from .._typing import Any
from ..simulation import simulated_torch

# Frames of package values are on every stack.
OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_MOST_EVENTS = 100_000  # of one test, on each GPU
_RESETS = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")


def _cuda() -> Any:
    """Return ``torch.cuda`` if PyTorch has used a GPU, with its own allocator."""
    cuda = getattr(sys.modules.get("torch"), "__dict__", {}).get("cuda")  # asks no module __getattr__
    if cuda is None or not getattr(cuda, "is_initialized", bool)():
        return None
    return None if mode() == "whole" else cuda


def mode() -> str:
    """Return the mode in which gpuconf's pools serve PyTorch, or ""."""
    return getattr(sys.modules.get("gpuconf.allocators.torch"), "_mode", None) or ""


def number_of(ordinal: int) -> int:
    """Return the first logical GPU on a CUDA device."""
    ordinals = runtime.ordinals() if loaded() and runtime.initialized() else []
    return ordinals.index(ordinal) if ordinal in ordinals else ordinal


def _figures(kind: str) -> dict[int, tuple[int, int]]:
    """Return bytes and blocks, ``current`` or ``peak``, by CUDA device."""
    cuda = _cuda()
    if cuda is None:
        return {}
    all_stats = ((ordinal, cuda.memory_stats_as_nested_dict(ordinal)) for ordinal in range(cuda.device_count()))
    return {
        ordinal: (stats["allocated_bytes"]["all"][kind], stats.get("allocation", {}).get("all", {}).get(kind, 0))
        for ordinal, stats in all_stats
        if stats.get("allocated_bytes")
    }


def in_use() -> dict[int, tuple[int, int]]:
    """Return the bytes and blocks in use, by CUDA device."""
    return _figures("current")


def of_driver() -> dict[int, int]:
    """Return the bytes on simulated cards that neither PyTorch's allocator nor gpuconf's pools have reserved, by CUDA
    device.
    """
    cuda = _cuda()
    if cuda is None or not simulated_torch.runs() or mode() or cuda.get_allocator_backend() != "native":
        return {}
    sizes = {
        ordinal: simulated_torch.held(ordinal) - cuda.memory_reserved(ordinal) for ordinal in range(cuda.device_count())
    }
    if loaded() and runtime.initialized():
        for number, ordinal in enumerate(runtime.ordinals()):
            sizes[ordinal] = sizes.get(ordinal, 0) - memory.stats(f"GPU:{number}").bytes_reserved
    return {ordinal: size for ordinal, size in sizes.items() if size > 0}


def device_names() -> set[str]:
    """Return the names of the models that PyTorch has used, as the driver has them."""
    cuda = _cuda()
    if cuda is None:
        return set()
    return {cuda.get_device_name(ordinal).removesuffix(" (simulated)") for ordinal in range(cuda.device_count())}


def drop_workspaces() -> None:
    """Free the workspaces that PyTorch keeps for cuBLAS: each test that needs one gets its own, whatever ran before
    it.
    """
    if _cuda() is not None and (simulated_torch.runs() or _measuring):
        clear: Any = getattr(sys.modules["torch"]._C, "_cuda_clearCublasWorkspaces", None)
        if clear is not None:
            clear()


class Peak:
    """The most bytes in use since ``start``, by CUDA device.

    A program that resets PyTorch's own peaks does not disturb it.
    """

    def __init__(self) -> None:
        self.most: dict[int, int] = {}

    def start(self) -> None:
        """Begin here."""
        _watch_resets()
        if self not in _measuring:
            _measuring.append(self)
        cuda = _cuda()
        if cuda is not None:
            for ordinal in range(cuda.device_count()):
                cuda.reset_peak_memory_stats(ordinal)
        self.most = {}

    def read(self) -> dict[int, int]:
        """Return the peaks so far."""
        for ordinal, (size, _) in _figures("peak").items():
            self.most[ordinal] = max(self.most.get(ordinal, 0), size)
        return self.most

    def stop(self) -> None:
        """Measure no longer."""
        if self in _measuring:
            _measuring.remove(self)


_measuring: list[Peak] = []
_watched: list[Any] = []  # PyTorch's functions that reset peaks


def _watch_resets() -> None:
    """Read the peaks before PyTorch resets them."""
    native: Any = getattr(sys.modules.get("torch"), "_C", None)
    if native is None or _watched:
        return
    for name in _RESETS:
        if hasattr(native, name):
            _watched.append(getattr(native, name))
            setattr(native, name, _reading(_watched[-1]))


def _reading(reset: Any) -> Any:
    def read_and_reset(*args: Any) -> Any:
        for each in _measuring:
            each.read()
        return reset(*args)

    return read_and_reset


class History:
    """PyTorch's own record of allocations, with the Python calls that led to them."""

    def __init__(self) -> None:
        self.running = False

    def start(self) -> None:
        """Begin to record, anew if it has begun.

        Does nothing before PyTorch uses a GPU, unless it is a simulated one.
        """
        torch: Any = sys.modules.get("torch")
        if torch is None or mode() == "whole" or not (torch.cuda.is_initialized() or simulated_torch.runs()):
            return
        torch.cuda.memory._record_memory_history(None)  # forgets what there was
        torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python", max_entries=_MOST_EVENTS)
        self.running = True

    def stop(self) -> Any:
        """End the recording. Return it as a Trace, None if there is none."""
        if not self.running:
            return None
        import tempfile

        from ..memory._trace import load_trace

        torch: Any = sys.modules["torch"]
        self.running = False
        with tempfile.NamedTemporaryFile(prefix="gpuconf-pytest-", suffix=".pickle") as file:
            torch.cuda.memory._dump_snapshot(file.name)
            torch.cuda.memory._record_memory_history(None)
            return load_trace(file.name)
