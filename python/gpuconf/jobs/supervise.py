# SPDX-License-Identifier: Apache-2.0
"""Runs a program and waits for it, as if the shell had started it itself.

The program is in our process group, so the terminal is its own, and the terminal's signals (Ctrl-C, Ctrl-Z, a hang-up)
reach it directly. Signals that another process sends to this one are passed on (`PassedOn`). If the program
stops, so does this process, and the shell's job control works. It ends as the program ends, also if a signal ends that.

Between ``load`` and the end, signals are blocked in this process and taken by ``sigwaitinfo``, which distinguishes the
terminal's signals from those of processes. Go's threads, started while they are blocked, have them blocked too.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time
from _thread import get_ident, start_new_thread  # of threading, whose import this file does not need
from collections.abc import Callable, Mapping, Sequence

from .._typing import Any, NoReturn
from ..leases.proc import stopped
from .descendants import WITNESS
from .execute import ProgramError, start

_PATIENCE_MS = 1000  # how long to wait for an answer at a time; then a witness that was stopped is given up
_LOOKS = 20  # how often to wait for one that is only slow, as on a busy machine
_END = b"."  # of an answer, which is long after many real-time signals


class Witness:
    """Create it before the process has threads, with the signals blocked that it is to tell apart."""

    def __init__(self) -> None:
        asked, self._ask = os.pipe()
        self._answers, answers = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _witness(asked, answers)
        os.close(asked)
        os.close(answers)
        self._readable = select.poll()  # select() takes no descriptor above 1023
        self._readable.register(self._answers, select.POLLIN)

    def taken(self) -> list[tuple[int, int]]:
        """Return the signals that reached it since the last call, each with its sender; none once it has ended."""
        if self._pid == 0:
            return []
        answer = b""
        try:
            os.write(self._ask, b"?")
            while not answer.endswith(_END):
                answer += self._read()
        except BrokenPipeError:
            self.end()
            return []
        lines = answer.removesuffix(_END).decode().splitlines()
        return [(int(number), int(sender)) for number, _, sender in (one.partition(":") for one in lines)]

    def _read(self) -> bytes:
        for _ in range(_LOOKS):
            if self._readable.poll(_PATIENCE_MS):
                if more := os.read(self._answers, 4096):
                    return more
                break
            if stopped(self._pid):
                break
        raise BrokenPipeError

    def end(self) -> None:
        """End it. A second call does nothing."""
        if self._pid != 0:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            os.close(self._ask)
            os.close(self._answers)
            self._pid = 0


def _witness(asked: int, answers: int) -> NoReturn:
    """Answer until the other end is closed, also by the end of the process there."""
    try:
        everything = signal.valid_signals()
        signal.pthread_sigmask(signal.SIG_BLOCK, everything)
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in (asked, answers):
                _close(int(name))
        _rename(WITNESS)
        while os.read(asked, 1):
            seen = ""
            while (taken := signal.sigtimedwait(everything, 0)) is not None:
                seen += f"{taken.si_signo}:{taken.si_pid}\n"
            os.write(answers, seen.encode() + _END)
    finally:
        os._exit(0)


def _close(descriptor: int) -> None:
    try:  # noqa: SIM105 - as a whole, this file imports little
        os.close(descriptor)
    except OSError:  # that of the listing itself
        pass


def _rename(name: str) -> None:
    """Change the name and the command line that other processes see. Raises OSError where the system forbids it."""
    with open("/proc/self/comm", "wb") as file:
        file.write(name.encode())
    with open("/proc/self/stat", "rb") as file:
        begin, end = map(int, file.read().rpartition(b")")[2].split()[45:47])
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(begin)
        memory.write(name.encode().ljust(end - begin, b"\0")[: end - begin])


# Passes signals that other processes send to this one on to the program, unless they reached it by themselves.
#
# Those of the terminal always do. The others did if they were sent to the whole process group, or to each process, as
# systemd does: then a witness has them too. Each waits for a moment, because a sender that signals each process may
# signal this one first.
#
# Equal signals that follow one another within the time that a process needs to run may merge in the witness and not
# here. Then the program gets one more. None is lost.

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

    def before_start(self) -> None:
        """Forget what the witness has seen so far, which the program misses."""
        self._witness.taken()

    def begin(self, program: int) -> None:
        """Pass signals on to a program that has just started. It may have missed what waits here by now.

        The witness is asked only then: on a busy machine its answer would have what the program did not miss.
        """
        if signal.sigpending() & _PASSED_ON:
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

    def pass_on(self, *, idle: bool) -> None:
        """Send what is due and did not reach the program. ``idle``: no signal waits to be taken here. Those that do are
        among the witnessed ones, where the witness has answered late.
        """
        now = time.monotonic()
        if self.due() <= now:
            self._witnessed += self._witness.taken()
        while self.due() <= now:
            _, number, sender = self._waiting.pop(0)
            if sender is not None and not self._has_reached_it(number, sender):
                try:  # noqa: SIM105 - as a whole, this file imports little
                    os.kill(self._program, number)
                except ProcessLookupError:  # it has just ended
                    pass
        if idle and not self._waiting:
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

        self._passed_on.before_start()
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
            self._passed_on.pass_on(idle=taken is None)
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
