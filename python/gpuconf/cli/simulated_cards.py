# SPDX-License-Identifier: Apache-2.0
"""Simulated cards that the processes of a job share, as ``gpuconf ps`` shows them: apart from the cards of the
machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import errors
from .._typing import Any, NamedTuple
from ..jobs.private_folder import CARDS, existing
from .output import print_table, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..jobs.simulated_cards import CardUse


class SimulatedCard(NamedTuple):
    """One card of one job."""

    launcher: int  # the PID of what started the job
    spec: str  # the first 63 bytes
    index: int  # type: ignore[assignment]  # hides tuple's
    uuid: str
    use: CardUse

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, in bytes."""
        processes = [{"pid": one.pid, "name": one.name, "bytes": one.used + one.pools} for one in self.use.processes]
        return {
            "launcher": self.launcher,
            "simulated": self.spec,
            "index": self.index,
            "uuid": self.uuid,
            "total": self.use.limit,
            "used": min(self.use.used + self.use.pools, self.use.limit),
            "processes": processes,
        }


def simulated_cards() -> list[SimulatedCard]:
    """Return the cards of every living job of this user."""
    if next(existing(CARDS), None) is None:
        return []  # without the modules that read their files
    from ..jobs.simulated_cards import all_shared

    cards = []
    for job in all_shared():
        try:
            use = job.usage()
        except errors.UnavailableError:  # it has just ended
            continue
        cards += [
            SimulatedCard(job.launcher, job.spec, index, uuid, one) for index, (uuid, one) in enumerate(use.items())
        ]
    return cards


def print_simulated(cards: Sequence[SimulatedCard]) -> None:
    """Print a row for each process that has memory or a context on a card, and one for a card that has none."""
    rows = []
    for card in cards:
        place = (card.spec, str(card.index), size(card.use.limit))
        using = [one for one in card.use.processes if one.used or one.pools or one.contexts]
        rows += [(*place, str(one.pid), size(one.used + one.pools), one.name) for one in using] or [
            (*place, "-", "-", "-")
        ]
    if rows:
        print("simulated cards, each shared by the processes of one job:")
        print_table(("simulated", "GPU", "total", "PID", "memory", "process"), rows, right=("total", "PID", "memory"))
