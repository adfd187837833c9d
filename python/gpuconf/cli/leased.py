# SPDX-License-Identifier: Apache-2.0
"""A program of ``gpuconf run`` with a lease or a limit: claim the memory, run the program, and report what its
processes did.
"""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Mapping, Sequence

from .. import errors
from .._core import settings
from .._core.block import Block
from .._core.devices import VisibleDevice
from .._core.table import human_bytes
from .._typing import Any
from ..jobs.descendants import Found, is_python, past_the_guard_below, pythons_below, why_isolated
from ..jobs.execute import check_there
from ..jobs.job import Job, JobEvent, peaks
from ..jobs.supervise import Supervisor, end_as
from ..jobs.turns import RUNS, AgentOf, Times, outlook, why_never, why_not
from ..leases.contexts import of_command
from ..leases.environment import of_program, of_simulation, python_path
from ..leases.grant import Grant, grant, limited
from ..leases.ledger import open_ledger
from ..leases.request import Request, checked
from ..machine.cards import survey, visible_devices
from . import console, guarded
from .console import CONDITION, TIMED_OUT, CheckingUsage, Progress, UsageError
from .output import SCHEMA
from .parser import Options
from .simulated import simulated_here

_SOON, _LATER = 0.25, 1.0  # seconds between two looks at the processes: at first, and then
_LONG_ENOUGH = 3.0  # seconds after which a Python counts that has not loaded a driver, and skipped the startup code


def run(options: Options, words: Sequence[str], own: Mapping[str, str]) -> int:
    """Run the program and return its exit code. ``own`` has the variables of the options that need no lease."""
    supervisor, asked = Supervisor(), time.monotonic()
    try:
        granted = granted_to(options, supervisor, words)
    except (errors.NotFoundError, errors.DeadlineExceededError, _NeverError) as error:
        console.complain(f"gpuconf {options.command}: {error}")
        return TIMED_OUT if isinstance(error, errors.DeadlineExceededError) else CONDITION
    for text in granted.notes():
        console.complain(f"gpuconf {options.command}: {text}")
    turns = _gives_way(options, granted)
    if granted.most > granted.limit and turns:
        options.growth = True
    else:
        granted.most = granted.limit
    with (
        granted,
        _Shared(options.simulate, turns) as shared,
        guarded.guard(options, granted, words, {**os.environ, **own}, turns=turns) as guard,
        Job() as job,
    ):
        limits = {**_environment(options, granted, job, guard), **guard.environment()}
        own_limit = _by_variables(options) or granted.lowered
        setter = settings.who_limits(settings.limit(os.environ)) if own_limit else _memory(options)
        where = f" of gpuconf {options.command}" * (setter == "--memory")
        limits["GPUCONF_LIMIT_FROM"] = f"{limits['GPUCONF_LIMIT']} {setter}{where}"
        environment = {**os.environ, **own, **limits, **shared.environment}
        watch = _Watch(job, guard.counts, granted)
        agent = _agent(options, granted, guard, {**os.environ, **own, **shared.environment}) if turns else None
        if getattr(options, "check", False):
            print(guard.describe(), flush=True)
        for text in guard.warnings():
            console.complain(f"gpuconf run: guard: {text}")
        check_there(words)
        started = time.monotonic()

        def look() -> float:
            if agent is None:
                return watch.look()
            agent.look(supervisor.pid)
            return watch.look(agent.pid)

        status = supervisor.run(words, environment, look)
        report = {
            "command": list(words),
            "seconds": round(time.monotonic() - started, 3),
            "waited_seconds": round(started - asked, 3),
            **_end(status),
            "lease": granted.to_dict(),
            **watch.result(supervisor.pid, words),
            "guard": guard.report(),
        }
        if job.survivors():
            granted.leave_to_others()
            if agent is not None:
                agent.leave()
        elif agent is not None:
            agent.close()
    _write(options, report, setter)
    return end_as(status)


