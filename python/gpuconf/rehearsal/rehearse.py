# SPDX-License-Identifier: Apache-2.0
"""Rehearses a program once for each group of cards that PyTorch treats alike, and puts the answer together."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .._core.made import make
from .._typing import Any
from ..machine.simulate import simulate_buffers
from ..memory import load_trace
from ..planning import report, sites
from ..planning.plan import find
from ..sharing._environment import of_simulation, python_path
from ..sharing._simulated_cards import of_program
from . import quiet, start, trouble
from .answer import Rehearsal
from .cards import Card, alike
from .needs import SETTINGS, beside, convolutions_of, verdict
from .xla import share

_HELP = {"pytorch-max-split": "max_split_size_mb", "pytorch-roundup": "roundup_power2_divisions"}
_LINES = 6
_INNER = ("others", "shares", "functions")  # of a process, not in the answer
_DROPPED = ("CUDA_VISIBLE_DEVICES", "GPUCONF_SIMULATE", "GPUCONF_SIMULATED_CARDS", "GPUCONF_SIMULATE_STRICT")


@dataclass
class Asked:
    """The request."""

    words: Sequence[str]
    cards: list[Card]
    gpus: int = 1
    steps: int | None = None
    seconds: float = 120.0
    cpu_values: bool = False
    values: str = "none"
    record: str | None = None
    html: str | None = None
    progress: Callable[[str], None] = field(default=lambda _: None)


def rehearse(asked: Asked) -> Rehearsal:
    """Run the program, and return the answer.

    Raises OSError if the program cannot be started.
    """
    groups = alike(asked.cards)
    number = 0
    runs: list[tuple[list[Card], dict[str, Any]]] = []
    folder = start.new_folder()
    keep = False
    try:
        while groups:
            group = groups.pop(0)
            own = os.path.join(folder, str(number))
            os.mkdir(own, 0o700)
            names = ", ".join(card.name for card in group)
            asked.progress(f"running the program as on {names}")
            run = _run(asked, group[0], own, stacks=number == 0)
            asked.progress("replaying its allocations")
            found = _found(run, group[0], first=number == 0)
            alone = [card for card in group[1:] if _needs_own_run(found, group[0], card)]
            groups[:0] = [[card] for card in alone]
            group = [card for card in group if card not in alone]
            runs.append((group, found))
            number += 1
            keep |= _has_output(own)
            quiet.remove_empty(path for one in run.processes.values() for path in one.made)
            if run.ended == "interrupted" or not runs[-1][1]["processes"]:
                break
        answer = _answer(asked.words, [card.name for card in asked.cards], runs, folder if keep else "")
        if asked.record is not None:
            _keep_recording(runs[0][1], asked.record)
        if asked.html is not None and runs[0][1]["processes"]:
            asked.progress("writing the report")
            _write_page(runs[0][1], asked.html)
        return make(Rehearsal, answer)
    finally:
        _clean(folder, keep)


def _needs_own_run(found: Mapping[str, Any], first: Card, card: Card) -> bool:
    """Whether what a program does may differ from card to card, though these have the same compute capability."""
    if _is_jax(found["reports"]):
        return share.may_differ(found["processes"], first, card)
    return _asks_for_memory(found["reports"])


def _is_jax(reports: Sequence[dict[str, Any]]) -> bool:
    return any(report.get("jax") for report in reports)


def _asks_for_memory(reports: Sequence[dict[str, Any]]) -> bool:
    return any(report["counts"].get("memory") for report in reports)


def _run(asked: Asked, card: Card, folder: str, *, stacks: bool) -> start.Program:
    spec = card.simulated(asked.gpus)
    settings = {
        "steps": asked.steps,
        "seconds": asked.seconds,
        "cpu_values": asked.cpu_values or asked.values == "cpu",
        "stacks": stacks,
        "computes": asked.values == "cpu",
        "jax": share.settings_for(card, asked.gpus),
    }
    with simulate_buffers(spec):
        shared = of_program(spec)
        try:
            environment = {name: value for name, value in os.environ.items() if name not in _DROPPED}
            environment |= {
                **of_simulation(environment),
                **quiet.environment(os.path.join(folder, quiet.OUTPUT)),
                "GPUCONF_SIMULATE": spec,
                "GPUCONF_SIMULATE_VALUES": asked.values,
                "PYTHONPATH": python_path(environment),
                "TORCHDYNAMO_DISABLE": "1",
                "PYTHONUNBUFFERED": "1",
                **({} if shared is None else shared.environment),
            }
            program = start.Program(folder, asked.words, environment, settings)
            program.run(() if shared is None else (shared.keep_descriptor(),))
        finally:
            if shared is not None:
                shared.close()
    return program


def _found(run: start.Program, card: Card, *, first: bool) -> dict[str, Any]:
    """Return what is known of a run: each process's peak on each GPU, and what ran."""
    processes = []
    reports = []
    for one in run.processes.values():
        report = one.report()
        if report is not None:
            reports.append(report)
            if report.get("jax"):
                processes += share.peaks(report, one.pid, one.trace)
            else:
                processes += _peaks(report, one.pid, one.snapshot, card, first=first)
    processes.sort(key=lambda one: (one["rank"] is None, one["rank"] or 0, one["pid"], one["gpu"]))
    return {"run": run, "reports": reports, "processes": processes}


