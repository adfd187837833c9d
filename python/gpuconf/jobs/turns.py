# SPDX-License-Identifier: Apache-2.0
"""``gpuconf run --turns``, from the side of the command: it starts the job's agent (agent.py), and another one if that
is killed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence

from .. import errors
from .._core.generated.ledger import Turns
from .._core.settings import EXPERIMENTAL
from .._typing import Any, NamedTuple
from ..leases.ledger import Claim, ClaimRow, Ledger
from ..leases.proc import printable
from ..machine.cards import Survey
from .cgroup import host_room

END = b"."  # asks an agent to end although the program goes on
NO_ROOM = "the host's memory has no room for it"  # why a program is not suspended
OFF = 3  # exit code of an agent that cannot serve: it has said why

NONE, RUNS, LEAVES, COMES = range(4)  # the phases of a program in the ledger (gocore/lease/ledger/turns.go)

LEAST_CUDA = (12, 8)
TOO_OLD = "the driver has no process checkpoints: they need driver 570 or newer"

_ENDING = 5.0  # seconds for an agent to end after its job
_BETWEEN = 1.0  # seconds between two starts
_STARTS = 10  # of agents that did not last for a minute
_LASTS = 60.0  # seconds
_VARIABLE = "GPUCONF_TURNS"  # "experimental": on a real driver, too
# The GPUs, by compute capability, and the branches of their driver on which `make gpu WHAT=turns` has passed: none yet.
_TESTED: frozenset[tuple[tuple[int, int], str]] = frozenset()
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


def why_not(option: str, survey: Survey) -> str:
    """Return why no program is suspended on this machine, for an option that needs it; "" if it is."""
    if survey.simulated or os.environ.get(_VARIABLE) == EXPERIMENTAL:
        return ""
    branch = (survey.driver or "").partition(".")[0]
    if survey.cards and {(card.compute_capability, branch) for card in survey.cards} <= _TESTED:
        return ""
    return (
        f"{option} has not been tested on a real GPU and its driver: a driver that fails may end the program. "
        f"{_VARIABLE}=experimental turns it on"
    )


def why_never(survey: Survey, leased: Sequence[str] = ()) -> str:
    """Return why the driver or the kernel of this machine suspends no program, or none on the leased cards, as far as
    that shows; "" if they do.
    """
    spec, cuda = survey.simulated or "", survey.cuda
    if spec:
        import re

        named = re.search(r"driver=(\d+)\.(\d+)", spec)
        cuda = (int(named[1]), int(named[2])) if named else (12, 4)
    if cuda is not None and cuda < LEAST_CUDA:
        return f"{TOO_OLD}; a simulated one is by :driver=13.0 after the model" if spec else TOO_OLD
    from .driver_limits import mps_runs
    from .gate import NO_MEMBARRIER, has_membarrier  # and with it ctypes, which commands without turns do not need

    if not has_membarrier():
        return NO_MEMBARRIER
    if ":mps" in spec or (not spec and mps_runs(os.environ)):
        return "programs use the GPU through MPS, which the driver cannot suspend"
    if any(uuid.startswith("MIG-") for uuid in leased) or all(card.instances for card in survey.cards):
        return "MIG is on"
    return ""


def outlook(ledger: Ledger) -> str:
    """Return what is known of how long this process waits for its claim: a time, or who does not give way."""
    rows = {row.id: row for row in ledger.claims()}
    now, plans = ledger.plans(host_room())
    own = next((one for one in plans if one.waiter in rows and rows[one.waiter].pid == os.getpid()), None)
    if own is None:
        return ""
    if own.gets and own.leave:
        return f", about {max(0, own.when - now) / 1e9:.0f} s"
    keep = [
        f"PID {rows[one].pid} ({printable(rows[one].command)[:40]}: {why_kept(rows[one])})"
        for one in own.blocked[:3]
        if one in rows
    ]
    return f": not given way by {', '.join(keep)}" if keep else ""


def why_kept(row: ClaimRow) -> str:
    """Return why a program that stands in the way of another one, by a plan, keeps its memory."""
    return row.keeps or (NO_ROOM if row.turns else "it does not take turns")


class AgentOf:
    """The agent of a job, by the folder of its budget, that of the ledger, its claim's ID, and the claim; None if only
    the program has that. ``environment`` is that of a program that calls the driver without the guard. What it has to
    say goes to the standard error of process ``says_as``, 0: to that of this one. ``budget`` is a descriptor that keeps
    the budget: an agent that had it would not see that the job has ended.
    """

    def __init__(
        self,
        folder: str,
        ledger: str,
        lease: str,
        claim: Claim | None,
        environment: Mapping[str, str],
        times: Times,
        says_as: int = 0,
        budget: int = -1,
    ) -> None:
        place = f"/proc/{says_as}/fd/2"
        said = place if os.access(place, os.R_OK | os.W_OK) else os.devnull
        opens = [(0, os.devnull), (1, os.devnull), *([(2, said)] if says_as else [])]
        self._files: list[Any] = [(os.POSIX_SPAWN_OPEN, number, path, os.O_RDWR, 0) for number, path in opens]
        self._files += [(os.POSIX_SPAWN_CLOSE, budget)] if budget >= 0 else []
        self._words, self._claim = (folder, ledger, lease), claim
        self._environment, self._times = environment, times
        self.pid: int = 0  # of the agent
        self._pipe, self._started, self._starts = -1, -_LASTS, 0

    def say(self, phase: int, why: str = "") -> None:
        """Say in the ledger what no agent can: not yet, or not any more. ``why`` the program is never suspended."""
        if self._claim is None:
            return
        slice_time, idle_time = (round(seconds * 1e9) for seconds in self._times)
        try:  # noqa: SIM105 - contextlib takes long to import at the start of `gpuconf run`
            self._claim.say(Turns(phase, 0, 0, 0, slice_time, idle_time, 0, 0, 0, why))
        except errors.GpuconfError:
            pass  # the ledger was removed: who waits in another one does not see the claim

    def look(self, program: int) -> None:
        """Start an agent if there is none, once the program runs."""
        lasted = time.monotonic() - self._started
        if self.pid:
            code = self._code()
            if code is None:
                return
            self.pid = 0
            os.close(self._pipe)
            if code == OFF:
                self._starts = _STARTS
                self.say(NONE, "gpuconf's agent cannot serve it")
            elif lasted > _LASTS:
                self._starts = 0
            elif self._starts == _STARTS:
                ended = f"their agent has ended {_STARTS} times"
                self.say(NONE, f"turns are off: {ended}")
                why = f"{ended}. If the program waits for the GPU, end it"
                print(f"gpuconf: turns are off: {why}", file=sys.stderr, flush=True)
        if self._starts < _STARTS and lasted > _BETWEEN:
            if self._has_another():
                self._started = time.monotonic()
            else:
                self._start(program)

    def _has_another(self) -> bool:
        """Whether an agent that gpuconf resume has started serves the job."""
        from .gate import is_served

        return is_served(self._words[0])

    def _start(self, program: int) -> None:
        self._started, self._starts = time.monotonic(), self._starts + 1
        watched, self._pipe = os.pipe()
        os.set_inheritable(watched, True)
        # A copy, which other children do not inherit.
        claim = -1 if self._claim is None else os.dup(self._claim.fileno())
        words = (*self._words, claim, watched, program, *self._times)
        try:
            if claim >= 0:
                os.set_inheritable(claim, True)
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-c", _CODE, *map(str, words)],
                dict(self._environment),
                file_actions=self._files,
            )
        finally:
            os.close(watched)
            if claim >= 0:
                os.close(claim)

    def _code(self) -> int | None:
        """Return the exit code of the agent; None while it lives."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # the program waits for any child
            return 1
        return os.waitstatus_to_exitcode(status) if pid else None

    def end(self, program: int) -> None:
        """Let it end although the program goes on, and wait until it has: it brings the program back first."""
        asked = 0
        while self.pid or 0 < self._starts < _STARTS:
            if self.pid and self.pid != asked:
                os.write(self._pipe, END)
                asked = self.pid
            if asked and self._code() in (0, OFF):
                self.leave()
                return
            self.look(program)  # starts another one, if it was killed before
            if not self.pid and self._has_another():
                return
            time.sleep(0.01)

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
            if self._code() is not None:
                break
            time.sleep(0.005)
        self.pid = 0
