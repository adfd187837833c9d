# SPDX-License-Identifier: Apache-2.0
"""The cards of a fleet."""

from __future__ import annotations

from ... import errors
from ..._core import texts
from ..._core.generated.fleet import FleetBatch
from ..._core.native import core
from ..._core.table import Table
from ..._typing import NamedTuple
from ..generated.policies import NEED_VIRTUAL


class _FleetGpus(NamedTuple):
    gpu: str  # the model, as for gpuconf.simulate
    count: int  # type: ignore[assignment]  # hides tuple's
    memory: int  # of each card, in bytes
    leasable: int  # the most that one process can lease of a card, in bytes
    context: int  # what a lease takes besides, in bytes, for the CUDA context of its process


class FleetGpus(Table, _FleetGpus):
    """Equal cards of a fleet."""

    __slots__ = ()


def parse(fleet: str, policies: tuple[str, ...]) -> tuple[FleetGpus, ...]:
    """Return the cards of a fleet in the order of the text. Raises ValueError for an invalid one."""
    import json

    batches = list(map(FleetBatch._read, json.loads(core.pybind_ParseFleet(texts.check_text("fleet", fleet)))))
    for batch in batches:
        for policy in (name.replace("auto", "virtual") for name in policies):
            if policy in NEED_VIRTUAL and not batch.virtual:
                raise errors.InvalidArgumentError(
                    f"{batch.gpu} has no virtual memory management, which policy {policy} requires; pass another policy"
                )
    return tuple(FleetGpus(b.gpu, b.count, b.memory, b.leasable, b.context) for b in batches)
