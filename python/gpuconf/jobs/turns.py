# SPDX-License-Identifier: Apache-2.0
"""``gpuconf run --turns``, from the side of the command: it starts the job's agent (agent.py), and another one if that
is killed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping

from .._typing import NamedTuple
from ..leases.ledger import Claim, Ledger
from ..leases.proc import printable
from .cgroup import host_room

OFF = 3  # exit code of an agent that cannot serve: it has said why

_ENDING = 5.0  # seconds for an agent to end after its job
_BETWEEN = 1.0  # seconds between two starts
_STARTS = 10  # of agents that did not last for a minute
_LASTS = 60.0  # seconds
_VARIABLE = "GPUCONF_TURNS"  # "experimental": on a real driver, too
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Without the working folder, in which the user's files may have the names of modules.
_CODE = (
    f"import sys; sys.path[:1] = []; sys.path.append({_ROOT!r}); from gpuconf.jobs.agent import main; "
    "sys.exit(main(sys.argv[1:]))"
)


class Times(NamedTuple):
    """What a user requests of turns, in seconds; 0 for what gpuconf chooses."""

    slice: float  # a turn is never shorter
    idle: float  # after which an idle program leaves


def why_not(simulated: bool) -> str:
    """Return why programs take no turns on this machine; "" if they do."""
    if simulated or os.environ.get(_VARIABLE) == "experimental":
        return ""
    return (
        "--turns has not been tested on a real GPU and its driver: a driver that fails may end the program. "
        f"{_VARIABLE}=experimental turns it on"
    )


def outlook(ledger: Ledger) -> str:
    """Return what is known of how long this process waits for its claim: a time, or who does not give way."""
    rows = {row.id: row for row in ledger.claims()}
    now, plans = ledger.plans(host_room())
    own = next((one for one in plans if one.waiter in rows and rows[one.waiter].pid == os.getpid()), None)
    if own is None:
        return ""
    if own.gets and own.leave:
        return f", about {max(0, own.when - now) / 1e9:.0f} s"
    keep = [f"PID {rows[one].pid} ({printable(rows[one].command)[:40]})" for one in own.blocked[:3] if one in rows]
    return f": not given way by {', '.join(keep)}" if keep else ""


class AgentOf:
    """The agent of a job. ``environment`` is that of a program that calls the driver without the guard."""

    def __init__(self, folder: str, claim: Claim, environment: Mapping[str, str], times: Times) -> None:
        self._folder, self._claim, self._environment, self._times = folder, claim, environment, times
        self.pid: int = 0  # of the agent
        self._pipe, self._started, self._starts = -1, -_LASTS, 0

    def look(self, program: int) -> None:
        """Start an agent if there is none, once the program runs."""
        lasted = time.monotonic() - self._started
        if self.pid:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == 0:
                return
            self.pid = 0
            os.close(self._pipe)
            if os.waitstatus_to_exitcode(status) == OFF:
                self._starts = _STARTS
            elif lasted > _LASTS:
                self._starts = 0
            elif self._starts == _STARTS:
                why = f"their agent has ended {_STARTS} times. If the program waits for the GPU, end it"
                print(f"gpuconf run: turns are off: {why}", file=sys.stderr, flush=True)
        if self._starts < _STARTS and lasted > _BETWEEN:
            self._start(program)

    def _start(self, program: int) -> None:
        self._started, self._starts = time.monotonic(), self._starts + 1
        watched, self._pipe = os.pipe()
        os.set_inheritable(watched, True)
        words = (self._folder, self._claim.folder, self._claim.id, self._claim.fileno(), watched, program, *self._times)
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-c", _CODE, *map(str, words)],
                dict(self._environment),
                file_actions=[(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)],
            )
        finally:
            os.close(watched)

    def leave(self) -> None:
        """Leave it to the processes of the job that still live: it ends with the last one."""
        if self.pid:
            os.close(self._pipe)
            self.pid = 0

    def close(self) -> None:
        """End it, after what it is doing: it has a copy of the lease. Waits for some seconds at most."""
        if not self.pid:
            return
        os.close(self._pipe)
        end = time.monotonic() + _ENDING
        while time.monotonic() < end:
            pid, _ = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(0.005)
        self.pid = 0
