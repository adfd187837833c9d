# SPDX-License-Identifier: Apache-2.0
"""The choice of what PyTorch computes on simulated GPUs: everything, or only small tensors."""

from __future__ import annotations

import os

from .. import errors

VARIABLE = "GPUCONF_SIMULATE_VALUES"
CHOICES = ("cpu", "none")


def requested() -> str:
    """Return the choice of ``GPUCONF_SIMULATE_VALUES``, or "cpu". Raises InvalidArgumentError for another value."""
    return check(os.environ.get(VARIABLE) or "cpu", VARIABLE)


def check(values: str, name: str) -> str:
    """Return a choice of values. Raises InvalidArgumentError for another text."""
    if values not in CHOICES:
        raise errors.InvalidArgumentError(
            f'{name} is {values!r}: choose "cpu", with which the CPU computes what PyTorch does on simulated GPUs, or '
            '"none", with '
            "which PyTorch only allocates"
        )
    return values
