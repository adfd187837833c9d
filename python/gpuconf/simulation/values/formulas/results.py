# SPDX-License-Identifier: Apache-2.0
"""Results of formulas that are not simply a result's values."""

from __future__ import annotations

import torch


class Part:
    """Values for a part of a result: its beginning in each dimension, or all of it if there are as many."""

    __slots__ = ("value",)

    def __init__(self, value: torch.Tensor) -> None:
        self.value: torch.Tensor = value

    def fill(self, target: torch.Tensor) -> None:
        """Write the values into a CPU tensor."""
        value = self.value
        if target.numel() == value.numel():
            target.copy_(value.reshape(target.shape))
        elif target.dim() == value.dim():
            for dim in range(value.dim()):
                length = min(target.size(dim), value.size(dim))
                target, value = target.narrow(dim, 0, length), value.narrow(dim, 0, length)
            target.copy_(value)


class Seed:
    """A seed, which a result keeps for the backward pass in its first bytes."""

    __slots__ = ("seed",)

    def __init__(self, seed: int) -> None:
        self.seed: int = seed & 0x7FFFFFFFFFFFFFFF

    def fill(self, target: torch.Tensor) -> None:
        """Write the seed into a CPU tensor of at least 8 bytes."""
        target.reshape(-1).view(torch.uint8)[:8].copy_(
            torch.tensor([self.seed], dtype=torch.int64, device="cpu").view(torch.uint8)
        )


def read_seed(source: torch.Tensor) -> int:
    """Return the seed that a tensor keeps."""
    return int(source.reshape(-1).view(torch.uint8)[:8].clone().view(torch.int64).item())