def granted_to(options: Options, supervisor: Supervisor, words: Sequence[str]) -> Grant:
    """Wait for the memory that the options ask for. Raises NotFoundError, DeadlineExceededError and _NeverError.

    Without a size and a number of GPUs the variables limit the program on all GPUs, and nothing is leased.
    """
    request = request_of(options, words)
    devices = supervisor.load(lambda: _devices(options.simulate))
    if _by_variables(options):
        return limited(devices)
    asked = f"{options.memory or 'all memory'} on {request.gpus} GPU{'s' * (request.gpus > 1)}"
    with Progress(f"gpuconf {options.command}") as progress:

        def waiting() -> None:
            check_there(words)  # or the wait is in vain
            more = outlook(open_ledger(create=False)) if getattr(options, "turns", None) else ""
            progress.show(f"waiting for {asked}{more} (see gpuconf lease --list)")

        try:
            return grant(request, devices, shlex.join(words), waiting)
        except errors.InvalidArgumentError as error:
            said = "" if _memory(options) == "--memory" else f". {_memory(options)} sets it"
            raise _NeverError(f"{error}{said}") from None


def _by_variables(options: Options) -> bool:
    return options.command == "run" and options.memory is None and options.gpus is None


class _NeverError(Exception):
    """The GPUs of this machine can never give what is requested, or the administrator does not allow it."""


def request_of(options: Options, words: Sequence[str]) -> Request:
    """Return the request of a command line. Raises UsageError."""
    with CheckingUsage("--"):
        timeout, gpus = 0 if options.wait is False else options.timeout, 1 if options.gpus is None else options.gpus
        contexts = of_command(words, max(gpus, 1), os.environ) if options.contexts is None else options.contexts
        request = checked(options.memory, gpus, timeout, options.name or "", options.policy or "spread", contexts)
    for name, given in (("--turns", getattr(options, "turns", None)), ("--no-growth", options.growth is False)):
        if request.most is not None and given:
            raise UsageError(f"{name} and {_memory(options)} MIN..MAX exclude each other")
    return request


def _memory(options: Options) -> str:
    """Return what sets the size of the lease: the option, or the variable or file that stands for it."""
    return getattr(options, "memory_from", "--memory")


def _devices(simulate: str | None) -> list[VisibleDevice]:
    if simulate is not None:
        simulated_here(simulate)
    return visible_devices()


def _gives_way(options: Options, granted: Grant) -> bool:
    """Whether the program takes turns, or memory is lent to it. If it is requested and not possible, says why."""
    option, without = _option(granted)
    default = options.command == "run" and options.turns is None and settings.turns_by_default(os.environ)
    if not getattr(options, "turns", None) and granted.most == granted.limit and not default:
        return False
    machine = survey()
    why = why_not(option, machine)
    if not why and (never := why_never(machine, [card.uuid for card in granted.cards])):
        why = f"{option}: {never}"
    if granted.claim is None:
        why = f"{option} is for a lease of its own, and this program is inside another one"
    elif getattr(options, "guard", None) == "off":
        why = f"{option} needs the guard"
    if default and (granted.claim is None or options.guard == "off"):
        return False
    if why:
        console.complain(f"gpuconf {options.command}: {why}. The program runs {without}")
    return not why


def _option(granted: Grant) -> tuple[str, str]:
    """Return the option by which a program gives way, and how it runs if that is not possible."""
    if granted.most > granted.limit:
        return "--memory MIN..MAX", f"with {human_bytes(granted.limit)}"
    return "--turns", "without turns"


def _agent(options: Options, granted: Grant, guard: guarded.Guard, environment: dict[str, str]) -> AgentOf | None:
    """Return the agent of a program that takes turns; None, with a note, where no guard has a gate."""
    assert granted.claim is not None
    if not guard.folder:
        option, without = _option(granted)
        console.complain(
            f"gpuconf {options.command}: {option} needs the guard: {guard.describe()}. The program runs {without}"
        )
        return None
    simulated = options.simulate is not None or bool(os.environ.get("GPUCONF_SIMULATE"))
    driver = of_simulation(environment) if simulated else {}
    times = Times(getattr(options, "slice", None) or 0, getattr(options, "idle", None) or 0)
    claim = granted.claim
    agent = AgentOf(
        guard.folder, claim.folder, claim.id, claim, {**environment, **driver}, times, budget=guard.descriptor
    )
    if granted.most == granted.limit:
        agent.say(RUNS)  # who waits already counts on it
    return agent


