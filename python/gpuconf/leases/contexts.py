# SPDX-License-Identifier: Apache-2.0
"""Room for CUDA contexts: what a lease takes of a card beside its memory, for each process that will use the card.

The allowance replaces TensorFlow's reserve for the system in the ledger: TensorFlow reserves once for a card that one
process has, and here each process has a context. Two cases keep the reserve: memory that the host shares, because a
host without memory stops working, and an allowance of 0.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from .. import errors
from .._core import settings, sizes, texts
from .._core.devices import VisibleDevice
from .._core.native import core

VARIABLE = "GPUCONF_CONTEXT_MEMORY"

# More contexts than any card has room for; so that no product overflows.
MOST = 1 << 16

# torchrun's options without a value; all others have one.
_FLAGS = ("-m", "--module", "--no-python", "--run-path", "--standalone", "--use-env", "--help", "-h")
_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")


def context_bytes(device: VisibleDevice) -> int:
    """Return the bytes that a lease reserves on a device for each process; 0 if that is switched off.

    They are those of the setting, else of a table by compute capability (``gocore/machine/models/models.h``). Raises
    InvalidArgumentError for a setting that is no size.
    """
    given = settings.value(VARIABLE, os.environ)
    if not given:
        usual: int = core.pybind_ContextBytes(device.total_memory, device.compute_capability[0])
        return usual
    found = sizes.size(VARIABLE, given)
    if not 0 <= found < device.total_memory:
        raise errors.InvalidArgumentError(
            f"{VARIABLE} must be at least 0 and less than a GPU has, such as '400MiB', but got {texts.shown(given)}"
        )
    return found


def reserve_of(device: VisibleDevice) -> int:
    """Return the bytes of a device that are never leased."""
    if context_bytes(device) and device.memory_kind != "unified":
        return 0
    return system_reserve(device)


def system_reserve(device: VisibleDevice) -> int:
    """Return what TensorFlow leaves to the system by default, if all memory is free. It never leaves everything."""
    reserve: int = core.pybind_SystemReserve(device.total_memory, device.compute_capability[0])
    return reserve if reserve < device.total_memory else 0


def most_leasable(device: VisibleDevice, contexts: int) -> int:
    """Return the most bytes that a lease can have of a device: all that its contexts and the host leave."""
    return device.total_memory - reserve_of(device) - contexts * context_bytes(device)


def largest_lease(device: VisibleDevice, contexts: int) -> int:
    """Return the bytes of a lease of all that a device can give:
    TensorFlow's default limit, if the contexts have room then.
    """
    beside = contexts * context_bytes(device)
    if device.memory_kind == "unified":
        return device.total_memory - system_reserve(device) - beside
    return device.total_memory - max(system_reserve(device), beside)


def of_command(words: Sequence[str], gpus: int, environ: Mapping[str, str]) -> int:
    """Return how many processes of a command will use each of its GPUs, as far as the command says: torchrun's ranks,
    else 1.
    """
    ranks = _ranks(words, environ)
    return max(1, -(-ranks // gpus))


def _ranks(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Return how many processes torchrun starts; 1 for another command, and where there is one process for each GPU."""
    rest = _launcher_options(words)
    if rest is None:
        return 1
    value = environ.get("PET_NPROC_PER_NODE", "")  # torchrun reads its options from such variables, too
    options = iter(rest)
    for word in options:
        if not word.startswith("-"):
            break  # the script; what follows is its own
        name, separator, given = word.replace("_", "-").partition("=")
        if not separator and name not in _FLAGS:
            given = next(options, "")
        if name == "--nproc-per-node":
            value = given
    return min(int(value), MOST) if value.isdecimal() and value.isascii() else 1


def _launcher_options(words: Sequence[str]) -> Sequence[str] | None:
    """Return the words after torchrun, or after the module that it runs; None for another command."""
    if os.path.basename(words[0]) == "torchrun":
        return words[1:]
    for place, word in enumerate(words[1:], 1):
        if word == "-m":
            return words[place + 2 :] if words[place + 1 : place + 2] and words[place + 1] in _LAUNCHERS else None
        if not word.startswith("-"):
            return None
    return None
