# SPDX-License-Identifier: Apache-2.0
"""Rehearses a program once for each group of cards that its framework treats alike, and puts the answer together."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..._core.files import replacing
from ..._core.table import counted, human_bytes, make
from ..._typing import Any
from ...jobs import simulated_cards
from ...jobs.cgroup import host_room
from ...leases.environment import of_simulation, of_startup
from ...memory import load_trace
from ...simulation.simulate import simulate_buffers
from ..pages import report
from ..pages.program import OfProgram
from ..recordings.replay import find
from . import launch, needs, trackers, trouble
from .answer import Rehearsal
from .cover import UNPROTECTED, Cover, Entry, Options
from .framework import Framework, PyTorch, Run
from .needs import Card, alike
from .parts import ACTIVATIONS, GRADIENTS, PARAMETERS
from .records import BF16, EITHER, FP16, OFFLOAD, ON_HOST, Report, Request
from .xla.share import JAX, settings_for

_OF_TWO = (
    "the program uses GPUs with PyTorch and with JAX, and a rehearsal answers for one of them: rehearse each "
    "part on its own"
)
_IN_PROCESS = "none is possible in this process; what the block wrote is real"
_CACHES = ("/__pycache__/", "/.cache/", "/.triton/", "/torchinductor_", "/.nv/", "/site-packages/")  # not worth a word
# Of a process, not in the answer.
_INNER = ("others", "phases", "shares", "functions", "on_cards", "workspace", "sizes", "unknown", "lived")
_CONF = "PYTORCH_CUDA_ALLOC_CONF"
_DROPPED = ("CUDA_VISIBLE_DEVICES", "GPUCONF_SIMULATE", "GPUCONF_SIMULATED_CARDS", "GPUCONF_SIMULATE_STRICT")


@dataclass
class Asked:
    """The request."""

    words: Sequence[str]
    cards: list[Card]
    gpus: int = 1
    request: Request = field(default_factory=lambda: Request(seconds=120.0, cuts=True))  # of each of its processes
    limited: bool = False  # whether cards have the memory that they have
    record: str | None = None
    html: str | None = None
    options: Options = field(default_factory=Options)  # what the program's cover lets through
    keep: str | None = None  # a folder for what the program writes
    changes: bool = True  # whether a program that does not fit is run with changes that may help
    progress: Callable[[str], None] = field(default=lambda _: None)
    heading: Callable[[str], None] = field(default=lambda _: None)  # writes a line that stays
    runs: int = 0  # that have begun

    def begin_run(self, what: str, more: int) -> Callable[[float], None]:
        """Say what begins, and how many runs follow as far as is known. Returns what says it again after seconds."""
        self.runs += 1
        text = f"run {self.runs}, {what}" + (f", {more} more to come" if more else "")
        if more or self.runs > 1:  # the program's output comes again
            self.heading(text)
        self.progress(text)
        return lambda seconds: self.progress(f"{text}: {seconds:.0f} s")


def rehearse(asked: Asked) -> Rehearsal:
    """Run the program, and return the answer.

    Raises OSError if the program cannot be started.
    """
    groups = alike(asked.cards)
    runs: list[Run] = []
    covers: list[Cover] = []  # which hold the reports until there is an answer
    try:
        while groups:
            group = groups.pop(0)
            names = ", ".join(card.name for card in group)
            tick = asked.begin_run(f"the program as on {names}", len(groups))
            program = _run_program(asked, group[0], covers, tick, stacks=not runs)
            if asked.request.cuts and trouble.failed_after_cut(program):
                asked.request.cuts = False
                covers.pop().close()
                tick = asked.begin_run(f"as on {names} with whole loops: it failed where one ended early", len(groups))
                program = _run_program(asked, group[0], covers, tick, stacks=not runs)
            asked.progress("replaying its allocations")
            run = _run_of(program, list(program.processes.values()), group, first=not runs)
            if not asked.limited and run.framework.adapts(run):
                asked.limited, groups, runs = True, [[card] for card in asked.cards], []
                while covers:
                    covers.pop().close()
                continue
            run.limited = asked.limited
            alone = [card for card in group[1:] if run.framework.may_differ(run, card)]
            groups[:0] = [[card] for card in alone]
            run.cards = [card for card in group if card not in alone]
            runs.append(run)
            if program.ended == "interrupted" or not runs[0].processes:
                break
        outputs = what_was_written(covers[0], asked.keep)
        answer = _answer(asked.words, [card.name for card in asked.cards], runs, covers[0].said(), outputs)
        if asked.changes and _is_short(answer["cards"]):
            if asked.request.helps and isinstance(runs[0].framework, PyTorch):
                rows = _remedies(asked, runs, covers, answer["notes"])
                answer["remedies"] = _by_savings([one for one in rows if one["gains"]])
                answer["tried"] = _by_savings([one for one in rows if not one["gains"]])
            else:
                answer["helps"] = _by_savings([*answer["helps"], *_changed(asked, runs[0], covers)])
        _doubt(answer)
        if _reached_limit(covers[0], runs[0]):
            text = f"it may write {human_bytes(covers[0].writes)} in a rehearsal, and that was reached: see --writes"
            if answer["why_no_verdict"]:
                answer["why_no_verdict"] += f"; {text}"
            else:
                answer["notes"].append(text)
        if asked.record is not None:
            _keep_recording(runs[0], asked.record)
        if asked.html is not None and runs[0].processes:
            asked.progress("writing the report")
            _write_page(runs[0], make(Rehearsal, answer), asked.html)
        return make(Rehearsal, answer)
    finally:
        for cover in covers:
            cover.close()


def _run_program(
    asked: Asked,
    card: Card,
    covers: list[Cover],
    tick: Callable[[float], None],
    *,
    stacks: bool,
    change: str = "",
    setting: str = "",
) -> launch.Program:
    spec = card.simulated(asked.gpus, limited=asked.limited)
    jax = settings_for(card, asked.gpus)
    command = shlex.join(asked.words)[:1000]
    request = replace(
        asked.request, card=card.name, command=command, stacks=stacks, change=change or asked.request.change, jax=jax
    )
    environment = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    startup = of_startup(environment)
    environment |= {"PYTHONUNBUFFERED": "1", "PYTHONPATH": startup["PYTHONPATH"]}
    if setting:
        environment[_CONF] = ",".join(filter(None, [environment.get(_CONF), f"{setting}:True"]))
    program = launch.Program(asked.words, environment, request, asked.options)
    program.prepare(silent=bool(change))
    cover = program.cover
    covers.append(cover)
    if cover.kind != UNPROTECTED:
        startup.pop("LD_PRELOAD", None)  # the cover preloads the library
    variables = {
        **of_simulation(environment),
        **startup,
        "GPUCONF_SIMULATE": spec,
        "GPUCONF_SIMULATE_VALUES": "cpu" if request.computes else "none",
        **trackers.environment(cover.inside, environment, network=cover.has_network()),
        **(_of_compiler(cover.inside) if request.compiles else {"TORCHDYNAMO_DISABLE": "1"}),
    }
    with simulate_buffers(spec):
        sizes = simulated_cards.sizes()
    held = simulated_cards.create(os.path.join(cover.folder, "cards"), sizes, spec)
    try:
        program.run({**variables, simulated_cards.VARIABLE: os.path.join(cover.inside, "cards")}, tick)
    finally:
        os.close(held)
    return program


def _of_compiler(folder: str) -> dict[str, str]:
    """Return the variables of PyTorch's compiler.

    Its caches, which name the fastest kernels, must not enter the user's.
    """
    return {
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "inductor"),
        "TRITON_CACHE_DIR": os.path.join(folder, "triton"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # the compiler's own processes see no card
    }


def _run_of(
    ended: launch.Program | launch.Outcome, heard: Sequence[launch.Heard], cards: list[Card], *, first: bool
) -> Run:
    """Return what is known of a run: its framework, each process's peak on each GPU, and what ran."""
    runs = []
    framework: Framework
    for framework in (PyTorch(), JAX()):
        own = [(one, report) for one in heard if (report := one.report(framework.report)) is not None]
        processes = [
            row | {"lived": one.lived}
            for one, report in own
            for row in framework.peaks(one, report, cards, first=first)
        ]
        processes.sort(key=lambda one: (one["rank"] is None, one["rank"] or 0, one["pid"], one["gpu"]))
        runs.append(Run(cards, ended, framework, [report for _, report in own], processes))
    run = max(runs, key=lambda run: (bool(run.processes), bool(run.reports)))
    run.alone = not all(run.processes for run in runs)
    return run


