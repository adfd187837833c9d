# SPDX-License-Identifier: Apache-2.0
"""The file by which the processes of a job share the memory of simulated cards.

It has the layout of a job's budget, in which a card's limit is its size. The simulator's libraries account in it
(gocore/sim/cuda/sharedcard.c), and NVML reads it. It is in a private folder, which ends with the last process of
the job.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from .. import errors
from ..machine.cards import survey
from . import budget_file

CardUse = budget_file.CardUse
VARIABLE = "GPUCONF_SIMULATED_CARDS"  # SHARED_CARDS in gocore/machine/models/simulator.h
_FILE = "cards"


class SimulatedCards(budget_file.BudgetFile):
    """The cards that the processes of a job share, as one reads them. In their use, ``pools`` is managed memory."""

    @property
    def spec(self) -> str:
        """Of the simulation, or its beginning."""
        return self.job


class OwnedCards(budget_file.Owned, SimulatedCards):
    """The same in the process that made them."""

    _closed = "the simulated cards are closed"

    def __init__(self, path: str, held: int) -> None:
        self._held = held
        super().__init__(path)

    @property
    def environment(self) -> dict[str, str]:
        """The variable by which a program and all that it starts share the cards."""
        return {VARIABLE: self.path}

    def _is_useless(self, _: os.stat_result) -> bool:
        """Whether no process but this one has a part of a card. Its own machine goes on without the file."""
        try:
            return all(one.pid == os.getpid() for use in self.usage().values() for one in use.processes)
        except errors.UnavailableError:
            return False


def of_program(spec: str) -> OwnedCards | None:
    """Make the file for the machine that this process simulates; None if this process shares its cards already.

    Raises UnavailableError if there is no room.
    """
    cards = sizes()
    try:
        shared = current()
        if shared is not None and {uuid: one.limit for uuid, one in shared.usage().items()} == cards:
            return None
    except errors.UnavailableError:
        pass  # of a job that has ended
    return share(cards, spec)


def sizes() -> dict[str, int]:
    """The memory of each card of the machine that this process simulates, in bytes, by UUID."""
    return {one.uuid: one.memory.total or 0 for card in survey().cards for one in card.instances or (card,)}


def create(path: str, cards: Mapping[str, int], spec: str) -> int:
    """Write the file alone, for a program whose folder ends with it. Returns a descriptor that holds it."""
    budget_file.check_limits(cards)
    return budget_file.create(path, cards, "", spec)


def share(cards: Mapping[str, int], spec: str = "") -> OwnedCards:
    """Make the file for cards of these sizes in bytes, by UUID. Raises UnavailableError if there is no room."""
    budget_file.check_limits(cards)
    budget_file.sweep(budget_file.CARDS, _FILE)
    folder = budget_file.new(budget_file.CARDS)
    path = os.path.join(folder, _FILE)
    try:
        return OwnedCards(path, budget_file.create(path, cards, "", spec))
    except BaseException:
        budget_file.remove(folder)
        raise


def current() -> SimulatedCards | None:
    """The cards that this process shares, if there are any.

    Raises UnavailableError if their file is damaged or gone.
    """
    path = os.environ.get(VARIABLE)
    return SimulatedCards(path) if path else None


def all_shared() -> list[SimulatedCards]:
    """The simulated cards of every living job of this user."""
    return budget_file.living(budget_file.CARDS, _FILE, SimulatedCards)
