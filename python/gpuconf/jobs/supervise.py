# SPDX-License-Identifier: Apache-2.0
"""Runs a program and waits for it, as if the shell had started it itself.

The program is in our process group, so the terminal is its own, and the terminal's signals (Ctrl-C, Ctrl-Z, a hang-up)
reach it directly. Signals that another process sends to this one are passed on (``passed_on.py``). If the program
stops, so does this process, and the shell's job control works. It ends as the program ends, also if a signal ends that.

Between ``load`` and the end, signals are blocked in this process and taken by ``sigwaitinfo``, which distinguishes the
terminal's signals from those of processes. Go's threads, started while they are blocked, have them blocked too.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from _thread import get_ident, start_new_thread  # of threading, whose import this file does not need
from collections.abc import Callable, Mapping, Sequence

from .._typing import Any
from ..leases.proc import stopped
from .execute import ProgramError, start
from .passed_on import PassedOn

# Not these: the kernel or Go's scheduler sends them to a thread for its own reasons, or Go's threads unblock them.
_OWN = {
    "SIGKILL",
    "SIGSTOP",
    "SIGSEGV",
    "SIGBUS",
    "SIGFPE",
    "SIGILL",
    "SIGTRAP",
    "SIGSYS",
    "SIGABRT",
    "SIGURG",
    "SIGPROF",
    "SIGCHLD",
    "SIGRTMIN",
}
_PASSED_ON = {one for one in signal.valid_signals() if getattr(one, "name", "") not in _OWN}
_IGNORED_BY_PYTHON = [signal.SIGPIPE, signal.SIGXFSZ]  # a program would inherit that
# Seconds after the start: a program that has ended by then did nothing to see, and need not wait for it.
_FIRST_LOOK = 0.05
_LIMITS = (resource.RLIMIT_NOFILE,)  # Go raises it


class Supervisor:
    """Starts one program. Create it before the core is loaded."""

    def __init__(self) -> None:
        self._limits = {one: resource.getrlimit(one) for one in _LIMITS}
        # If we inherit that it is ignored, the kernel keeps no wait status.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        try:
            self._passed_on = PassedOn()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        self.pid: int = 0

    def load(self, load: Callable[[], Any]) -> Any:
        """Call a function that loads the core, with signals blocked, so that the core's threads do not take them from
        ``run``.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        try:
            return load()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def run(self, words: Sequence[str], environment: Mapping[str, str], while_running: Callable[[], float]) -> int:
        """Run the program and return its wait status. ``while_running`` returns the seconds until its next call."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON | {signal.SIGCHLD})
        for limit, value in self._limits.items():
            resource.setrlimit(limit, value)

        def spawn(command: Sequence[str]) -> int:
            variables = dict(environment)
            return os.posix_spawnp(
                command[0], list(command), variables, setsigmask=self._mask, setsigdef=_IGNORED_BY_PYTHON
            )

        try:
            self.pid = start(words, spawn)
        except ProgramError:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            self._passed_on.end()
            raise
        self._passed_on.begin(self.pid)
        ended: list[int] = []
        start_new_thread(self._wait, (get_ident(), ended))
        look = time.monotonic() + _FIRST_LOOK
        while not ended:
            taken = signal.sigtimedwait(
                _PASSED_ON | {signal.SIGCHLD}, max(min(look, self._passed_on.due()) - time.monotonic(), 0)
            )
            if taken is not None and taken.si_signo != signal.SIGCHLD:
                self._passed_on.take(taken)
            self._passed_on.pass_on()
            if look <= time.monotonic():
                look = time.monotonic() + while_running()
        self._passed_on.end()
        return ended[0]

    def _stays_stopped(self) -> bool:
        """Whether the program is still stopped.

        If the whole group was stopped and continued, we may learn of it afterwards.
        """
        time.sleep(0.02)
        return stopped(self.pid)

    def _wait(self, main: int, ended: list[int]) -> None:
        """Wait for the program in a thread: with SIGCHLD blocked, Go's threads could take the signal."""
        while not ended:
            _, status = os.waitpid(self.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                ended.append(status)
            elif self._stays_stopped():
                os.kill(os.getpid(), signal.SIGSTOP)  # until the shell continues us, and with us the program
        signal.pthread_kill(main, signal.SIGCHLD)


def end_as(status: int) -> int:
    """Return the exit code of a wait status, or end by the same signal."""
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    for stream in filter(None, (sys.stdout, sys.stderr)):  # one that was closed is None
        stream.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program has left its core already
    if number not in signal.valid_signals():  # the C library keeps it for itself
        return 128 + number
    signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number  # a signal that does not end this process
