"""In an agent of a test, before it starts: ends a process, or lets a call fail, before the step of a number.

A step is a call by which the agent changes something: of its claim, the ledger, the gate or the driver. What it only
reads does not count, so that the steps of one transition are the same each time. They are written to a file.
"""

import functools
import os
import signal
import sys

from gpuconf._core.generated.ledger import Host
from gpuconf.jobs import agent
from gpuconf.jobs.gate import Gate
from gpuconf.leases.ledger import Claim, Ledger

_ASKS = (
    "adopt",
    "claims",
    "plans",
    "say",
    "note_said",
    "memory",
    "bytes_of",
    "state",
    "sleep",
    "activity",
    "why_blind",
    "fileno",
    "folder",
)
_PROGRAM = int(sys.argv[6])

# number, victim; call, code, late, first; short
plan = dict(word.split("=") for word in os.environ["STEPS"].split(","))
done = 0


def _step(name: str) -> None:
    global done
    with open(plan["file"], "a") as file:
        file.write(f"{name}\n")
    if plan.get("number") == str(done):
        victim = {"agent": os.getpid(), "command": os.getppid(), "target": _PROGRAM}[plan["victim"]]
        os.kill(victim, signal.SIGKILL)
    done += 1


def _wrapped(owner: type, name: str) -> None:
    before = getattr(owner, name)

    @functools.wraps(before)
    def call(self: object, *words: object, **named: object) -> object:
        _step(f"{owner.__name__}.{name}")
        return before(self, *words, **named)

    setattr(owner, name, call)


def _failing(before: object) -> object:
    good = int(plan["first"])

    def call(self: agent.Driver, name: str, *words: object) -> None:
        nonlocal good
        if name.endswith(tuple(plan["call"].split("+"))) and (good := good - 1) < 0:
            if plan["late"] == "1":
                before(self, name, *words)  # type: ignore[operator]
            raise agent.DriverError(name, int(plan["code"]))
        before(self, name, *words)  # type: ignore[operator]

    return call


def _short(before: object) -> object:
    def reserve(self: Claim, count: int, host: Host) -> bool:
        short = Host(host.total, count - (1 << 20), host.group)
        return before(self, count, short)  # type: ignore[operator, no-any-return]

    return reserve


# Those of a new agent are not steps: it takes over.
if not os.path.exists(plan["file"] + ".again"):
    for kind in (Claim, Ledger, Gate, agent.Driver):
        for method, value in list(vars(kind).items()):
            if callable(value) and not method.startswith(("_", "is_")) and method not in _ASKS:
                _wrapped(kind, method)
    if "call" in plan:
        agent.Driver._call = _failing(agent.Driver._call)  # type: ignore[method-assign, assignment]
    if "short" in plan:
        Claim.reserve = _short(Claim.reserve)  # type: ignore[method-assign, assignment]
    if "number" in plan:
        open(plan["file"] + ".again", "w").close()
