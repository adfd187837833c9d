# SPDX-License-Identifier: Apache-2.0
"""``gpuconf park`` and ``gpuconf resume``: give the memory of a program to others by hand, and let it go on."""

from __future__ import annotations

import os
import time

from .. import errors
from .._core.generated.ledger import ClaimRow
from .._core.table import human_bytes
from .._typing import NamedTuple
from ..jobs.budget import Reader, budgets
from ..jobs.gate import Gate, is_served
from ..jobs.turns import AgentOf, Times
from ..leases.ledger import Ledger, open_ledger
from ..leases.proc import stopped, variables_of
from . import console
from .console import CONDITION, OK
from .parser import Options

_PATIENCE = 120.0  # seconds: what was submitted must end, and the memory leave the card
_SOON = 10.0  # seconds in which a program that can go on does so
_STARTING = 3.0  # seconds that an agent takes to start
_LOOK = 0.2
_OF_THE_PROGRAM = ("GPUCONF_GUARD", "GPUCONF_LEASE", "GPUCONF_LEASE_FD", "GPUCONF_LIMIT", "GPUCONF_RUN")


class _CannotError(Exception):
    """The program cannot be parked or resumed."""


class _Job(NamedTuple):
    """A job that gives way: its lease, the processes that use the GPU, and its gate."""

    ledger: Ledger
    lease: str
    pid: int  # as the ledger shows it
    folder: str
    processes: list[int]
    gate: Gate

    def row(self) -> ClaimRow:
        """Return its lease. Raises _CannotError if the job has ended."""
        for row in self.ledger.claims():
            if row.id == self.lease:
                return row
        raise _CannotError(f"PID {self.pid} has ended")


def park(options: Options) -> int:
    """Run ``gpuconf park``."""
    return _reporting("park", lambda: _park(_job(options.program)))


def resume(options: Options) -> int:
    """Run ``gpuconf resume``."""
    return _reporting("resume", lambda: _resume(_job(options.program)))


def _reporting(command: str, run: object) -> int:
    try:
        print(run())  # type: ignore[operator]
    except (_CannotError, errors.GpuconfError) as error:
        console.complain(f"gpuconf {command}: {error}")
        return CONDITION
    return OK


def _job(target: str) -> _Job:
    """Return the job with a PID, which may be that of any of its processes, or with the name of a lease."""
    try:
        ledger = open_ledger(create=False)
        rows = ledger.claims()
    except errors.NotFoundError:
        rows = []
    readers = {reader.job: reader for reader in budgets()}
    # Of a process that does not use the GPU, such as the server of notebooks, or one that it has forked.
    inside = variables_of(int(target)).get("GPUCONF_LEASE", "") if target.isdecimal() else ""
    matching = [
        row
        for row in rows
        if row.id == inside or target in (row.name, str(row.pid), *map(str, _processes(readers.get(row.id))))
    ]
    if not target or len(matching) != 1:  # leases without a name are no answer to an empty variable
        many = f"{len(matching)} leases have" if len(matching) > 1 else "no lease has"
        raise _CannotError(f"{many} the name or PID {target!r}: gpuconf lease --list lists them")
    reader = readers.get(matching[0].id)
    folder = os.path.dirname(reader.path) if reader is not None else ""
    try:
        gate = Gate(folder)
    except errors.UnavailableError:
        raise _CannotError(
            f"PID {matching[0].pid} takes no turns: gpuconf run --turns starts a program that does"
        ) from None
    return _Job(ledger, matching[0].id, matching[0].pid, folder, _processes(reader), gate)


def _processes(reader: Reader | None) -> list[int]:
    if reader is None:
        return []
    return sorted({one.pid for card in reader.usage().values() for one in card.processes})


def _park(job: _Job) -> str:
    soon = time.monotonic() + _STARTING
    while not is_served(job.folder):
        if time.monotonic() > soon:
            raise _CannotError(f"the agent of PID {job.pid} has ended: gpuconf resume {job.pid} starts another one")
        time.sleep(_LOOK)
    before = job.gate.said()
    job.gate.hold(True)
    end = time.monotonic() + _PATIENCE
    while not (job.gate.is_closed() and _is_away(job.row())):
        # What the agent says next it may have seen before.
        keeps = job.row().keeps if (job.gate.said() - before) % (1 << 32) > 1 else ""
        if keeps or time.monotonic() > end:
            job.gate.hold(False)
            raise _CannotError(f"PID {job.pid} keeps its memory: {keeps or 'its work did not end in time'}")
        time.sleep(_LOOK)
    amount = human_bytes(job.row().host)
    return f"{amount} of PID {job.pid} are in the host's memory. It goes on with: gpuconf resume {job.pid}"


def _is_away(row: ClaimRow) -> bool:
    """Whether its cards are free for others: only then its lease is parked, or has nothing that was lent."""
    return row.state == "parked" or (row.host > 0 and not row.lent and not row.turns)


def _resume(job: _Job) -> str:
    said = ""
    job.gate.hold(False)
    if not is_served(job.folder):
        said = " Its agent had ended: it has another one"
        _start_agent(job)
    end = time.monotonic() + _SOON
    while job.gate.is_closed() or not is_served(job.folder):
        keeps = job.row().keeps
        if keeps:
            raise _CannotError(f"PID {job.pid}: {keeps}")
        if pid := next(filter(stopped, job.processes), 0):
            raise _CannotError(f"PID {job.pid} goes on when PID {pid} does, which is stopped: kill -CONT {pid}")
        if time.monotonic() > end:
            return f"PID {job.pid} waits for its turn: gpuconf lease --list shows the queue.{said}"
        time.sleep(_LOOK)
    return f"PID {job.pid} goes on.{said}"


def _start_agent(job: _Job) -> None:
    """Start an agent as the command would: with the program's environment, but for the guard."""
    others = map(int, filter(str.isdigit, os.listdir("/proc")))  # such as the server of notebooks that have ended
    for pid in (*job.processes, *others):
        variables = variables_of(pid)
        if (variables and pid in job.processes) or variables.get("GPUCONF_LEASE") == job.lease:
            break
    else:
        raise _CannotError(f"no process of PID {job.pid} is left")
    for name in _OF_THE_PROGRAM:
        variables.pop(name, None)
    for name, separator in (("LD_LIBRARY_PATH", ":"), ("LD_PRELOAD", " ")):
        parts = variables.get(name, "").split(separator)
        variables[name] = separator.join(part for part in parts if part and not part.startswith(job.folder))
    row = job.row()
    times = Times(row.slice / 1e9, row.idle_time / 1e9)
    AgentOf(job.folder, job.ledger.folder, job.lease, None, variables, times, says_as=pid).look(0)
