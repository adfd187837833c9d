# SPDX-License-Identifier: Apache-2.0
"""Starts a program on simulated GPUs, hears from its processes, and ends it with all that it has started."""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from ..._typing import Any, NamedTuple
from .cover import Cover, Options
from .line import JAX_REPORT, REQUEST, SOCKET, TORCH_REPORT, VARIABLE
from .records import Report, Request

_FIRST_ANSWER = 20.0  # seconds for a process to begin to write what it knows, when it is asked
_LAST_WORDS = 5.0  # seconds, at most, to hear what processes said before they ended: a sender without an end is cut


class Heard:
    """What one process of the program reported."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.torch: str | None = None
        self.jax: str | None = None
        self.refused = ""  # why it cannot be rehearsed
        self.simulated = False
        self.uses_gpu = False
        self.writes = False  # what it knows
        self.world = 1
        self.ready = ""  # why
        self.failed: dict[str, Any] | None = None
        self.connection: socket.socket | None = None
        self.folder = ""
        self.lived: tuple[float, float] = (0.0, math.inf)  # from its first use of a GPU to its end

    def report(self, name: str) -> Report | None:
        """Return a report of the process, PyTorch's or JAX's by the name of its file, if it wrote one."""
        try:
            with open(os.path.join(self.folder, f"{self.pid}.{name}"), encoding="utf-8") as file:
                return Report.read(json.load(file))
        except (OSError, ValueError):
            return None

    def has_report(self) -> bool:
        """Whether the process wrote a report, as a whole."""
        return any(self.report(name) is not None for name in (JAX_REPORT, TORCH_REPORT))

    @property
    def trace(self) -> str:
        """The path of the trace of a program of JAX."""
        return os.path.join(self.folder, f"{self.pid}.csv")

    @property
    def snapshot(self) -> str:
        """The path of PyTorch's snapshot of its allocator."""
        return os.path.join(self.folder, f"{self.pid}.pickle")

    @property
    def needed(self) -> str:
        """The path of the snapshot without workspaces that PyTorch only tried, or of the whole one if there were
        none.
        """
        path = os.path.join(self.folder, f"{self.pid}.needed.pickle")
        return path if os.path.exists(path) else self.snapshot


class Outcome(NamedTuple):
    """How a run ended: as the fields of Program say. ``failure`` is why it failed, if that is known otherwise."""

    ended: str
    status: int
    seconds: float
    outlived: int
    processes: dict[int, Heard]
    failure: str
    until_repeated: bool = False

    def has_network(self) -> bool:
        """Whether it had the machine's network."""
        return True


