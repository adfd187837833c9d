"""The text of benchmarks/reports/accuracy.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy import compiled, public, xmem
from benchmarks.accuracy.drawn import page as drawn
from benchmarks.accuracy.drawn_jax import page as drawn_jax
from benchmarks.report import table

MARGIN = 0.02  # gpuconf/plans/programs/needs.py
MOST_ALLOCATED, MOST_RESERVED = 0.005, 0.02
CUTS = (-0.02, 0.0, 0.02)
REASONS = json.loads((Path(__file__).resolve().parent / "reasons.json").read_text())

PAGE = """# How accurate a rehearsal is

Written by `make accuracy`, on {machine}. It compares predictions of `gpuconf plan -- PROGRAM`
([plan.md](../../docs/plan.md)) with runs that were recorded on real GPUs, of PyTorch and, [below](#programs-of-jax),
of JAX. The list of runs of PyTorch and their settings (benchmarks/accuracy/runs.json) was committed before the first
prediction. The version of PyTorch of each run was added when one prediction, that of swiglu, was already known. The
rules of the list:

{rules}

{count}. There are no more, because few published recordings have the whole program, its settings and a peak of
PyTorch's own counters: public snapshots come without the program, and most published figures are those of nvidia-smi.

## The runs

Sizes are in MiB. *Allocated* is `torch.cuda.max_memory_allocated()`, *reserved* is `max_memory_reserved()`. The time is
that of the whole command, at load averages of up to 16 on two cores. The scripts of rope and llama4_rope ran with
transformers 4.44 and 4.55, which they need.

{runs}

{verdict}

## Those that are off, or did not run

{reasons}

## Programs under torch.compile

Nine of the runs above are of scripts that call torch.compile. Above, each runs alone, at one size, and eagerly. Below
(benchmarks/accuracy/compiled.py), the scripts run as their authors ran them, unchanged, with `gpuconf plan --compile`:
for all sizes and providers, first for time and then for memory, with the newest of PyTorch 2.4, 2.5 and 2.6 on the day
of the recording (2.4 and 2.5 are older than what gpuconf is tested with). The newest on the day of kto_loss is 2.6,
with which none of its ten peaks agrees; with 2.5, which is in the table, all ten do, so that it was recorded with that.
*Peaks* are all that a script measures and its authors published: of the script's own kernels, which are compiled, and
of PyTorch's.

{compiled}

## Would it fit?

What `gpuconf plan` says of cards as large as the recorded peak of each run, or a little smaller or larger: how often it
says that the run fits, that it depends, and that it does not fit. The card is the allocator's memory alone, without a
CUDA context. In truth, no run fits on a card that is smaller than its allocated peak.

{cuts}

{below}

{xmem}

{drawn}

{jax}

{public}

## Other tools, on the published programs

*MemTracker* is PyTorch's (`torch.distributed._tools.mem_tracker`), under FakeTensorMode: it counts allocated bytes, and
does not know what the allocator reserves. For it, the programs were changed in two places: new tensors are made on the
GPU at once, because a tracked module of fake tensors cannot be moved, and the tracker is reset with each step. Each ran
for at most 300 s on the loaded machine, one for 480 s. *estimate-memory* is accelerate's: it counts a model's weights,
and four times these for training. Its command takes names of models on the Hugging Face Hub; here its functions were
called with the program's model. Neither works for the programs of Liger-Kernel: they have no model, and MemTracker did
not start together with the Triton that they import.

{tools}

{tool_verdict}

Published errors of tools that predict from a run on the CPU, which were not run here: the authors of xMem
([arXiv:2510.21048](https://arxiv.org/abs/2510.21048), 5209 runs of 25 models) report a median relative error that is 91
% smaller than that of the tools they compare with (DNNMem, SchedTune, LLMem), and a probability of a too small estimate
that is 75 % smaller; those of VeritasEst ([arXiv:2504.03887](https://arxiv.org/abs/2504.03887), convolutional networks)
84 % and 73 %. They state errors relative to other tools, and on other programs, so that they cannot be put beside the
table above.
"""


def text(rules: Sequence[str], runs: Sequence[dict[str, Any]], machine: str) -> str:
    """Return the page."""
    ran = [run for run in runs if "failed" not in run["rehearsed"]]
    programs = len({run.get("kernel", run["program"]) for run in runs})
    return PAGE.format(
        machine=machine,
        rules="\n".join(f"- {rule}" for rule in rules),
        count=f"They are {len(runs)} runs of {programs} programs, of which {len(ran)} could be run here",
        runs=table([_row(run) for run in ran]),
        verdict=_verdict(ran),
        reasons="\n".join(_reasons(runs)),
        compiled=compiled.text(runs),
        cuts=table(_cuts(ran)),
        below=_below(ran),
        xmem=xmem.text(),
        drawn=drawn.text(),
        jax=drawn_jax.text(),
        public=public.text(),
        tools=table([_tools(run) for run in ran if "tracked" in run]),
        tool_verdict=_tool_verdict(ran),
    )


def _off(found: float, recorded: float) -> float:
    return found / recorded - 1


def _percent(found: float, recorded: float) -> str:
    return f"{100 * _off(found, recorded):+.2f} %".replace("-0.00", "0.00").replace("+0.00", "0.00")


def _row(run: dict[str, Any]) -> dict[str, str]:
    found = run["rehearsed"]
    reserved = run.get("recorded_reserved")
    return {
        "run": run["name"],
        "card": run.get("recorded_on", "not stated"),
        "PyTorch": found["version"].partition("+")[0],
        "allocated: predicted": f"{found['allocated']:,.2f}",
        "recorded": f"{run['recorded_allocated']:,.2f}",
        "off": _percent(found["allocated"], run["recorded_allocated"]),
        "reserved: predicted": f"{found['reserved']:,.0f}",
        "recorded ": f"{reserved:,.0f}" if reserved else "",
        "off ": _percent(found["reserved"], reserved) if reserved else "",
        "time": f"{found['seconds']:.0f} s",
    }


def _verdict(ran: Sequence[dict[str, Any]]) -> str:
    good = sum(abs(_off(run["rehearsed"]["allocated"], run["recorded_allocated"])) <= MOST_ALLOCATED for run in ran)
    exact = sum(abs(_off(run["rehearsed"]["allocated"], run["recorded_allocated"])) <= 1e-6 for run in ran)
    both = [run for run in ran if "recorded_reserved" in run]
    kept = sum(abs(_off(run["rehearsed"]["reserved"], run["recorded_reserved"])) <= MOST_RESERVED for run in both)
    return (
        f"Allocated within {100 * MOST_ALLOCATED:g} %: {good} of {len(ran)} runs ({100 * good / len(ran):.0f} %), of "
        f"which {exact} "
        f"to a millionth, which is the byte. Reserved within {100 * MOST_RESERVED:g} %: {kept} of the {len(both)} "
        "whose reserved "
        "memory was recorded. The goals are 90 % of the runs each: that of allocated memory is "
        f"{_met(good, len(ran))}, that of "
        f"reserved memory is {_met(kept, len(both))}."
    )


def _met(good: int, runs: int) -> str:
    return "met" if 10 * good >= 9 * runs else "not met, for the reasons below"


def _reasons(runs: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for run in runs:
        found = run["rehearsed"]
        if "failed" in found:
            lines.append(f"- **{run['name']}** did not run: {REASONS.get(run['name'], found['failed'])}.")
        elif abs(_off(found["allocated"], run["recorded_allocated"])) > MOST_ALLOCATED or run["name"] in REASONS:
            off = _percent(found["allocated"], run["recorded_allocated"])
            lines.append(f"- **{run['name']}**, {off}: {REASONS.get(run['name'], 'not known')}.")
        elif "recorded_reserved" in run and abs(_off(found["reserved"], run["recorded_reserved"])) > MOST_RESERVED:
            lines.append(f"- **{run['name']}**, reserved: not known.")
    return lines


def says(found: dict[str, Any], card: float) -> str:
    """Return what a plan says of a card of this size, as gpuconf/plans/programs/needs.py does."""
    most = found["most"] * (1 + MARGIN)
    return "fits" if most <= card else "does not fit" if found["least"] > card else "depends"


def _below(ran: Sequence[dict[str, Any]]) -> str:
    """Name the runs of which a plan says that they fit on a card that is smaller than their allocated peak."""
    wrong = [run["name"] for run in ran if says(run["rehearsed"], (1 + CUTS[0]) * run["recorded_allocated"]) == "fits"]
    reasons = "for the reasons [above](#those-that-are-off-or-did-not-run)"
    return f"*Fits* is wrong for {', '.join(wrong)}, {reasons}." if wrong else ""


def _cuts(ran: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    rows = []
    both = [run for run in ran if "recorded_reserved" in run]
    for what, some in (("allocated", ran), ("reserved", both)):
        for cut in CUTS:
            said = [says(run["rehearsed"], (1 + cut) * run[f"recorded_{what}"]) for run in some]
            counts = {word: str(said.count(word)) for word in ("fits", "depends", "does not fit")}
            rows.append(
                {
                    "the card": f"the {what} peak {100 * cut:+.0f} %".replace("+0 %", "").strip(),
                    "runs": str(len(some)),
                    **counts,
                }
            )
    return rows


def _tools(run: dict[str, Any]) -> dict[str, str]:
    def of(found: dict[str, Any]) -> str:
        return _percent(found["mib"], run["recorded_allocated"]) if "mib" in found else "-"

    return {
        "run": run["name"],
        "recorded, MiB": f"{run['recorded_allocated']:,.2f}",
        "gpuconf plan": _percent(run["rehearsed"]["allocated"], run["recorded_allocated"]),
        "MemTracker": of(run.get("tracked", {})),
        "its time": f"{run['tracked']['seconds']:.0f} s" if "seconds" in run.get("tracked", {}) else "",
        "estimate-memory": of(run.get("weights", {})),
    }


def _tool_verdict(ran: Sequence[dict[str, Any]]) -> str:
    lines = []
    tried = [run for run in ran if "tracked" in run]
    found = [run for run in tried if "mib" in run["tracked"]]
    good = sum(abs(_off(run["tracked"]["mib"], run["recorded_allocated"])) <= MOST_ALLOCATED for run in found)
    lines.append(
        f"MemTracker answered {len(found)} of the {len(tried)} runs on which it was tried, {good} within "
        f"{100 * MOST_ALLOCATED:g} %. Where it has no answer, it ended with:"
    )
    errors: dict[str, int] = {}
    for run in tried:
        if "failed" in run["tracked"]:
            text = " ".join(run["tracked"]["failed"].split())[:120]
            errors[text] = errors.get(text, 0) + 1
    lines += [f"- `{error}` ({count})" for error, count in sorted(errors.items(), key=lambda one: -one[1])]
    return "\n".join([lines[0], "", *lines[1:]])
