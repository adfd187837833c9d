# SPDX-License-Identifier: Apache-2.0
"""Random numbers on simulated GPUs.

The state of a CUDA generator is a seed and an offset, which PyTorch's own code sets, saves, restores and advances with
every random operation, on a simulated GPU, too. The CPU draws an operation's numbers from a generator that is seeded
with these two. So equal states give equal numbers, whatever set them. The first operation after a seed draws what the
CPU draws after that seed; later ones draw other numbers than the CPU.
"""

from __future__ import annotations

import torch

from ..._core.block import Block
from ..._core.fork import module_lock
from ..._typing import Any

_GOLDEN = 0x9E3779B97F4A7C15
ADVANCE = 4  # by which an operation advances a CUDA generator's offset at least
_default_lock = module_lock(globals(), "_default_lock")


def seed_of(seed: int, offset: int) -> int:
    """Return the seed of the CPU's generator for a state of a CUDA generator."""
    if offset == 0:
        return seed & 0xFFFFFFFFFFFFFFFF
    mixed = ((seed & 0xFFFFFFFFFFFFFFFF) + offset * _GOLDEN) & 0xFFFFFFFFFFFFFFFF
    mixed ^= mixed >> 32  # the CPU's generator uses 32 bits of a seed
    return mixed * 0xD6E8FEB86659FD93 & 0xFFFFFFFFFFFFFFFF ^ mixed >> 29


def default_of(device: torch.device) -> torch.Generator:
    """Return a GPU's default generator."""
    index = torch.cuda.current_device() if device.index is None else device.index
    torch.cuda.init()
    return torch.cuda.default_generators[index]


class Draw:
    """The numbers of one random operation: the state before it, and after it the certainty that the next one has
    another state.
    """

    __slots__ = ("_offset", "_source", "seed")

    def __init__(self, source: torch.Generator) -> None:
        self._source = source
        self._offset = source.get_offset()
        self.seed: int = seed_of(source.initial_seed(), self._offset)

    def done(self) -> None:
        """Advance the state if PyTorch's kernel did not."""
        if self._source.get_offset() == self._offset:
            self._source.set_offset(self._offset + ADVANCE)


def seeded(seed: int) -> torch.Generator:
    """Return a CPU generator."""
    made = torch.Generator()
    made.manual_seed(seed)
    return made


class DefaultSeeded(Block):
    """Seed the CPU's default generator for a block, for operations that take no generator, and restore it
    afterwards.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._before: Any = None

    def __enter__(self) -> None:
        self._lock = _default_lock  # a forked child has another one
        self._lock.acquire()
        self._before = torch.default_generator.get_state()
        torch.default_generator.manual_seed(self._seed)

    def _leave(self, *_: object) -> None:
        torch.default_generator.set_state(self._before)
        self._lock.release()
