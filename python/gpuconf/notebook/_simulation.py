# SPDX-License-Identifier: Apache-2.0
"""The simulated GPUs of a notebook, which the processes that it starts share."""

from __future__ import annotations

import atexit
import os

from ..jobs import simulated_cards
from ..simulation import simulated_torch
from ..simulation.simulate import simulate


class SharedSimulation:
    """The environment of the processes that a shell starts: they have the cards of ``%gpu simulate``, and share their
    memory.
    """

    def __init__(self) -> None:
        self._before: dict[str, str | None] = {}  # the variables that were changed
        self._cards: simulated_cards.OwnedCards | None = None

    def change(self, spec: str | None) -> None:
        """Like :func:`gpuconf.simulate`, for this process and those that it starts from now on."""
        if spec is not None and self._cards is not None and simulated_torch.keeps_machine():
            simulate(spec)  # an error, or a cell that runs again
            return
        ours = {name: os.environ.get(name) for name in self._before}
        _set(self._before)  # None is what the environment says without them
        try:
            machine = simulate(spec).spec
        except BaseException:
            _set(ours)
            raise
        self._close()
        self._before = {}
        if spec is not None:
            self._share(machine)

    def end(self) -> None:
        """Restore the environment."""
        _set(self._before)
        self._before = {}
        self._close()

    def _share(self, machine: str) -> None:
        self._cards = simulated_cards.of_program(machine)
        variables = {"GPUCONF_SIMULATE": machine}
        if self._cards is not None:  # else those of the job that this process is in
            variables |= self._cards.environment
            atexit.register(self._cards.close)
        self._before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)

    def _close(self) -> None:
        if self._cards is not None:
            atexit.unregister(self._cards.close)
            self._cards.close()
            self._cards = None


def _set(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