def of_block(folder: str, cards: list[Card], *, failed: str) -> Rehearsal:
    """Return the answer for a block of this process, whose report and snapshot are in a folder."""
    block = launch.Heard(os.getpid())
    block.folder = folder
    ended = launch.Outcome("block", 1 if failed else 0, 0.0, 0, {}, f"the block failed: {failed}" if failed else "")
    runs = [_run_of(ended, [block], cards, first=True)]
    answer = _answer([], [card.name for card in cards], runs, _IN_PROCESS, [])
    _doubt(answer)
    return make(Rehearsal, answer)


def _answer(
    words: Sequence[str], order: Sequence[str], runs: Sequence[Run], cover: str, outputs: list[str]
) -> dict[str, Any]:
    first = runs[0]
    ended, framework, processes = first.ended, first.framework, first.processes
    ran = _ran(ended, first.reports)
    why_not = (
        _OF_TWO
        if not first.alone
        else trouble.why_no_verdict(ended, ran, processes) or trouble.unreached(first.reports)
    )
    if first.limited and trouble.ran_out(ended):
        why_not = ""
    verdicts = [one.to_dict() for run in runs if run.gpus and not why_not for one in _verdicts(run)]
    verdicts.sort(key=lambda one: order.index(one["card"]))
    return {
        "command": list(words),
        "cover": cover,
        "ran": ran,
        "notes": trouble.notes(ended, ran, processes, first.reports)
        + framework.notes(runs, order)
        + (["processes that used a GPU one after the other are not added up"] if first.follows() else [])
        + [
            f"{human_bytes(card.others)} of {card.name} are left to other programs"
            for card in first.cards
            if card.others
        ]
        + [
            f"on {', '.join(card.name for card in run.cards)}: {trouble.line(run.ended)}"
            for run in runs[1:]
            if run.ended.status
        ],
        "unseen": list(dict.fromkeys(text for run in runs for text in trouble.unseen(run.ended, run.reports))),
        "processes": [{name: value for name, value in one.items() if name not in _INNER} for one in processes],
        "cards": verdicts,
        "groups": [_group(run) for run in runs if run.processes],
        "beside": [] if why_not else _beside(runs, framework),
        "paths": framework.paths(runs),
        "helps": _helps(processes, verdicts, framework),
        "remedies": None,
        "tried": [],
        "functions": framework.functions(processes),
        "outputs": outputs,
        "why_no_verdict": why_not,
    }


