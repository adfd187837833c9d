# SPDX-License-Identifier: Apache-2.0
"""The pools of this process, as both Prometheus and OpenTelemetry report them."""

from __future__ import annotations

import os

from .. import errors
from .._core import runtime
from .._core.devices import VisibleDevice
from .._typing import Any, NamedTuple
from ..machine.cards import visible_devices
from ..memory import UsageRow, stats, usage
from ..memory._stats import totals


class PoolReading(NamedTuple):
    """A logical GPU's pool at one moment."""

    gpu: str  # nvidia-smi's number, else CUDA's
    uuid: str
    pci_bus_id: str
    logical_device: str  # "GPU:0"
    pid: str
    stats: Any  # gpuconf.memory.stats
    usage: tuple[UsageRow, ...]  # by library and tag
    ever: Any  # since the pool was created: its allocations, and those that failed

    @property
    def free(self) -> int:
        return max(0, int(self.stats.bytes_limit - self.stats.bytes_in_use))

    @property
    def fragmentation(self) -> float:
        free = self.stats.bytes_reserved - self.stats.bytes_in_use
        return 1 - self.stats.largest_free_block_bytes / free if free > 0 else 0.0


# By Prometheus' name, what it is, and where a reading has it; "memory_X_bytes" is OpenTelemetry's "gpuconf.memory.X".
FIGURES = {
    "memory_reserved_bytes": ("Memory that a pool has reserved on its GPU.", "stats.bytes_reserved"),
    "memory_peak_bytes": ("The most memory that was in live blocks.", "stats.peak_bytes_in_use"),
    "memory_limit_bytes": ("The hard limit of a pool.", "stats.bytes_limit"),
    "memory_free_bytes": ("Memory that the limit leaves for further blocks.", "free"),
    "allocations_total": ("Allocations.", "ever.allocs"),
    "oom_total": ("Allocations that failed for lack of memory.", "ever.ooms"),
    "fragmentation_ratio": ("The part of the free reserved memory beyond the largest free block.", "fragmentation"),
}


def read_pools() -> list[PoolReading]:
    """Return the pools of this process. Empty before they exist, and in a forked child, which cannot use them."""
    if not runtime.listed():
        return []
    try:
        cards = _cards()
        readings = []
        for number, ordinal in enumerate(runtime.ordinals()):
            device = f"GPU:{number}"
            card = cards[ordinal]
            gpu = str(card.cuda_ordinal if card.nvml_index is None else card.nvml_index)
            names = gpu, card.uuid, card.pci_bus_id, device, str(os.getpid())
            readings.append(PoolReading(*names, stats(device), tuple(usage(device)), totals(number)))
        return readings
    except (errors.ForkedProcessError, errors.FailedPreconditionError):  # a reset came between
        return []


_known: dict[int, dict[int, VisibleDevice]] = {}  # the cards by ordinal, by generation of the runtime; one at most


def _cards() -> dict[int, VisibleDevice]:
    """Return the visible GPUs by CUDA ordinal. Asking NVML takes milliseconds, and they change only by a reset."""
    generation = runtime.current.generation
    cards = _known.get(generation)
    if cards is None:
        cards = {device.cuda_ordinal: device for device in visible_devices()}
        _known.clear()
        _known[generation] = cards
    return cards
