# SPDX-License-Identifier: Apache-2.0
"""The guard of ``gpuconf run``: whether a program is put under it, and what is reported of it at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from .. import errors
from .._core.block import Entered
from .._core.table import human_bytes
from .._typing import Any
from ..leases.environment import LeasedCard, of_simulation
from ..leases.grant import Grant
from ..machine.cards import visible_devices
from . import console
from .console import UsageError
from .parser import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..jobs.budget import Budget
    from ..jobs.cgroup import Group


class Guard(Entered):
    """What keeps the limit of one program: the guard with a budget, the driver, or nothing. A context manager."""

    def __init__(
        self,
        limits: Mapping[str, int],
        budget: Budget | None,
        driver: Group | None,
        why_not: str = "",
        contexts: int = 0,
    ) -> None:
        self._limits, self._budget, self._driver, self._why_not = limits, budget, driver, why_not
        self._contexts = contexts  # for which the lease has room on each GPU; 0 for a part of a lease

    def _leave(self, *_: object) -> None:
        if self._budget is not None:
            self._budget.close()
        if self._driver is not None:
            self._driver.leave()

    def environment(self) -> dict[str, str]:
        """Return the variables that put the program under the guard."""
        return {} if self._budget is None else self._budget.environment

    def seen(self, granted: Grant) -> Sequence[LeasedCard]:
        """Return the cards as the program sees them: as large as the limit, unless nothing keeps it."""
        if self._budget is None and self._driver is None:
            return granted.cards
        limit = granted.most
        return [
            LeasedCard(card.uuid, min(card.total_bytes, limit), min(card.free_bytes, limit)) for card in granted.cards
        ]

    def describe(self) -> str:
        """Say what keeps the limit."""
        if self._driver is not None:
            return self._driver.describe()
        return f"no limit is enforced: {self._why_not}" if self._budget is None else self._budget.describe()[0]

    @property
    def descriptor(self) -> int:
        """The descriptor that keeps the budget, which the program inherits; -1 without one."""
        return -1 if self._budget is None else self._budget.keep_descriptor()

    @property
    def folder(self) -> str:
        """The folder of the budget; "" without one."""
        return "" if self._budget is None else os.path.dirname(self._budget.path)

    @property
    def counts(self) -> bool:
        """Whether the guard counts the program's memory."""
        return self._budget is not None

    def warnings(self) -> list[str]:
        """Return what the guard cannot do for this program, as far as that is known before it starts."""
        return [] if self._budget is None else self._budget.describe()[1:]

    def report(self) -> dict[str, Any]:
        """Return plain values: the mode, each GPU's limit, with its peak if the guard counts it, and what was not
        counted.
        """
        if self._driver is not None:
            cards: dict[str, Any] = {uuid: {"limit_bytes": limit} for uuid, limit in self._limits.items()}
            return {"mode": "driver", "why": self.describe(), "gpus": cards, "notes": []}
        if self._budget is None:
            return {"mode": "off", "why": self._why_not, "gpus": {}, "notes": []}
        from ..jobs.job_memory import NOT_COUNTED

        try:
            use = self._budget.usage()
        except errors.UnavailableError:  # the program has damaged it
            use = {}
        cards = {
            uuid: {
                "limit_bytes": one.limit,
                "peak_bytes": one.peak,
                "refused": one.refused,
                "contexts": self._contexts,
                "contexts_peak": one.contexts_peak,
            }
            for uuid, one in use.items()
        }
        notes = [*self._budget.log(), *self._too_many_contexts({uuid: one.contexts_peak for uuid, one in use.items()})]
        return {"mode": self._budget.mode, "why": "", "gpus": cards, "notes": notes, "not_counted": list(NOT_COUNTED)}

    def _too_many_contexts(self, made: Mapping[str, int]) -> Iterator[str]:
        """Yield a sentence for each GPU on which the program had more CUDA contexts than the lease has room for."""
        for uuid, peak in made.items():
            if peak > self._contexts > 0:
                yield (
                    f"the program had {peak} CUDA contexts at a time on {uuid}, and the lease has room for "
                    f"{self._contexts}: other leases may run out of memory. Pass --contexts {peak}"
                )


def guard(
    options: Options, granted: Grant, words: Sequence[str], environment: Mapping[str, str], *, turns: bool = False
) -> Guard:
    """Choose what keeps the limit of a program, and prepare it: with a gate if the program takes turns.

    Raises UsageError if what the options name is not possible.

    With "auto" that is the driver, where a control group with the limit can be made; else the guard; and nothing on a
    machine without a driver library. Before simulated GPUs it is the guard.
    """
    mode = getattr(options, "guard", None) or "auto"
    simulated = options.simulate is not None or bool(os.environ.get("GPUCONF_SIMULATE"))
    limits = {card.uuid: min(granted.limit, card.total_bytes) for card in granted.cards}
    why_not = _why_not(mode) or ("" if limits else "no GPU is visible")
    if why_not:
        return Guard(limits, None, None, why_not)
    from ..jobs.budget import prepare
    from ..jobs.driver_limits import below, set_limits

    if simulated:
        if mode == "driver":
            raise UsageError("--guard=driver: simulated GPUs have no control group; leave the option out")
        environment = {**environment, **of_simulation(environment)}
    bus_ids = {device.uuid: device.pci_bus_id for device in visible_devices()}
    for text in () if simulated else below(limits, bus_ids, environment):  # no driver limits simulated GPUs
        console.complain(f"gpuconf {options.command}: {text}")
    if mode in ("auto", "driver") and not simulated and not turns:
        try:
            with_contexts = {uuid: limit + granted.beside.get(uuid, 0) for uuid, limit in limits.items()}
            return Guard(limits, None, set_limits(with_contexts, bus_ids, granted.id))
        except errors.UnavailableError as error:
            if mode == "driver":
                raise UsageError(f"--guard=driver: {error}") from None
    try:
        budget = prepare(
            limits, mode, command=words, environment=environment, job=granted.id, turns=turns, most=granted.most
        )
    except errors.NotFoundError as error:
        if mode != "auto":
            raise UsageError(f"--guard={mode}: {error}") from None
        return Guard(limits, None, None, "the driver's library was not found")
    budget.keep_descriptor()
    return Guard(limits, budget, None, contexts=0 if granted.claim is None else granted.claim.contexts)


def _why_not(mode: str) -> str:
    if mode == "off":
        return "--guard=off"
    return "GPUCONF_DISABLE" if os.environ.get("GPUCONF_DISABLE", "") not in ("", "0") else ""


def line(report: Mapping[str, Any]) -> str:
    """Return what the one-line report says of the guard, or an empty text."""
    if report["mode"] == "driver":
        return str(report["why"])
    peaks = [human_bytes(one["peak_bytes"]) for one in report["gpus"].values()]
    return f"guard ({report['mode']}): peak {', '.join(peaks)}" if peaks else ""