def _verdicts(run: Run) -> list[needs.Verdict]:
    """Return the verdicts of a run, of which none is that a card holds what was not seen on it."""
    rows = run.framework.verdicts(run.cards, run.gpus)
    failed = run.ended.status != 0
    if run.limited and trouble.ran_out(run.ended):
        return [rows[0]._replace(verdict=needs.DOES_NOT_FIT)]
    if run.limited:  # under the settings that it ran with; workspaces that were not counted come on top
        rows = rows[:1]
    doubtful = failed or any(map(run.would_see_other_figures, run.cards))
    return [row._replace(verdict=needs.DEPENDS) if doubtful and row.verdict == needs.FITS else row for row in rows]


def _group(run: Run) -> dict[str, Any]:
    """Return the peak of the process that needs most, and the cards that it is of."""
    most = max(run.processes, key=lambda one: one["allocated"])
    names = [card.name for card in run.cards]
    return {"cards": names, "allocated": most["allocated"], "reserved": most["reserved"]}


def _doubt(answer: dict[str, Any]) -> None:
    """Say of no card that it holds a program of which something was not seen."""
    for one in answer["cards"] if answer["unseen"] else ():
        if one["verdict"] == needs.FITS:
            one["verdict"] = needs.DEPENDS


def _beside(runs: Sequence[Run], framework: Framework) -> list[dict[str, Any]]:
    """Return the rows beside the allocator; their range is that over all cards."""
    rows: dict[str, dict[str, Any]] = {}
    for run in runs:
        gpus = run.gpus
        for card in run.cards:
            for one in (row for gpu in gpus for row in framework.beside(card, gpu)):
                row = rows.setdefault(one.what, one.to_dict())
                row["low"], row["high"] = min(row["low"], one.low), max(row["high"], one.high)
    return list(rows.values())


