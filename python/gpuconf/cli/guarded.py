"""The guard of ``gpuconf run``: whether a program is put under it, and what is reported of it at the end."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from .. import errors
from .._core.humanbytes import human_bytes
from .._typing import Any
from ..sharing._budget import Budget, prepare
from ..sharing._frameworks_environment import LeasedCard
from ..sharing._grant import Grant
from .exits import UsageError


class Guard:
    """The guard of one program, or of none: then it changes nothing. A context manager."""

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending

    def __init__(self, budget: Budget | None, why_not: str = "") -> None:
        self._budget, self._why_not = budget, why_not

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ending():
            return
        if self._budget is not None:
            self._budget.close()

    def environment(self) -> dict[str, str]:
        """Return the variables that put the program under the guard."""
        return {} if self._budget is None else self._budget.environment

    def seen(self, granted: Grant) -> Sequence[LeasedCard]:
        """Return the cards as the program sees them: under the guard, as large as the limit."""
        if self._budget is None:
            return granted.cards
        limit = granted.limit
        return [LeasedCard(card.uuid, min(card.total_bytes, limit), min(card.free_bytes, limit)) for card in granted.cards]

    def report(self) -> dict[str, Any]:
        """Return plain values: the mode, the peak of each GPU with what is outside of gpuconf's pools, and what was not counted."""
        if self._budget is None:
            return {"mode": "off", "why": self._why_not, "gpus": {}, "notes": []}
        try:
            use = self._budget.usage()
        except errors.UnavailableError:  # the program has damaged it
            use = {}
        cards = {uuid: {"limit_bytes": one.limit, "peak_bytes": one.peak, "refused": one.refused} for uuid, one in use.items()}
        return {"mode": self._budget.mode, "why": "", "gpus": cards, "notes": [*self._budget.describe()[1:], *self._budget.log()]}


def guard(options: argparse.Namespace, granted: Grant, words: Sequence[str], environment: Mapping[str, str]) -> Guard:
    """Make the budget for a program. With "auto", a machine without a driver library has none. Raises UsageError otherwise."""
    mode = getattr(options, "guard", None) or "auto"
    why_not = _why_not(mode, options.simulate)
    if why_not:
        return Guard(None, why_not)
    limits = {card.uuid: granted.limit for card in granted.cards}
    try:
        budget = prepare(limits, mode, command=words, environment=environment, job=granted.id)
    except errors.NotFoundError as error:
        if mode != "auto":
            raise UsageError(f"--guard={mode}: {error}") from None
        return Guard(None, "the driver's library was not found")
    budget.keep_descriptor()
    return Guard(budget)


def _why_not(mode: str, simulate: str | None) -> str:
    if mode == "off":
        return "--guard=off"
    if simulate is not None or os.environ.get("GPUCONF_SIMULATE"):
        return "simulated GPUs have no driver"
    return "GPUCONF_DISABLE" if os.environ.get("GPUCONF_DISABLE", "") not in ("", "0") else ""


def line(report: Mapping[str, Any]) -> str:
    """Return what the one-line report says of the guard, or an empty text."""
    peaks = [human_bytes(one["peak_bytes"]) for one in report["gpus"].values()]
    return f"guard ({report['mode']}): peak {', '.join(peaks)}" if peaks else ""
