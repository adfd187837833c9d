# SPDX-License-Identifier: Apache-2.0
"""``gpuconf.lease("MIN..MAX")``: memory is lent to this process, as ``gpuconf run --memory MIN..MAX`` lends it to the
program that it starts.

The guard has to stand before the driver, so it is loaded first, and stays: after the lease its budget limits nothing.
An agent, a child of this process, does the rest (agent.py). A thread starts another one if it is killed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from .. import errors
from .._typing import Any
from ..leases.environment import LeasedCard, of_process, of_simulation
from ..leases.grant import Grant
from ..machine.cards import survey
from . import simulated_cards
from .budget import VARIABLE, Budget, prepare
from .gate import Gate
from .generated.budget_layout import BYTES_MASK
from .routing import trim_when_asked
from .turns import AgentOf, Times, why_never, why_not

_LOOK = 1.0  # seconds
_OPTION = "memory MIN..MAX"

_guard: Budget | None = None  # of this process, until it ends
_driver: Any = None  # the library of the guard
_shared: simulated_cards.OwnedCards | None = None
_agent: AgentOf | None = None  # of the last lease


def why_none() -> str:
    """Return why nothing can be lent to this process; "" if it can."""
    machine = survey()
    if os.environ.get("GPUCONF_DISABLE", "") not in ("", "0"):
        return f"{_OPTION} needs the guard, which GPUCONF_DISABLE turns off"
    if os.environ.get(VARIABLE) and _guard is None:
        return f"{_OPTION} is for a lease of its own, and this program is inside a job without one"
    why = why_not(_OPTION, machine)
    if not why and (never := why_never(machine)):
        why = f"{_OPTION}: {never}"
    return why


def has_guard() -> bool:
    """Whether this process has a guard from an earlier lease."""
    return _driver is not None


def _leave() -> None:
    """Leave the agent and the budget to the parent, in a forked child: it does not have the lease, either."""
    if _agent is not None:
        _agent.leave()
    if _guard is not None:
        _guard.forget()


class Loan:
    """What is lent to this process, by a lease of its own. Its variables are set in this process after ``__init__``,
    and ``begin`` comes next.
    """

    def __init__(self, granted: Grant, sizes: Mapping[str, int]) -> None:
        """Prepare the guard for a lease. ``sizes`` has the bytes of each visible card, by UUID."""
        global _guard, _shared
        assert granted.claim is not None
        spec = survey().simulated
        if spec and not os.environ.get(simulated_cards.VARIABLE):
            # The agent has to see them. They stay shared: the driver of this process has started on them.
            _shared = simulated_cards.share(simulated_cards.sizes(), spec)
            os.environ.update(_shared.environment)
        outside = {name: value for name, value in os.environ.items() if name != VARIABLE}
        if spec:
            outside.update(of_simulation(outside))
        leased = [card.uuid for card in granted.cards]
        limits = dict.fromkeys(leased, granted.limit)
        if _guard is None:
            every, most = {**dict.fromkeys(sizes, BYTES_MASK), **limits}, min(granted.most, max(sizes.values()))
            _guard = prepare(every, "proxy", environment=outside, job=granted.id, turns=True, most=most)
        else:
            _guard.renew(granted.id, limits, granted.most)
        seen = [
            LeasedCard(card.uuid, min(card.total_bytes, granted.most), min(card.free_bytes, granted.most))
            for card in granted.cards
        ]
        self.variables = {**of_process(seen, granted.most, spec, growth=True), **_guard.environment}
        self._guard, self._claim = _guard, granted.claim
        self._agent = AgentOf(
            os.path.dirname(_guard.path), granted.claim.folder, granted.id, granted.claim, outside, Times(0, 0)
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="gpuconf-loan", daemon=True)

    def begin(self) -> None:
        """Load the guard, and start the agent."""
        global _driver, _agent
        import ctypes

        _agent = self._agent
        if _driver is None:
            os.register_at_fork(after_in_child=_leave)
            _driver = ctypes.CDLL(os.path.join(os.path.dirname(self._guard.path), "libcuda.so.1"), ctypes.RTLD_GLOBAL)
        trim_when_asked()
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.is_set():
            self._agent.look(os.getpid())
            self._ended.wait(_LOOK)

    def end(self) -> None:
        """Return what was lent. The program is brought back first, if it is suspended. Once more does no harm."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        try:
            Gate(os.path.dirname(self._guard.path)).hold(False)
            self._agent.end(os.getpid())
            self._guard.renew("", {}, 0)
        except (errors.UnavailableError, OSError) as error:
            import logging

            logging.getLogger("gpuconf").warning("gpuconf.lease: this process keeps its limit: %s", error)