def _peaks(report: Mapping[str, Any], pid: int, snapshot: str, card: Card, *, first: bool) -> list[dict[str, Any]]:
    """Return the peak of a process on each GPU, and the least memory with which each of the allocator's settings serves it."""
    policies = [one for one in SETTINGS.values() if card.has_virtual_memory or one == "pytorch"]
    planned = find(load_trace(snapshot), None, None, policies + (list(_HELP) if first else []))
    parts = {gpu["gpu"]: gpu for gpu in report["gpus"]}
    found = []
    for usage in planned.usages:
        results = {result.policy: result for result in planned.results if result.gpu == usage.gpu}
        of_gpu = parts.get(usage.gpu, {"parts": {}, "growth": 0, "uuid": str(usage.gpu), "largest": 0})
        made_of = dict(of_gpu["parts"])
        rest = usage.peak_bytes_in_use - sum(made_of.values())
        if made_of and rest > 0:
            made_of["rounding of blocks"] = rest
        others = {
            name: {"least": results[policy].least_limit, "settings": results[policy].settings}
            for policy, name in _HELP.items()
            if policy in results
        }
        one = {
            "pid": pid,
            "rank": report["rank"],
            "world": report["world"],
            "gpu": usage.gpu,
            "uuid": of_gpu["uuid"],
            "allocated": usage.peak_bytes_in_use,
            "requested": usage.peak_bytes_requested,
            "reserved": usage.recorded_bytes_reserved or 0,
            "least": {name: results[policy].least_limit for name, policy in SETTINGS.items() if policy in results},
            "others": others,
            "parts": dict(sorted(made_of.items(), key=lambda part: -part[1])),
            "lines": [row.strip() for row in sites.lines(usage.sites_at_peak, _LINES)],
            "growth": of_gpu["growth"],
            "largest": of_gpu["largest"],
            "convolutions": convolutions_of(report),
        }
        found.append(one)
    return found


def of_block(folder: str, cards: list[Card], *, failed: str) -> Rehearsal:
    """Return the answer for a block of this process, whose report and snapshot are in a folder."""
    name = os.path.join(folder, str(os.getpid()))
    with open(f"{name}.json", encoding="utf-8") as file:
        report = json.load(file)
    processes = _peaks(report, os.getpid(), f"{name}.pickle", cards[0], first=True)
    run = start.Outcome("block", 1 if failed else 0, 0.0, 0, {}, f"the block failed: {failed}" if failed else "")
    return make(
        Rehearsal,
        _answer([], [card.name for card in cards], [(cards, {"run": run, "reports": [report], "processes": processes})], ""),
    )


def _answer(
    words: Sequence[str], order: Sequence[str], runs: Sequence[tuple[list[Card], dict[str, Any]]], folder: str
) -> dict[str, Any]:
    first = runs[0][1]
    run, reports = first["run"], first["reports"]
    ran = _ran(run, reports)
    why_not = trouble.why_no_verdict(run, ran, first["processes"])
    is_jax = _is_jax(reports)
    cards = [] if why_not else [one.to_dict() for group, found in runs for one in _verdicts(group, found, is_jax=is_jax)]
    cards.sort(key=lambda one: order.index(one["card"]))
    notes = trouble.notes(run, ran, first["processes"], reports)
    if is_jax:
        notes += share.notes([one for _, found in runs for one in found["reports"]], [card for group, _ in runs for card in group])
    if _asks_for_memory(reports) and not is_jax and len(order) > 1:
        each = "was run with each card's" if len(runs) > 1 else f"saw that of {order[0]}"
        notes.append(f"the program asks how much memory the card has, and {each}")
    return {
        "command": list(words),
        "ran": ran,
        "notes": notes,
        "processes": [{name: value for name, value in one.items() if name not in _INNER} for one in first["processes"]],
        "cards": cards,
        "beside": [] if why_not else _beside(runs, share.besides if is_jax else beside),
        "paths": [] if is_jax else _paths(runs),
        "helps": _helps(first["processes"], cards),
        "functions": []
        if not is_jax
        else max(first["processes"], key=lambda one: one["allocated"], default={"functions": []})["functions"],
        "outputs": quiet.told(folder, [one for process in run.processes.values() for one in process.kept]),
        "why_no_verdict": why_not,
    }