def _helps(
    processes: Sequence[dict[str, Any]], cards: Sequence[dict[str, Any]], framework: Framework
) -> list[dict[str, Any]]:
    """Return the allocator's settings that a replay tried and that save memory, the best first; none if all cards hold
    it.
    """
    if not processes or not _is_short(cards):
        return []
    most = max(processes, key=lambda one: one["least"]["default"])
    found = []
    for setting, least in framework.tried(most).items():
        if least < most["least"]["default"]:
            saves = most["least"]["default"] - least
            found.append({"setting": setting, "saves": saves, "least": least, "how": "tried by a replay"})
    return _by_savings(found)


def _by_savings(helps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(helps, key=lambda one: -one["saves"])


def _is_short(cards: Sequence[dict[str, Any]]) -> bool:
    """Whether some card may not hold the program."""
    return any(one["verdict"] != "fits" for one in cards)


def _changed(asked: Asked, first: Run, covers: list[Cover]) -> list[dict[str, Any]]:
    """Run the program with each change that may help, and return what saved memory.

    One with which it fails is left out.
    """
    before = _least(first)
    savings = []
    changes = first.framework.changes(first)
    for number, (change, text) in enumerate(changes.items(), 1):
        tick = asked.begin_run(f"trying {text}", len(changes) - number)
        program = _run_program(asked, first.cards[0], covers, tick, stacks=False, change=change)
        run = _run_of(program, list(program.processes.values()), first.cards, first=False)
        covers.pop().close()
        if program.ended == "interrupted":
            break
        failed = trouble.why_no_verdict(program, _ran(program, run.reports), run.processes)
        if not failed and (least := _least(run)) < before:
            savings.append({"setting": text, "saves": before - least, "least": least, "how": "tried by a run"})
    return savings


def _remedies(asked: Asked, runs: Sequence[Run], covers: list[Cover], notes: list[str]) -> list[dict[str, Any]]:
    """Try the changes that the program can make, alone and together. Returns what each saves and which cards it gains.

    Cards that PyTorch does not treat alike each have a run of it.
    """
    rows: list[dict[str, Any]] = []
    for run in runs:
        held = {row.card for row in _verdicts(run) if row.verdict == needs.FITS}
        short = [card for card in run.cards if card.name not in held]
        changes = run.framework.changes(run) if short else {}
        # Cards before 8.0 do not compute with bfloat16.
        changes.pop(BF16 if any(card.capability < (8, 0) for card in short) else FP16, None)
        room = host_room()
        for change, copied in ((OFFLOAD, (ACTIVATIONS,)), (ON_HOST, (PARAMETERS, GRADIENTS))):
            most = max(sum(one["parts"].get(part, 0) for part in copied) for one in run.processes)
            if change in changes and most > min(room.available, room.group) // 2:
                title = changes.pop(change).partition("\n")[0]
                why = f"not tried: that takes {human_bytes(most)} of this host's memory"
                rows.append({"changes": [change], "title": title, "saves": 0, "gains": [], "why": why})
        if not changes:
            continue
        names = ", ".join(card.name for card in short)
        asked.progress(
            f"{len(changes)} or {len(changes) + 1} changes to try for {names}, {run.ended.seconds:.0f} s each"
        )
        tries = []
        for number, change in enumerate(changes, 1):
            tries.append(_remedy(asked, run, short, [change], changes, covers, len(changes) - number))
            if tries[-1]["ended"] == "interrupted":
                notes.append(
                    f"--help-fit was interrupted: {number - 1} of {len(changes)} changes were tried for {names}"
                )
                return [*rows, *tries[:-1]]
        saving = [one for one in tries if one["saves"] > 0]
        gained = {card for one in saving for card in one["gains"]}
        if len(saving) > 1 and len(gained) < len(short):
            best = sorted(saving, key=lambda one: -one["saves"])
            of_one = [[one for one in best if one["changes"][0] in names] for names in EITHER]
            worse = [one for some in of_one for one in some[1:]]
            together = [one["changes"][0] for one in saving if one not in worse]
            tries.append(_remedy(asked, run, short, together, changes, covers, 0))
        rows += tries
    return rows


def _remedy(
    asked: Asked,
    before: Run,
    cards: list[Card],
    names: list[str],
    changes: dict[str, str],
    covers: list[Cover],
    more: int,
) -> dict[str, Any]:
    """Run the program with changes; what fails saves nothing."""
    titles, writes = zip(*(changes[name].split("\n", 1) for name in names), strict=True)
    tick = asked.begin_run(f"trying {' and '.join(titles)}", more)
    program = _run_program(asked, cards[0], covers, tick, stacks=False, change="+".join(names))
    run = _run_of(program, list(program.processes.values()), cards, first=False)
    run.limited = before.limited
    covers.pop().close()
    row: dict[str, Any] = {"changes": names, "title": " and ".join(titles), "write": "\n".join(writes).splitlines()}
    row |= {"ended": program.ended, "saves": 0, "least": 0, "gains": [], "why": ""}
    pinned = max((report.pinned for report in run.reports), default=0)
    if pinned > max(report.pinned for report in before.reports):
        row["title"] += f"; pins {human_bytes(pinned)} of the host's memory"
    # One that was ended earlier, or of which less was seen, has not done all that the program does.
    failed = trouble.why_no_verdict(program, _ran(program, run.reports), run.processes)
    unseen = set(trouble.unseen(program, run.reports)) - set(trouble.unseen(before.ended, before.reports))
    if failed or unseen or program.ended != before.ended.ended:
        late = f"it had not ended after {program.seconds:.0f} s: see --seconds" if program.ended == "seconds" else ""
        return row | {"why": failed or late or "; ".join(sorted(unseen)) or "it ended in another way"}
    most, most_before = (max(one.processes, key=lambda one: one["least"]["default"]) for one in (run, before))
    row |= {"allocated": most["allocated"], "least": most["least"]["default"]}
    row["saves"] = most_before["allocated"] - most["allocated"]
    fitting = [one for one in _verdicts(run) if one.verdict == needs.FITS]
    of_cards = {one.card: one for one in reversed(fitting)}  # with defaults, if the card holds it so
    row["gains"] = [card.name for card in cards if card.name in of_cards]
    filled = [one.reserved for one in of_cards.values() if most["reserved"] > one.usable_low]
    row["reserved"] = max(filled, default=most["reserved"])
    for setting in {one.setting for one in of_cards.values()} - {"default"}:
        row["title"] += f" and {setting}"
        row["write"].append(f"{_CONF}={setting}:True  # in the environment")
        tick = asked.begin_run(f"trying {row['title']}", more)
        program = _run_program(asked, cards[0], covers, tick, stacks=False, change="+".join(names), setting=setting)
        run = _run_of(program, list(program.processes.values()), cards, first=False)
        covers.pop().close()
        most = max(run.processes, key=lambda one: one["allocated"], default=most)
        row |= {name: most[name] for name in ("allocated", "reserved")}
        row["saves"] = most_before["allocated"] - most["allocated"]
    return row


def _least(run: Run) -> int:
    """Return the least memory with which the default allocator serves the process that needs most."""
    least: int = max(one["least"]["default"] for one in run.processes)
    return least


def _ran(run: launch.Program | launch.Outcome, reports: Sequence[Report]) -> dict[str, Any]:
    def most(name: str) -> int:
        return max((report.counts.get(name, 0) for report in reports), default=0)

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
        "eager": any(report.eager for report in reports),
        "cut": _cut(reports),
        "batch": max((report.batch or 0 for report in reports), default=0) or None,
        "torch": reports[0].torch if reports else None,
        "jax": reports[0].jax if reports else None,
        "calls": most("calls"),
        "status": run.status,
    }


