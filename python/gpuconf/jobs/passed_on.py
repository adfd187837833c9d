# SPDX-License-Identifier: Apache-2.0
"""Passes signals that other processes send to this one on to the program, unless they reached it by themselves.

Those of the terminal always do. The others did if they were sent to the whole process group, or to each process, as
systemd does: then a witness has them too. Each waits for a moment, because a sender that signals each process may
signal this one first.

Equal signals that follow one another within the time that a process needs to run may merge in the witness and not here.
Then the program gets one more. None is lost.
"""

from __future__ import annotations

import os
import time

from .._typing import Any
from .witness import Witness

_FROM_A_PROCESS = (0, -1)  # SI_USER and SI_QUEUE; a terminal's signal has SI_KERNEL
_MOMENT = 0.05  # seconds


class PassedOn:
    """The signals of one program. Create it before the process has threads, and with the signals blocked."""

    def __init__(self) -> None:
        self._witness = Witness()
        self._program = 0
        # When to decide, the number and the sender, None for the kernel.
        self._waiting: list[tuple[float, int, int | None]] = []
        self._witnessed: list[tuple[int, int]] = []

    def begin(self, program: int) -> None:
        """Pass signals on to a program that has just started. It missed what the witness has seen so far."""
        self._witness.taken()
        self._program = program

    def take(self, taken: Any) -> None:
        """Note a signal, as sigtimedwait returned it."""
        sender = taken.si_pid if taken.si_code in _FROM_A_PROCESS else None
        self._waiting.append((time.monotonic() + _MOMENT, taken.si_signo, sender))
        self._witnessed += self._witness.taken()  # a second one would be lost in it while the first waits

    def due(self) -> float:
        """When to call pass_on, by the monotonic clock."""
        return self._waiting[0][0] if self._waiting else float("inf")

    def pass_on(self) -> None:
        """Send what is due and did not reach the program."""
        now = time.monotonic()
        if self.due() > now:
            return
        self._witnessed += self._witness.taken()
        while self.due() <= now:
            _, number, sender = self._waiting.pop(0)
            if sender is not None and not self._has_reached_it(number, sender):
                self._send(number)
        if not self._waiting:
            self._witnessed.clear()

    def end(self) -> None:
        """End the witness."""
        self._witness.end()

    def _has_reached_it(self, number: int, sender: int) -> bool:
        if (number, sender) not in self._witnessed:
            return False
        self._witnessed.remove((number, sender))
        try:
            return os.getpgid(self._program) == os.getpgrp()  # else it left the group
        except ProcessLookupError:
            return True

    def _send(self, number: int) -> None:
        try:  # noqa: SIM105 - as a whole, this file imports little
            os.kill(self._program, number)
        except ProcessLookupError:  # it has just ended
            pass
