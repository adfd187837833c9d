# SPDX-License-Identifier: Apache-2.0
"""The line from a process of the program to the rehearsal that started it: a message is one line of JSON."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence

from ..._core.fork import module_lock
from ..._typing import Any
from .records import Request

VARIABLE = "GPUCONF_REHEARSAL"  # the folder of the rehearsal
SOCKET = "line"
REQUEST = "request.json"
TORCH_REPORT, JAX_REPORT = "torch.json", "jax.json"  # after the process's number and a point

_lock = module_lock(globals(), "_lock")  # messages are whole lines


def request() -> Request:
    """Return what the rehearsal asks of this process."""
    with open(os.path.join(os.environ[VARIABLE], REQUEST), encoding="utf-8") as file:
        return Request(**json.load(file))


class Line:
    """The line of one process. It is opened with the first message, and again in a forked child."""

    def __init__(self) -> None:
        self._pid = 0
        self._socket: socket.socket | None = None
        # A later part of the program, which the answer is for: no step before it ends the rehearsal.
        self.waits_for = ""
        self.report: Callable[[], None] | None = None  # what is called, in a thread of its own, when the rehearsal asks

    def _open(self) -> socket.socket:
        if self._socket is None or self._pid != os.getpid():
            self._pid = os.getpid()
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(os.path.join(os.environ[VARIABLE], SOCKET))
        return self._socket

    def tell(self, kind: str, **fields: Any) -> None:
        """Send a message, if the rehearsal has not ended."""
        try:
            line = self._open()
            text = json.dumps({"kind": kind, "pid": os.getpid(), **fields}) + "\n"
            with _lock:
                line.sendall(text.encode())
        except OSError:
            pass

    def listen(self) -> None:
        """Call ``report`` when the rehearsal requests it, in a thread of its own."""
        line = self._open()

        def wait() -> None:
            while line.recv(1):
                self.tell("writing")
                if self.report is not None:
                    self.report()
            os.killpg(os.getpgrp(), signal.SIGKILL)  # the rehearsal is gone, which nothing may outlive

        threading.Thread(target=wait, name="gpuconf-rehearsal", daemon=True).start()


line: Line = Line()


# Whether the steps of a program repeat: then the next ones take no more memory.

TIMES = 3
_LONGEST = 16  # steps of a cycle, such as those of two optimizers in turn


def repeat(steps: Sequence[object], times: int = TIMES) -> int:
    """Return the length of a cycle of steps that the last ones are so many times, 0 if there is none."""
    for length in range(1, min(_LONGEST, len(steps) // times) + 1):
        last = steps[-length:]
        if all(steps[-length * n : len(steps) - length * (n - 1)] == last for n in range(2, times + 1)):
            return length
    return 0
