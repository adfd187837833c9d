# SPDX-License-Identifier: Apache-2.0
"""The record of a process that uses JAX: what its calls need, and when the program has run for long enough.

JAX is imported.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from dataclasses import asdict

import jax

from ...._core.fork import module_lock
from ...._typing import Any
from ..line import JAX_REPORT, VARIABLE, line, repeat
from ..records import OfGPU, Report, Request
from . import changes, devices
from .card_memory import TUNED, Ledger
from .compiling import Compiler, Function
from .devices import Devices
from .running import Runner

_LONGEST = 16
_WITHOUT_UPDATES = 50  # times: a program that updates nothing has no step to wait for
_UPDATES, _CALLS = "optimizer", "calls"

_lock = module_lock(globals(), "_lock")  # one report


class Recording:
    """The record of one process."""

    def __init__(self, request: Request) -> None:
        card = request.jax["card"]
        self._steps: int | None = request.steps
        self._until_repeated: bool = request.cuts or request.until_repeated
        self._pid = os.getpid()
        self._reported = self._ready = self._begun = False
        self._calls: list[Any] = []  # of the program's own functions: which, and what was in use before
        self._updates: list[int] = []  # the numbers of those that updated their arguments
        self.counts: Counter[str] = Counter()
        self.ledger: Ledger = Ledger()
        self.devices: Devices = Devices(
            request.jax["gpus"], card["product"], lambda gpu: self._statistics(gpu, card["memory"])
        )
        computes = request.computes
        self._change: str = request.change
        donates = self._change == changes.DONATE
        self.compiler: Compiler = Compiler(
            card["description"], self.devices.host, computes=computes, donates=donates, refuse=self._refuse
        )
        self.runner: Runner = Runner(
            self.compiler,
            self.ledger,
            self.devices.host,
            computes=computes,
            workspace=card["workspace"],
            before=self._before,
        )
        self._why_not_card: dict[str, str] = card["why_not"]  # by the version of CUDA
        self._cuda = 0

    def install(self) -> None:
        """Begin. What cannot be rehearsed is refused when JAX is first used, because many programs only import it."""
        why_not = devices.why_not()
        if not why_not:
            self._cuda, why_not = devices.plugin()
        why_not = why_not or self._why_not_card.get(str(self._cuda), "")
        if why_not:
            _refuse_first_use(lambda: self._refuse(why_not))
            return
        self.devices.install()
        self.compiler.install()
        self.runner.install()
        changes.make(self._change)

    def _statistics(self, gpu: int, memory: int) -> dict[str, int]:
        """Return what ``memory_stats()`` says of a card with so much memory."""
        return {**self.ledger.statistics(gpu), "bytes_limit": int(memory * _fraction())}

    def _refuse(self, why: str) -> None:
        """Tell the rehearsal why there can be no answer. It ends the program."""
        line.tell("refused", why=why)
        while True:
            time.sleep(3600)

    def _before(self, function: Function) -> None:
        if not self._begun:
            self._begun = True
            if self.devices.wants_cpu:
                self._refuse("the program runs JAX on the CPU: it chooses jax_platforms or JAX_PLATFORMS")
            line.report = self.report
            line.tell("cuda", rank=None, world=None)
            line.listen()
        if not function.is_own or not function.is_compiled or self._ready or line.waits_for:
            return
        if threading.current_thread() is not threading.main_thread():
            return
        self.runner.scan()
        self._calls.append((id(function), tuple(sorted(self.ledger.live.items()))))
        self.counts[_CALLS] += 1
        if self._enough():
            self._ready = True
            self.report()
            line.tell(
                "ready", why="steps" if self._steps is not None and self.counts[_UPDATES] >= self._steps else "repeated"
            )
            while True:
                time.sleep(3600)  # the rehearsal ends the program
        if function.updated:
            self.counts[_UPDATES] += 1
            self._updates.append(len(self._calls))

    def _enough(self) -> bool:
        """Whether the calls before this one are enough. Which one comes now shows that the last one has ended."""
        if self._steps is not None:
            return max(self.counts[_UPDATES], 0 if self.counts[_UPDATES] else self.counts[_CALLS] - 1) >= self._steps
        if not self._until_repeated:
            return False
        before = self._calls[:-1]
        if len(self._updates) >= 3 and repeat(before):
            cycle = next(n for n in range(1, _LONGEST + 1) if before[-n:] == before[-2 * n : -n])
            return self._updates[-1] > len(before) - cycle
        return not self._updates and repeat(before, _WITHOUT_UPDATES) > 0

    def report(self) -> None:
        """Write what is known, once."""
        with _lock:
            if self._reported or self._pid != os.getpid() or not self._begun:
                return
            self._reported = True
            self.runner.scan()
            name = os.path.join(os.environ[VARIABLE], str(os.getpid()))
            self.ledger.write(f"{name}.csv", tuning=False)
            if self.ledger.is_tuned:
                self.ledger.write(f"{name}{TUNED}", tuning=True)
            with open(f"{name}.{JAX_REPORT}", "w", encoding="utf-8") as file:
                json.dump(asdict(self._told()), file)
            line.tell("report")

    def _told(self) -> Report:
        compiled = [one for one in self.compiler.functions if one.is_compiled and one.calls]
        compiled.sort(key=lambda one: (not one.is_own, -one.peak))
        return Report(
            rank=None,
            world=None,
            pid=os.getpid(),
            jax=jax.__version__,
            gpus=[
                OfGPU(gpu, f"{os.getpid()}:{gpu}", self.ledger.parts(gpu), 0, self.ledger.largest[gpu])
                for gpu in self.ledger.gpus
            ],
            counts=dict(self.counts),
            waits_for=line.waits_for,
            paths={"conv": count} if (count := sum(one.convolutions for one in compiled)) else {},
            products=any(tuned.is_product for one in compiled for tuned in one.tuned),
            functions=[one.told() for one in compiled],
            changes=changes.worth_trying([one for one in compiled if one.is_own]),
            collectives=any(one.collectives for one in compiled),
            decisions=dict(self.runner.decisions.most_common(3)),
            skipped_callbacks=self.runner.skipped_callbacks,
            fraction=_fraction(),
            grows=os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "").lower() in ("0", "false"),
            cuda=self._cuda,
        )


def _fraction() -> float:
    """Return the share of a card that JAX takes, as the program or its environment sets it."""
    for name in ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
        try:
            return min(max(float(os.environ[name]), 0.0), 1.0)
        except (KeyError, ValueError):
            continue
    return 0.75


def _refuse_first_use(refuse: Any) -> None:
    from jax._src.interpreters import pxla

    def refused(*_args: Any, **_named: Any) -> None:
        refuse()

    pxla.lower_sharding_computation = refused
