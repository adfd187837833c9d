# SPDX-License-Identifier: Apache-2.0
"""A program under ``gpuconf run``, and what its processes report: a private folder, to which each Python's startup code
writes.

The record ``processes`` has a line for each event: the pid, the event, and a text, separated by tabs.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Set

from .._core.block import Block
from .._core.message import loads
from .._typing import Any, NamedTuple
from ..leases.proc import variables_of
from .budget_file import existing, opened, remove

_PREFIX = "gpuconf-run-"
_RECORD = "processes"
_SURELY_LOCKED_S = 60  # the record of a job that is older than this is locked, or its command was killed


class JobEvent(NamedTuple):
    """What a process reported: "start" with the path of its Python, "route" with a library, or "end" with its peaks."""

    pid: int
    kind: str
    text: str


class Job(Block):
    """The folder of a running program. A context manager, which removes it."""

    def __init__(self) -> None:
        for abandoned in filter(_is_abandoned, existing(_PREFIX)):
            remove(abandoned)
        self.folder = os.path.join(_place(), _PREFIX + os.urandom(8).hex())
        os.mkdir(self.folder, 0o700)
        self._record = os.path.join(self.folder, _RECORD)
        self._held = os.open(self._record, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._started: set[int] = set()
        self._looked_at = 0  # bytes of the record

    def environment(self) -> dict[str, str]:
        """Return the variable by which processes find the folder."""
        return {"GPUCONF_RUN": self.folder}

    def events(self) -> list[JobEvent]:
        """Return what the processes have reported, oldest first.

        Malformed lines are skipped: the program may write there too.
        """
        try:
            with open(self._record, "rb") as file:  # as text, it would import its encoding
                lines = file.read().decode("ascii", "replace").split("\n")
        except OSError:  # the program has removed it
            return []
        return [event for line in lines if (event := _parsed(line)) is not None]

    def started(self) -> Set[int]:
        """Return the processes that have reported their start. It reads what is new, because there may be very many."""
        try:
            with open(self._record, "rb") as file:
                file.seek(self._looked_at)
                lines = file.read().rpartition(b"\n")[0]
        except OSError:  # the program has removed it
            return self._started
        if lines:
            self._looked_at += len(lines) + 1
            events = (_parsed(line.decode("ascii", "replace")) for line in lines.split(b"\n"))
            self._started.update(event.pid for event in events if event is not None and event.kind == "start")
        return self._started

    def survivors(self) -> list[int]:
        """Return the processes that have reported and still run."""
        pids = {event.pid for event in self.events()}
        return [pid for pid in pids if variables_of(pid).get("GPUCONF_RUN") == self.folder]

    def __enter__(self) -> Job:
        return self

    def _leave(self, *_: object) -> None:
        os.close(self._held)
        try:
            os.unlink(self._record)
            os.rmdir(self.folder)
        except OSError:  # the program has put something there, or removed it
            remove(self.folder)


def _is_abandoned(folder: str) -> bool:
    """Report whether the job's ``gpuconf run`` was killed: its record is not locked."""
    try:
        if time.time() - os.lstat(folder).st_mtime < _SURELY_LOCKED_S:
            return False
        with opened(os.path.join(folder, _RECORD)) as record:
            fcntl.flock(record, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # it is locked, or another process removes it
        return False
    return True


def _place() -> str:
    """Return the user's run-time directory, or a folder for temporary files."""
    for folder in (os.environ.get("XDG_RUNTIME_DIR", ""), os.environ.get("TMPDIR", ""), "/tmp"):
        if os.path.isabs(folder) and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
            return folder
    import tempfile

    return tempfile.gettempdir()


def _parsed(line: str) -> JobEvent | None:
    pid, _, rest = line.partition("\t")
    kind, _, text = rest.partition("\t")
    try:
        return JobEvent(int(pid), kind, text.encode("ascii").decode("unicode_escape"))
    except ValueError:  # not a number, or not an escape
        return None


def peaks(events: list[JobEvent]) -> tuple[dict[str, int], list[str]]:
    """Return the largest peak of a process by library, in bytes, and the messages of processes that ended out of
    memory.
    """
    largest: dict[str, int] = {}
    messages = []
    for event in events:
        told = _told(event) if event.kind == "end" else {}
        for library, count in told.get("peaks", {}).items():
            largest[library] = max(largest.get(library, 0), count)
        if told.get("out_of_memory"):
            messages.append(str(told["out_of_memory"]))
    return largest, messages


def _told(event: JobEvent) -> dict[str, Any]:
    try:
        told = loads(event.text)
        return told if isinstance(told, dict) and isinstance(told.get("peaks"), dict) else {}
    except ValueError:
        return {}