class _Shared(Block):
    """The simulated cards that the program shares with all that it starts, if there are any. A context manager.

    Without --simulate each process has the cards of ``GPUCONF_SIMULATE`` for itself, but for a program that gives way:
    its agent has to see its memory leave them.
    """

    def __init__(self, simulate: str | None, gives_way: bool) -> None:
        self._cards = None
        self.environment: dict[str, str] = {}
        spec = simulate if simulate is not None or not gives_way else survey().simulated
        if spec:
            from ..jobs.simulated_cards import of_program as of_simulation

            self._cards = of_simulation(spec)

    def __enter__(self) -> _Shared:
        if self._cards is not None:
            self._cards.keep_descriptor()
            self.environment = self._cards.environment
        return self

    def _leave(self, *_: object) -> None:
        if self._cards is not None:
            self._cards.close()


def _environment(options: Options, granted: Grant, job: Job, guard: guarded.Guard) -> dict[str, str]:
    """Return the variables that make the program use what was granted to it, and report to the job."""
    if not (granted.cards or granted.id):  # the program may simulate GPUs itself, so none are hidden
        return {"GPUCONF_LIMIT": str(granted.limit), "PYTHONPATH": python_path(), **job.environment()}
    found = of_program(guard.seen(granted), granted.most, options.growth, options.simulate)
    return {**found, **granted.environment(), **job.environment()}


# What the processes did


class _Watch:
    """Looks for Python processes that do not run gpuconf's startup code, and, if there is a guard, for processes that
    it misses.
    """

    def __init__(self, job: Job, guarded: bool, granted: Grant) -> None:
        self._job = job
        self._granted = granted
        self._said_lost = False
        self._guarded = guarded
        self._past: dict[int, str] = {}  # command lines of processes past the guard
        self._looked: dict[tuple[int, str], int] = {}  # what is known of the others
        self._began = time.monotonic()
        self._seen: dict[int, tuple[float, float, Found]] = {}  # first and last seen

    def look(self, agent: int = 0) -> float:
        """Note the living processes, but the agent. Returns the seconds until the next look."""
        now = time.monotonic()
        for pid, found in pythons_below(os.getpid(), self._job.folder, self._job.started()).items():
            if pid == agent:
                continue
            first, _, before = self._seen.get(pid, (now, now, found))
            self._seen[pid] = (first, now, found._replace(uses_gpu=found.uses_gpu or before.uses_gpu))
        if not self._said_lost and (text := self._granted.why_lost()):
            self._said_lost = True
            console.complain(f"gpuconf run: {text}")
        if self._guarded:
            past = past_the_guard_below(os.getpid(), self._looked)
            self._past.update({pid: command for pid, command in past.items() if pid != agent})
        return _SOON if now < self._began + 5 else _LATER

    def result(self, program: int, words: Sequence[str]) -> dict[str, Any]:
        """Return what is known at the end of the program, which was started with these words."""
        events = self._job.events()
        largest, messages = peaks(events)
        routes = [{"pid": event.pid, "status": event.text} for event in events if event.kind == "route"]
        missing = [] if _disabled() else [one._asdict() for one in self._missing(events, program, words)]
        past = [{"pid": pid, "command": command} for pid, command in sorted(self._past.items())]
        return {
            "peak_bytes": largest,
            "out_of_memory": messages,
            "libraries": routes,
            "not_limited": missing,
            "past_the_guard": past,
        }

    def _missing(self, events: list[JobEvent], program: int, words: Sequence[str]) -> list[Found]:
        started = {event.pid for event in events if event.kind == "start"}
        missing = {
            pid: one for pid, (first, last, one) in self._seen.items() if one.uses_gpu or last - first >= _LONG_ENOUGH
        }
        why = why_isolated(words) if is_python(words[0]) else ""
        if why:
            missing[program] = Found(program, shlex.join(words), why, program in missing)
        return [one for pid, one in sorted(missing.items()) if pid not in started]