class Program:
    """One run of a program, in a cover. Its processes report to ``folder``."""

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], request: Request, options: Options
    ) -> None:
        self.cover = Cover(options)
        self.processes: dict[int, Heard] = {}
        self.ended: str = ""  # "repeated", "steps", "seconds", "interrupted", "refused", or "program"
        self.failure = ""
        self.outlived: int = 0  # processes that were still there when the program had ended
        self.status: int = 0  # as subprocess has it, if the program ended by itself
        self.seconds: float = 0.0
        self._buffers: dict[socket.socket, bytes] = {}
        self._selector = selectors.DefaultSelector()
        self._environment = environment
        self._words = list(words)
        self._request = request
        self.until_repeated: bool = request.until_repeated  # whether only its steps are of interest

    @property
    def folder(self) -> str:
        """The folder of the reports, as this process sees it."""
        return self.cover.folder

    def has_network(self) -> bool:
        """Whether it has the machine's network."""
        return self.cover.has_network()

    def prepare(self, *, silent: bool) -> None:
        """Make the cover; silent, without the program's output. Raises UnavailableError if this machine allows none."""
        output = sys.stderr.fileno() if _has_descriptor(sys.stderr) and not silent else subprocess.DEVNULL
        try:
            self.cover.start(
                self._words, self._environment, stdout=output, stderr=subprocess.DEVNULL if silent else None
            )
            with open(os.path.join(self.folder, REQUEST), "w", encoding="utf-8") as file:
                json.dump(asdict(self._request), file)
        except BaseException:
            self.cover.close()
            raise
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(self.folder, SOCKET))
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def run(self, variables: Mapping[str, str], tick: Callable[[float], None]) -> None:
        """Run the program until it has run for long enough, with these variables in all its processes. ``tick`` is
        called all the time, with the seconds so far.

        Raises OSError if it cannot be started.
        """
        begin = time.monotonic()
        # One that is ignored stays so, as under nohup.
        signals = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
        handlers = {one: signal.signal(one, _interrupt) for one in signals if _in_main_thread()}
        try:
            self.cover.go({**variables, VARIABLE: self.cover.inside})
            try:
                self._until_enough(begin, tick)
            except KeyboardInterrupt:
                self.ended = "interrupted"
            except OSError as error:
                raise OSError(error.errno, error.strerror, self._words[0]) from None
            if self.ended in ("seconds", "interrupted"):
                self._ask(begin, tick)
        finally:
            self.cover.end()
            for one, handler in handlers.items():
                signal.signal(one, handler)
            self.seconds = time.monotonic() - begin
            self._selector.close()
            self._listener.close()
            for connection in self._buffers:
                connection.close()

    def _until_enough(self, begin: float, tick: Callable[[float], None]) -> None:
        while True:
            tick(time.monotonic() - begin)
            status = self.cover.poll()
            if status is not None:
                until = time.monotonic() + _LAST_WORDS
                while self._hear(0.0 if self._buffers else 0.05) and time.monotonic() < until:
                    pass
                self.ended, self.status, self.outlived = "program", status, self.cover.outlived
                return
            left = begin + (self._request.seconds or math.inf) - time.monotonic()
            if left <= 0:
                self.ended = "seconds"
                return
            self._hear(min(left, 0.05))
            if any(one.refused for one in self.processes.values()):
                self.ended = "refused"
                return
            using = [one for one in self.processes.values() if one.uses_gpu]
            if using and all(one.ready for one in using) and len(using) >= max(one.world for one in using):
                self.ended = using[0].ready
                return

    def _ask(self, begin: float, tick: Callable[[float], None]) -> None:
        """Let the processes write what they know. What a long run recorded takes long to write."""
        waiting = [one for one in self.processes.values() if one.uses_gpu and one.connection is not None]
        for one in waiting:
            try:
                assert one.connection is not None
                one.connection.sendall(b"?")
            except OSError:
                continue
        now = time.monotonic()
        first, last = now + _FIRST_ANSWER, now + _FIRST_ANSWER + 2 * (now - begin)
        while not all(one.has_report() or one.connection is None for one in waiting):
            now = time.monotonic()
            if now > (last if any(one.writes for one in waiting) else first):
                return
            tick(now - begin)
            self._hear(0.05)

    def _hear(self, seconds: float) -> bool:
        """Take what the processes say, and wait at most so long for it. Returns whether any said something."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if key.fileobj is self._listener:
                connection, _ = self._listener.accept()
                self._buffers[connection] = b""
                self._selector.register(connection, selectors.EVENT_READ)
                continue
            connection = key.fileobj  # type: ignore[assignment]
            try:
                data = connection.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                self._selector.unregister(connection)
                del self._buffers[connection]
                connection.close()
                for one in self.processes.values():
                    if one.connection is connection:
                        one.connection = None
                        one.lived = (one.lived[0], time.monotonic())
                continue
            *lines, self._buffers[connection] = (self._buffers[connection] + data).split(b"\n")
            for text in lines:
                self._take(json.loads(text), connection)
        return bool(ready)

    def _take(self, message: dict[str, Any], connection: socket.socket) -> None:
        pid = message["pid"]
        one = self.processes.setdefault(pid, Heard(pid))
        one.connection, one.folder = connection, self.folder
        kind = message["kind"]
        if kind == "torch":
            one.torch, one.simulated = message["version"], message["simulated"]
        elif kind == "jax":
            one.jax = message["version"]
            one.lived = (time.monotonic(), math.inf)
        elif kind == "refused":
            one.refused = message["why"]
        elif kind == "cuda":
            one.uses_gpu, one.world = True, message["world"] or 1
            one.lived = (time.monotonic(), math.inf)
        elif kind == "writing":
            one.writes = True
        elif kind == "ready":
            one.ready = message["why"]
        elif kind == "failed":
            one.failed = message


def _interrupt(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _has_descriptor(stream: Any) -> bool:
    try:
        stream.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return True