def _by_gpu(processes: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    gpus: dict[str, list[dict[str, Any]]] = {}
    for one in processes:
        gpus.setdefault(one["uuid"], []).append(one)
    return list(gpus.values())


def _verdicts(group: Sequence[Card], found: Mapping[str, Any], *, is_jax: bool) -> list[Any]:
    gpus = _by_gpu(found["processes"])
    if not gpus:
        return []
    if is_jax:
        return share.verdicts(group, gpus)
    return [
        verdict(card, setting, gpus) for card in group for setting in SETTINGS if card.has_virtual_memory or setting == "default"
    ]


def _beside(runs: Sequence[tuple[list[Card], dict[str, Any]]], rows_of: Callable[..., Any]) -> list[dict[str, Any]]:
    """Return the rows beside the allocator; their range is that over all cards."""
    rows: dict[str, dict[str, Any]] = {}
    for group, found in runs:
        gpus = _by_gpu(found["processes"])
        for card in group if gpus else ():
            for one in (row for gpu in gpus for row in rows_of(card, gpu)):
                row = rows.setdefault(one.what, one.to_dict())
                row["low"], row["high"] = min(row["low"], one.low), max(row["high"], one.high)
    return list(rows.values())


def _paths(runs: Sequence[tuple[list[Card], dict[str, Any]]]) -> list[str]:
    """Return which attention and convolution each group of cards takes."""
    by_path: dict[tuple[str, ...], list[str]] = {}
    for group, found in runs:
        taken = tuple(sorted({name for report in found["reports"] for name in report["paths"]}))
        if taken:
            by_path.setdefault(taken, []).extend(card.name for card in group)
    return [f"{', '.join(name.strip('_') for name in taken)}: on {', '.join(names)}" for taken, names in by_path.items()]


def _helps(processes: Sequence[dict[str, Any]], cards: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the allocator's settings that a replay tried and that save memory, the best first; none if all cards hold it."""
    if not processes or all(one["verdict"] == "fits" for one in cards):
        return []
    most = max(processes, key=lambda one: one["least"]["default"])
    is_jax = "shares" in most
    tried = {} if is_jax else {f"PYTORCH_ALLOC_CONF={name}:True": size for name, size in most["least"].items() if name != "default"}
    before = "" if is_jax else "PYTORCH_ALLOC_CONF="
    tried |= {f"{before}{one['settings']}": one["least"] for one in most["others"].values()}
    found = []
    for setting, least in tried.items():
        if least < most["least"]["default"]:
            saves = most["least"]["default"] - least
            found.append({"setting": setting, "saves": saves, "least": least, "how": "tried by a replay"})
    return sorted(found, key=lambda one: -one["saves"])


def _ran(run: start.Program | start.Outcome, reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    def most(name: str) -> int:
        return max((report["counts"].get(name, 0) for report in reports), default=0)

    return {
        "ended": run.ended,
        "seconds": run.seconds,
        "optimizer_steps": most("optimizer"),
        "skipped_steps": most("skipped"),
        "backward_passes": most("backward"),
        "forwards": most("forward"),
        "evaluations": most("evaluation"),
        "saved": most("saved"),
        "compiled": most("compiled"),
        "batch": max((report["batch"] or 0 for report in reports), default=0) or None,
        "torch": reports[0]["torch"] if reports else None,
        "jax": reports[0].get("jax") if reports else None,
        "calls": most("calls"),
        "status": run.status,
    }


def _keep_recording(found: Mapping[str, Any], path: str) -> None:
    """Copy PyTorch's snapshots: one to this file, several into a folder of this name."""
    snapshots = [(one["rank"], one["pid"]) for one in found["reports"]]
    files = [
        process.trace if _is_jax(found["reports"]) else process.snapshot
        for process in found["run"].processes.values()
        if process.report() is not None
    ]
    if len(files) == 1:
        shutil.copyfile(files[0], path)
        return
    os.makedirs(path, exist_ok=True)
    for (rank, pid), file in zip(snapshots, files, strict=True):
        shutil.copyfile(file, os.path.join(path, (f"rank{rank}" if rank is not None else str(pid)) + os.path.splitext(file)[1]))


def _write_page(found: Mapping[str, Any], path: str) -> None:
    """Write the report of the process that needs most."""
    most = max(found["processes"], key=lambda one: one["allocated"])
    process = found["run"].processes[most["pid"]]
    trace = load_trace(process.trace if _is_jax(found["reports"]) else process.snapshot)
    report.write(trace, find(trace, None, None, None), path)


def _has_output(folder: str) -> bool:
    output = os.path.join(folder, quiet.OUTPUT)
    return any(files for _, _, files in os.walk(output))


def _clean(folder: str, keep: bool) -> None:
    """Remove the folder, or all in it but what the program wrote."""
    if not keep:
        start.remove(folder)
        return
    for number in os.listdir(folder):
        own = os.path.join(folder, number)
        for name in os.listdir(own):
            path = os.path.join(own, name)
            if name != quiet.OUTPUT:
                os.unlink(path) if not os.path.isdir(path) else shutil.rmtree(path, ignore_errors=True)