def _cut(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """Return the loops that ended early: where, after how many rounds, and of how many."""
    rows = {place: (done, of) for report in reports for place, (done, of) in report.cut.items()}
    return [{"place": place, "iterations": done, "of": of} for place, (done, of) in rows.items()]


def _keep_recording(run: Run, path: str) -> None:
    """Copy the recordings: one to this file, several into a folder of this name."""
    names = [(one.rank, one.pid) for one in run.reports]
    files = [run.framework.recording(one) for one in run.ended.processes.values() if one.report(run.framework.report)]
    if len(files) == 1:
        _copy(files[0], path)
        return
    if files:
        os.makedirs(path, exist_ok=True)
    for (rank, pid), file in zip(names, files, strict=True):
        _copy(file, os.path.join(path, (f"rank{rank}" if rank is not None else str(pid)) + os.path.splitext(file)[1]))


def _copy(source: str, path: str) -> None:
    with open(source, "rb") as file, replacing(path, "wb") as copy:
        shutil.copyfileobj(file, copy)


def _write_page(run: Run, answer: Rehearsal, path: str) -> None:
    """Write the page of the process that needs most."""
    most = max(run.processes, key=lambda one: one["allocated"])
    trace = load_trace(run.framework.recording(run.ended.processes[most["pid"]]))
    cards = {one["card"]: one["usable_low"] for one in answer.cards if one["card"] in [card.name for card in run.cards]}
    if isinstance(run.framework, PyTorch):  # JAX's allocator has a share of the card
        cards = {card.name: needs.rooms(card, run.gpus[0])[0] for card in run.cards}
    words, phases, modules = shlex.join(answer.command), most.get("phases", ()), most.get("modules", {})
    of = OfProgram(str(answer), answer.verdict(), words, answer.rows(), cards, phases, modules)
    report.write(trace, find(trace, None, None, run.framework.policies(run.cards)), path, of)


def what_was_written(cover: Cover, keep: str | None) -> list[str]:
    """Return what is said at the end of what the program wrote."""
    if cover.kind == UNPROTECTED:
        return []
    entries = [entry for entry, _ in cover.written() if not any(cache in entry.path for cache in _CACHES)]
    written = [entry for entry in entries if not entry.removed]
    lines = []
    if keep is not None:
        try:
            lines.append(f"what the program wrote is in {keep} ({cover.keep(keep)} files); its tensors have no values")
        except OSError as error:
            lines.append(f"--keep {keep}: {error.strerror}; not all that the program wrote is there")
    elif written:
        size = human_bytes(sum(entry.size for entry in written))
        files = f"{counted(len(written), 'file')}, {size}: {_shown(written)}"
        lines.append(f"the program wrote {files}; --keep FOLDER keeps such files")
    existed = [entry for entry in entries if entry.existed]
    if existed:
        lines.append(f"unchanged: {_shown(existed)}")
    tried = cover.tried_sockets()
    if tried:
        lines.append(f"hidden from the program, which tried them: {', '.join(tried[:3])}; --socket PATH allows one")
    return lines


def _reached_limit(cover: Cover, run: Run) -> bool:
    """Whether the program could not write more."""
    failures = [(one.failed or {}).get("text", "") for one in run.ended.processes.values()]
    return cover.is_full() or any("No space left on device" in text for text in failures)


def _shown(entries: Sequence[Entry]) -> str:
    paths = sorted(entry.path for entry in entries)
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
