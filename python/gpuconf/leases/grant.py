# SPDX-License-Identifier: Apache-2.0
"""Memory of some GPUs that a program may use: a claim in the ledger, a part of the lease that the program is in, or
what variables allow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from .. import errors
from .._core import settings, sizes
from .._core.block import Entered
from .._core.devices import VisibleDevice
from .._core.table import human_bytes
from .._typing import Any
from ..machine.cards import survey
from .environment import LeasedCard
from .ledger import Claim
from .request import Request, claim, memories, refuse_never_lent, refuse_too_few

# What other processes have inherited: a claim that is dropped would be released.
_kept: list[Grant] = []


class Grant(Entered):
    """The cards, and the bytes of each. A context manager, which releases the claim."""

    def __init__(self, cards: Sequence[LeasedCard], limit: int, claim: Claim | None, most: int = 0) -> None:
        self.cards: tuple[LeasedCard, ...] = tuple(cards)
        self.limit = limit
        self.most = max(limit, most)  # with what is lent while no other program needs it
        self.claim = claim
        # What the lease takes of each card beside the limit, for CUDA contexts. A part of a lease has nothing of its
        # own.
        self.beside: dict[str, int] = {} if claim is None else {one.uuid: one.charge - one.bytes for one in claim.cards}
        self.id: str = claim.id if claim is not None else os.environ.get("GPUCONF_LEASE", "")
        self.lowered = ""  # that the process's own limit leaves less than was requested, as a sentence
        self._left_to_others = False

    def _leave(self, *_: object) -> None:
        if not self._left_to_others:
            self.release()

    def notes(self) -> list[str]:
        """Return in sentences why the program may use less than was requested, or than is leased of a card."""
        notes = [self.lowered] if self.lowered else []
        leased = [] if self.claim is None else sorted({one.bytes for one in self.claim.cards})
        if len(leased) > 1:
            notes.append(
                f"the lease has {' or '.join(map(human_bytes, leased))} of a card, and one limit for all: the program "
                f"may use {human_bytes(self.limit)} of each"
            )
        return notes

    def why_lost(self) -> str:
        """Return that the ledger no longer shows the claim; "" if it does."""
        if self.claim is None or not self.claim.is_lost():
            return ""
        return (
            f"the ledger {self.claim.folder}, or the file in it with lease {self.id}, was removed while it was in use. "
            "New programs do not see this lease"
        )

    def release(self) -> None:
        """Release the claim. A second call does nothing."""
        if self.claim is not None:
            self.claim.release()

    def environment(self) -> dict[str, str]:
        """Return the variables by which programs inherit the claim, and lets them: it lives as long as any of them.

        A Python that starts a program closes all descriptors that it does not know. So the startup code must know this
        one.
        """
        variables = {"GPUCONF_LEASE": self.id} if self.id else {}
        if self.claim is not None:
            file = self.claim.fileno()
            os.set_inheritable(file, True)
            status = os.fstat(file)
            variables["GPUCONF_LEASE_FD"] = f"{file}:{status.st_dev}:{status.st_ino}"
        return variables

    def leave_to_others(self) -> None:
        """Do not release the claim at the end: other processes have inherited it and still run."""
        self._left_to_others = True
        _kept.append(self)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary of plain values."""
        return {
            "id": self.id,
            "gpus": [card.uuid for card in self.cards],
            "memory_limit": self.limit,
            "memory_most": self.most,
            "contexts": 0 if self.claim is None else self.claim.contexts,
            "context_bytes": max(self.beside.values(), default=0),
            "memory_kinds": [card.kind for card in self.cards],
            "memory_sources": [card.source for card in self.cards],
        }


def grant(
    request: Request, devices: Sequence[VisibleDevice], command: str = "", waiting: Callable[[], None] | None = None
) -> Grant:
    """Wait until the request fits on the devices, and claim it. Raises DeadlineExceededError after its timeout.

    Below ``gpuconf run`` or inside a lease, the request must fit into what that has, and nothing more is claimed.
    ``waiting`` is called about once a second meanwhile.
    """
    refuse_too_few(request, devices)
    if os.environ.get("GPUCONF_LEASE"):
        return _within(request, devices, os.environ["GPUCONF_LEASE"])
    refuse_never_lent(request, devices)
    claimed = claim(request, devices, command, waiting)
    known = {device.uuid: device for device in devices}
    cards = _leased([known[one.uuid] for one in claimed.cards])
    most = min(request.most_of(known[one.uuid]) for one in claimed.cards)
    granted = Grant(cards, min(one.bytes for one in claimed.cards), claimed, most)
    granted.lowered = request.lowered([known[one.uuid] for one in claimed.cards])
    return granted


def limited(devices: Sequence[VisibleDevice]) -> Grant:
    """Return what the limit of a variable or a file and the ceilings allow on each of the devices, without a claim."""
    return Grant(_leased(devices), sizes.size("GPUCONF_LIMIT", settings.limit(os.environ).value), None)


def _leased(devices: Sequence[VisibleDevice]) -> list[LeasedCard]:
    known = memories(survey())
    cards = []
    for device in devices:
        memory = known.get(device.uuid)
        free = device.total_memory if memory is None or memory.free is None else memory.free
        source = memory.source if memory else None
        cards.append(LeasedCard(device.uuid, device.total_memory, free, device.memory_kind, source))
    return cards


def _within(request: Request, devices: Sequence[VisibleDevice], lease: str) -> Grant:
    """Return a part of the lease that this process is in."""
    limit = sizes.size("GPUCONF_LIMIT", os.environ.get("GPUCONF_LIMIT") or "0")
    wanted = limit if request.memory is None else max(map(request.bytes_of, devices))
    if wanted > limit:
        raise errors.FailedPreconditionError(
            f"{human_bytes(wanted)} are requested inside lease {lease}, which has {human_bytes(limit)} of each GPU: "
            f"request less memory, or start the program outside the lease"
        )
    if request.most is not None:
        wanted = min(limit, max(map(request.most_of, devices)))
    return Grant(_leased(devices[: request.gpus]), wanted, None)