def _disabled() -> bool:
    return os.environ.get("GPUCONF_DISABLE", "") not in ("", "0")


def _end(status: int) -> dict[str, Any]:
    if os.WIFSIGNALED(status):
        return {"exit_code": None, "signal": _signal_name(os.WTERMSIG(status))}
    return {"exit_code": os.WEXITSTATUS(status), "signal": None}


def _signal_name(number: int) -> str:
    names = {int(one): one.name for one in signal.Signals}
    return names.get(number, f"SIGRTMIN{number - signal.SIGRTMIN:+}")


def _write(options: Options, report: dict[str, Any], setter: str) -> None:
    """Write the reports that the options request, and always which processes were not limited."""
    past = {one["pid"] for one in report["past_the_guard"]}
    for one in report["not_limited"]:
        limited = report["guard"]["mode"] != "off" and one["pid"] not in past
        what = "is limited, but did not get gpuconf's settings" if limited else "was not limited"
        console.complain(f"gpuconf run: PID {one['pid']} {what}: {one['why']}: {one['command']}")
    for one in report["past_the_guard"]:
        console.complain(f"gpuconf run: PID {one['pid']} bypassed the guard: {one['command']}")
    for note in report["guard"]["notes"]:
        console.complain(f"gpuconf run: guard: {note}")
    if options.report and report["guard"].get("not_counted"):
        console.complain("gpuconf run: the guard does not count CUDA contexts, for example; --json-report has the list")
    if options.report:
        console.complain(f"gpuconf run: {_line(report)}")
    if report["exit_code"] != 0:
        _note_limit(report, setter)
    if options.json_report is not None:
        import json

        from .._core.files import replacing

        try:
            with replacing(options.json_report, encoding="utf-8") as file:
                json.dump({"schema": SCHEMA, **report}, file, indent=2)
                file.write("\n")
        except OSError as error:
            console.complain(f"gpuconf run: --json-report: {options.json_report}: {error.strerror}")


def _note_limit(report: dict[str, Any], setter: str) -> None:
    """Say which limit a program that failed had reached: its own message names a card of that size, and not gpuconf."""
    own = any("OOM when allocating" in text for text in report["out_of_memory"])
    refused = any(card.get("refused", 0) for card in report["guard"]["gpus"].values())
    elsewhere = any("is not one of this job's" in note for note in report["guard"]["notes"])
    if (refused or (report["out_of_memory"] and not elsewhere)) and not own:
        limit = _limit(report["lease"])
        console.complain(f"gpuconf run: the program ran out of memory, at its limit of {limit}. {setter} sets it")


def _limit(lease: dict[str, Any]) -> str:
    """Return a job's limit; if memory may be lent to it, from what it has for sure to the most, as --memory has it."""
    least, most = lease["memory_limit"], lease["memory_most"]
    return human_bytes(least) + (f"..{human_bytes(most)}" if most > least else "")


def _line(report: dict[str, Any]) -> str:
    used = ", ".join(f"{library} {human_bytes(count)}" for library, count in sorted(report["peak_bytes"].items()))
    gpus, limit = len(report["lease"]["gpus"]), _limit(report["lease"])
    if gpus > 1:
        limit += f" on each of {gpus} GPUs"
    parts = [
        f"{report['seconds']:.1f} s",
        f"peak {used} of {limit}" if used else f"gpuconf's pools not used, limit {limit}",
    ]
    parts += filter(None, [guarded.line(report["guard"])])
    if report["out_of_memory"]:
        parts.append(report["out_of_memory"][-1])
    elif report["exit_code"] != 0:
        parts.append(f"exit code {report['exit_code']}" if report["signal"] is None else f"ended by {report['signal']}")
    return "; ".join(parts)
