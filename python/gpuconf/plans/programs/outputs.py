# SPDX-License-Identifier: Apache-2.0
"""Where the output of a covered program goes, and what it reads."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import stat
import termios
import threading
import time

from ..._typing import Any


class Outputs:
    """Where the output of a program goes that can change nothing: through a descriptor of a file it could change the
    file's mode, its owner and what was there before, and a terminal has settings.
    """

    def __init__(self) -> None:
        self._pipes: dict[int, int] = {}  # by the file's descriptor; -1: what the program reads
        self._relays: list[_Relay] = []
        self._terminal: tuple[int, list[Any], bytes] | None = None
        self._master = -1

    def empty(self) -> int:
        """Return a standard input without anything to read. Where this process has a terminal there, it is one of the
        same size, which some programs ask for.
        """
        try:
            if not os.isatty(0):
                raise OSError
            self._master, descriptor = os.openpty()
            settings = termios.tcgetattr(descriptor)
            settings[3] &= ~(termios.ICANON | termios.ECHO)
            settings[6][termios.VMIN] = settings[6][termios.VTIME] = 0  # a read ends at once, with nothing
            termios.tcsetattr(descriptor, termios.TCSANOW, settings)
            fcntl.ioctl(descriptor, termios.TIOCSWINSZ, _size_of(0))
        except OSError:  # it may be closed, too
            descriptor = os.open(os.devnull, os.O_RDONLY)
        self._pipes[-1] = descriptor
        return descriptor

    def given(self, descriptor: int) -> int:
        """Return what the program gets for a descriptor: of a file, a pipe that is written there."""
        if descriptor < 0:
            return descriptor
        if descriptor in self._pipes:
            return self._pipes[descriptor]
        try:
            if os.isatty(descriptor):
                self._terminal = (descriptor, termios.tcgetattr(descriptor), _size_of(descriptor))
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
        except (OSError, termios.error):  # it is closed
            return descriptor
        end, self._pipes[descriptor] = os.pipe()
        self._relays.append(_Relay(end, os.dup(descriptor)))
        return self._pipes[descriptor]

    def started(self) -> None:
        """Leave the pipes to the program, which has started."""
        for pipe in self._pipes.values():
            os.close(pipe)
        self._pipes.clear()

    def flush(self) -> None:
        """Wait until all that the program has printed is in its files."""
        for relay in self._relays:
            relay.flush()

    def close(self) -> None:
        """Set the terminal as it was, and end. Nothing of the program or its launcher lives."""
        self.started()
        if self._master >= 0:
            os.close(self._master)
            self._master = -1
        for relay in self._relays:
            relay.thread.join()
        self._relays.clear()
        if self._terminal is not None:
            descriptor, settings, size = self._terminal
            self._terminal = None
            with contextlib.suppress(OSError, termios.error):  # it has gone
                if termios.tcgetattr(descriptor) != settings:
                    termios.tcsetattr(descriptor, termios.TCSANOW, settings)
                if _size_of(descriptor) != size:
                    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, size)


def _size_of(terminal: int) -> bytes:
    return fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8))


class _Relay:
    """A thread that writes to a file what comes out of a pipe, until its other end is closed."""

    def __init__(self, pipe: int, file: int) -> None:
        self._pipe, self._file = pipe, file
        self._busy = threading.Lock()  # held from a read until all of it is written
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        data = b"-"
        while data:
            select.select([self._pipe], [], [])
            with self._busy:
                data = rest = os.read(self._pipe, 1 << 16)
                with contextlib.suppress(OSError):  # a full disk: the program is not to wait for it
                    while rest:
                        rest = rest[os.write(self._file, rest) :]
        with self._busy:
            os.close(self._pipe)
            os.close(self._file)
            self._pipe = -1

    def flush(self) -> None:
        """Wait until the pipe is empty, and what was in it is written."""
        while True:
            with self._busy:
                if self._pipe < 0 or fcntl.ioctl(self._pipe, termios.FIONREAD, bytes(4)) == bytes(4):
                    return
            time.sleep(0.001)
