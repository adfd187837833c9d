# SPDX-License-Identifier: Apache-2.0
"""A process that shows whether a signal was sent to this process alone, or also to others of its process group.

The kernel does not say so. The witness is a child in the same group that blocks all signals and does nothing. A signal
that waits in it too, from the same sender, was sent to the group or to each process, and reached the program by itself.

The witness is a fork, because its own file descriptors would be the program's, and its command line would be that of
this process: ``pkill -f`` would find both and not the program. So it closes the former and overwrites the latter.
"""

from __future__ import annotations

import os
import select
import signal

from .._typing import NoReturn
from ..leases.proc import stopped
from .descendants import WITNESS

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
