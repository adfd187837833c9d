# SPDX-License-Identifier: Apache-2.0
"""What a program needs of a card, under each setting of PyTorch's allocator, and whether a card has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ... import errors
from ..._core import texts
from ..._core.generated.fleet import FleetBatch
from ..._core.native import core
from ..._core.table import Table, human_bytes
from ..._typing import Any, NamedTuple

_MIB, _GIB = 1 << 20, 1 << 30
_PAGE = 2 * _MIB


class Beside(Table):
    """Memory of a card that is not the allocator's, in bytes: at least and at most, and where this is known from."""

    what: str
    low: int
    high: int
    source: str


class Card(NamedTuple):
    """A card model of the command line. ``memory`` is what CUDA reports, in bytes, less what others take of it."""

    name: str
    count: int  # type: ignore[assignment]  # not the method of tuples
    memory: int
    capability: tuple[int, int]
    has_virtual_memory: bool
    product: str = ""  # as the driver reports it
    hardware: Mapping[str, int] = MappingProxyType({})  # what a compiler asks: models.Hardware in gocore/machine/models
    others: int = 0  # bytes that other programs take

    def beside(self, others: int) -> Card:
        """Return what other programs leave of the card. Raises InvalidArgumentError if that is nothing."""
        left = (self.memory - others) // _PAGE * _PAGE
        if left <= 0:
            raise errors.InvalidArgumentError(
                f"{self.name} has {human_bytes(self.memory)}: {human_bytes(others)} beside the program leave nothing"
            )
        return self._replace(memory=left, others=self.memory - left)

    def usable(self) -> Beside:
        """Return how much a program sees of the card: what a simulated one has, and up to what older drivers report."""
        older = int(_OLDER.get(self.name, 0) * _GIB) - self.others
        source = "gocore/machine/models/models.h"
        return Beside("memory that CUDA reports", self.memory, max(self.memory, older), source)

    def simulated(self, count: int, *, limited: bool = False) -> str:
        """Return the machine on which a program is rehearsed: it sees this card's memory, and can allocate more unless
        it is ``limited``. Contexts take memory of a limited one, as they do of a card.
        """
        model, *details = self.name.split(":")
        if self.others:
            details = [f"{self.memory}B", *(one for one in details if not one[0].isdigit())]
        return ":".join([f"{count}x{model}", *details, "contexts" if limited else "no-limit"])

    def context(self) -> Beside:
        """Return what a process's CUDA context takes, with the kernels that PyTorch loads."""
        memory = self.memory + self.others
        if self.capability == (9, 0) and memory > 64 * _GIB:  # no instance of MIG
            return HOPPER_CONTEXT
        usual: int = core.pybind_ContextBytes(memory, self.capability[0])
        low, high, source = min(usual // 2, 256 * _MIB), usual, "estimate"
        if multiprocessors := self.hardware.get("multiprocessors", 0) if self.capability[0] >= 8 else 0:
            low, high = (
                min(int(size * multiprocessors), bound) for size, bound in zip(_OF_EACH, (low, usual), strict=True)
            )
            source = f"2.9 to 4MiB for each of {multiprocessors} multiprocessors, and kernels"
        return Beside("CUDA context", low, high + _KERNELS, source)


# Bytes of a context for each multiprocessor since compute capability 8.0, by the figures in
# gocore/machine/models/models.h (RTX 3090, 4060 Ti, RTX 6000 Ada and PRO 6000: 2.95 to 3.15 MiB; H200: 3.97 MiB), and
# of the kernels that PyTorch and its libraries load.
_OF_EACH = (2.9 * _MIB, 4.0 * _MIB)
_KERNELS = 256 * _MIB

# GiB that older drivers report: the most that PyTorch's out-of-memory messages name as the total capacity, in public
# threads of GitHub.
_OLDER = {
    "A100-40GB": 39.59,  # TianheWu/CoSeR#10 has 39.50
    "A100-80GB": 79.33,  # levihsu/OOTDiffusion#235 has 79.25
    "H100-80GB": 79.26,
    "L4": 22.28,
    "L40S": 44.53,
    "T4": 14.76,  # zai-org/CogVideo#741 has 14.74
    "V100-32GB": 31.75,
    "RTX4090": 23.69,  # zai-org/CogVideo#36 has 23.68
    "RTX5090": 31.38,  # Wan-Video/Wan2.1#465 has 31.37
}

# What NVML counted for PyTorch 2.11 (CUDA 13.0) beside its allocator: 610 MiB with one tensor, 66 MiB for each thread
# that uses cuBLAS, 10 to 18 MiB for cuDNN, 164 MiB for cuBLAS and cuSOLVER; 634 to 686 MiB in inference, 694 to 768 MiB
# in training, and once 1150 MiB, where cudnn.benchmark tried kernels. A bare context was 524 MiB. The low end is for
# older drivers and CUDA 12.
HOPPER_CONTEXT = Beside(
    "CUDA context",
    448 * _MIB,
    1184 * _MIB,
    "measured on H200, driver 580.159.04, 2026-11-26: 610 to 1150MiB; docs/measurements.md",
)

# One communicator, of ranks on one machine.
NCCL = Beside(
    "NCCL",
    110 * _MIB,
    1638 * _MIB,
    "NVIDIA/nccl#34 (110MiB), #964 (544 and 688MiB), #864 (1.6GiB); 558MiB on H200, 2026-11-26",
)
# What the rehearsal may miss of the allocator's own memory, as a fraction: benchmarks/reports/accuracy.md. As much
# again at both ends for each library whose version is not known.
MARGIN = 0.02


def parse(text: str) -> list[Card]:
    """Return the cards of ``L4,A10,2xA100-40GB``. Raises InvalidArgumentError for an invalid text."""
    import json

    found = []
    for b in map(FleetBatch._read, json.loads(core.pybind_ParseFleet(texts.check_text("gpu", text)))):
        found.append(Card(b.gpu, b.count, b.memory, b.compute, b.virtual, b.product, b.hardware.to_dict()))
    if len({card.name for card in found}) < len(found):
        raise errors.InvalidArgumentError(f"a card is named twice in {texts.shown(text)}")
    return found


def alike(cards: list[Card]) -> list[list[Card]]:
    """Return the cards in groups for which PyTorch does the same: it chooses kernels by the compute capability.

    8.6 and 8.9 are one group: PyTorch treats them alike.
    """
    groups: dict[tuple[int, int], list[Card]] = {}
    for card in cards:
        groups.setdefault(group_of(card.capability), []).append(card)
    return list(groups.values())


def group_of(capability: tuple[int, int]) -> tuple[int, int]:
    """Return the first compute capability for which PyTorch does the same."""
    return (8, 6) if capability in ((8, 6), (8, 7), (8, 9)) else capability


FITS, DOES_NOT_FIT, DEPENDS = "fits", "does not fit", "depends"
# A setting of PYTORCH_CUDA_ALLOC_CONF, which all versions read, and the planner's policy that replays it.
SETTINGS = {"default": "pytorch", "expandable_segments": "pytorch-expandable"}


class Verdict(Table):
    """Whether one card holds the program under one setting of the allocator. Sizes are in bytes."""

    card: str
    setting: str
    needs_low: int  # of the GPU that needs most: the allocator's least memory, and what is beside it
    needs_high: int
    usable_low: int
    usable_high: int
    verdict: str
    # What PyTorch reserves on the card, where it releases cached blocks once the card is full: as expected, at least
    # and at most. 0: it does not run there, or several processes share the GPU.
    reserved: int = 0
    reserved_low: int = 0
    reserved_high: int = 0


def beside(card: Card, gpu: Sequence[dict[str, Any]]) -> list[Beside]:
    """Return what is taken beside the allocators of the processes that share a GPU."""
    processes = len(gpu)
    context = card.context()
    rows = [Beside(context.what, context.low * processes, context.high * processes, context.source)]
    if any((one["world"] or 1) > 1 for one in gpu):
        rows.append(NCCL)
    return rows


def rooms(card: Card, gpu: Sequence[dict[str, Any]]) -> list[int]:
    """Return what is left for the allocator of the only process of a GPU: at least, as expected and at most."""
    more, usable = beside(card, gpu), card.usable()
    least, most = usable.low - sum(one.high for one in more), usable.high - sum(one.low for one in more)
    return [max(room, 1) for room in (least, (least + most) // 2, most)]


def verdict(card: Card, setting: str, gpus: Sequence[Sequence[dict[str, Any]]]) -> Verdict:
    """Compare a card with the GPU that needs most.

    Each GPU is the processes on it, each with ``least`` and ``most`` by setting: the least memory with which the
    allocator serves it, if workspaces are as small and as large as they may be.
    """
    usable = card.usable()
    sums = []
    for gpu in gpus:
        more = beside(card, gpu)
        doubt = MARGIN * max(len(one["unknown"]) for one in gpu)
        low = sum(one["least"][setting] for one in gpu) * (1 - doubt) + sum(one.low for one in more)
        high = sum(one["most"][setting] for one in gpu) * (1 + MARGIN + doubt) + sum(one.high for one in more)
        sums.append((int(low), int(high), *_reserved(card, setting, gpu)))
    low, high = max(one[0] for one in sums), max(one[1] for one in sums)
    found = FITS if high <= usable.low else DOES_NOT_FIT if low > usable.high else DEPENDS
    reserved = max((one[2:] for one in sums), key=lambda figures: figures[2])
    return Verdict(card.name, setting, low, high, usable.low, usable.high, found, *reserved)


def _reserved(card: Card, setting: str, gpu: Sequence[dict[str, Any]]) -> tuple[int, int, int]:
    """Return what the only process of a GPU reserves there: as expected, at least and at most; 0 if it does not run."""
    if len(gpu) > 1:
        return 0, 0, 0
    uses: list[list[int]] = gpu[0]["on_cards"][setting][card.name]
    some = [reserved for use in uses for reserved in use if reserved]
    expected = next((reserved for use in uses for reserved in (use[1], use[2]) if reserved), 0)
    return expected, min(some, default=0), max(some, default=0)
