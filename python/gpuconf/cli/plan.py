# SPDX-License-Identifier: Apache-2.0
"""``gpuconf plan``."""

from __future__ import annotations

import argparse
import json
import os
import sys

from .. import errors
from .._core.sizes import limit_bytes
from .._core.table import glyphs_of
from .._typing import Any
from ..memory import load_trace
from ..plans.generated.policies import POLICIES
from ..plans.pages import plot, report
from ..plans.recordings import error_text, ranks
from ..plans.recordings.replay import SCHEMA, Plan, Verification, find, verify
from . import console, plan_fleet, plan_program
from .console import DIFFERS, DOES_NOT_FIT, OK, Progress, UsageError
from .output import colors


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    planning = commands.add_parser(
        "plan",
        usage="gpuconf plan [OPTION ...] TRACE, or gpuconf plan --gpu CARDS [OPTION ...] -- PROGRAM [ARGUMENT ...]",
        help="check, without a GPU, whether a program or a recorded job fits",
        description="Report whether a recorded job fits on a GPU, and the smallest memory limit that it needs; or run "
        "a program "
        "on simulated GPUs, and report which cards hold it. Needs no GPU.",
        epilog="exit codes: 0 the job fits with at least one policy, a card holds the program, or no limit was given; "
        "1 the trace or the text cannot be read, or the program failed; 2 invalid usage; 3 the job does not fit, no "
        "card holds the "
        "program or, with --verify, the replay differs from the snapshot; 4 it depends, or the program did not run "
        "long enough; "
        "130 interrupted before anything was known",
    )
    plan_program.add_to(planning)
    planning.add_argument(
        "trace",
        metavar="TRACE",
        nargs="?",
        help="an RMM log (CSV) or a PyTorch memory snapshot; or a folder of them, one for each process of a job",
    )
    planning.add_argument(
        "--limit", type=_limit, metavar="SIZE", help="memory limit of each logical GPU: bytes, 24GiB, 500MB"
    )
    planning.add_argument(
        "--gpu",
        metavar="MODEL",
        help="GPU model, such as A10; without --limit, its default limit applies. For a program, a list such as "
        "L4,A10,A100-40GB "
        "(default: this machine's)",
    )
    planning.add_argument(
        "--policy", action="append", choices=POLICIES, help="memory management policy; may be repeated (default: all)"
    )
    planning.add_argument("--json", action="store_true", help="print JSON, with sizes in bytes")
    planning.add_argument(
        "--plot",
        nargs="?",
        const="-",
        metavar="FILE",
        help="plot memory use over time, to a .png or .svg file (needs matplotlib) or as text",
    )
    planning.add_argument(
        "--html",
        metavar="FILE",
        help="write a report of memory over time to an HTML page that works offline (needs plotly)",
    )
    planning.add_argument(
        "--verify",
        action="store_true",
        help="instead of planning, replay a PyTorch snapshot and compare every address with the recorded one",
    )
    planning.add_argument(
        "--message",
        nargs="?",
        const="-",
        metavar="FILE",
        help="instead of planning, explain the out-of-memory errors in a text, such as a log: PyTorch's, "
        "TensorFlow's, JAX's or "
        "CuPy's; without FILE, standard input",
    )
    plan_fleet.add_to(planning)
    planning.set_defaults(run=_plan)


def _limit(text: str) -> int:
    try:
        return limit_bytes(text)
    except errors.GpuconfError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _plan(options: argparse.Namespace) -> int:
    if options.program is not None:
        return plan_program.run(options)
    plan_program.refuse(options)
    if options.message is not None:
        return _message(options)
    if options.trace is None:
        raise UsageError(
            "TRACE is missing: an RMM log, a PyTorch memory snapshot or a folder of them. A program needs --: "
            "gpuconf plan --gpu L4 -- python train.py"
        )
    if options.trace.endswith(".py"):
        raise UsageError(
            f"{options.trace!r} is a program, not a recording. To run it on simulated GPUs: "
            f"gpuconf plan --gpu {options.gpu or 'L4'} -- python {options.trace}"
        )
    if options.fleet is not None:
        return plan_fleet.run(options)
    plan_fleet.refuse(options)
    if options.verify:
        return _verify(options)
    if os.path.isdir(options.trace):
        return _ranks(options)
    _check_outputs(options)
    with Progress("gpuconf plan") as progress:
        progress.show("reading the trace")
        trace = load_trace(options.trace)
        progress.show("replaying the trace", 0)
        try:
            plan = find(
                trace,
                options.limit,
                options.gpu,
                options.policy,
                lambda done: progress.show("replaying the trace", done),
            )
        except errors.InvalidArgumentError as error:
            raise UsageError(str(error)) from None
        if options.html is not None:
            progress.show("writing the report")
            report.write(trace, plan, options.html)
    if options.json:
        print(json.dumps(plan.to_dict(), indent=2))
    else:
        print(_colored(str(plan)) if colors() else plan)
    if options.plot is not None:
        _draw(plan, options)
    return DOES_NOT_FIT if plan.fits is False else OK


def _message(options: argparse.Namespace) -> int:
    for name in ("trace", "limit", "gpu", "policy", "plot", "html", "fleet"):
        if getattr(options, name) is not None:
            raise UsageError(f"--message cannot be used with {name.upper() if name == 'trace' else f'--{name}'}")
    if options.message == "-":
        text = sys.stdin.buffer.read(_MOST_TEXT).decode("utf-8", "replace")
    else:
        with open(options.message, "rb") as file:
            file.seek(max(os.path.getsize(options.message) - _MOST_TEXT, 0))  # an error is at the end of a log
            text = file.read().decode("utf-8", "replace")
    found = error_text.read(text)
    if options.json:
        print(json.dumps({"schema": SCHEMA, "messages": [each.to_dict() for each in found]}, indent=2))
        return OK
    for number, each in enumerate(found):
        print(*([""] if number else []), *each.lines(), sep="\n")
    return OK


_MOST_TEXT = 64 << 20


def _check_outputs(options: argparse.Namespace) -> None:
    """Find out before the work whether the plot and the page can be written. Neither replaces the trace."""
    if options.html is not None:
        report.plotly_script()
    if options.plot not in (None, "-"):
        try:
            plot.checked_figure(options.plot)
        except errors.InvalidArgumentError as error:
            raise UsageError(f"--plot: {error}") from None
    for name in ("html", "plot"):
        path = getattr(options, name)
        if path and os.path.exists(path) and os.path.exists(options.trace) and os.path.samefile(path, options.trace):
            raise UsageError(f"--{name} would replace the trace {options.trace!r}")


def _ranks(options: argparse.Namespace) -> int:
    for name in ("plot", "html"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} needs a single trace, but {options.trace!r} is a folder")
    plans = []
    files = ranks.files_of(options.trace)
    with Progress("gpuconf plan") as progress:
        for i, path in enumerate(files):
            name = os.path.basename(path)

            def show(done: float, before: int = i, what: str = f"replaying {name}") -> None:
                progress.show(what, (before + done) / len(files))

            show(0)
            trace = load_trace(path)
            try:
                plans.append((name, find(trace, options.limit, options.gpu, options.policy, show)))
            except errors.InvalidArgumentError as error:
                raise UsageError(str(error)) from None
    if options.json:
        print(json.dumps(ranks.to_dict(plans), indent=2))
    else:
        print(*ranks.table(plans), sep="\n")
    return DOES_NOT_FIT if any(found.fits is False for _, found in plans) else OK


def _verify(options: argparse.Namespace) -> int:
    for name in ("limit", "gpu", "policy", "plot", "html"):
        if getattr(options, name) is not None:
            raise UsageError(f"--verify cannot be used with --{name}")
    verification = verify(options.trace)
    if options.json:
        counts = verification.to_dict()
        del counts["difference"]
        print(json.dumps({"schema": SCHEMA, **counts}, indent=2))
        if verification.difference:
            console.complain(f"gpuconf plan: {verification.difference}")
    else:
        print(*_verification(verification), sep="\n")
    return DIFFERS if verification.difference else OK


def _verification(verification: Verification) -> list[str]:
    lines = [f"allocations  {verification.allocations}, same address: {verification.same_address}"]
    if verification.undetermined:
        lines[0] += f" ({verification.undetermined} not determined by the snapshot)"
    lines.append(f"segments     {verification.segments}, same: {verification.same_segments}")
    return [
        *lines,
        f"first difference: {verification.difference}"
        if verification.difference
        else "the replay agrees with the snapshot",
    ]


def _draw(plan: Plan, options: argparse.Namespace) -> None:
    if options.plot != "-":
        plan.plot(options.plot)
        return
    stream = sys.stderr if options.json else sys.stdout
    print(*plot.bars(plan, glyphs_of(stream)), sep="\n", file=stream)


def _colored(text: str) -> str:
    """Color the last line, the verdict, green or red."""
    head, _, verdict = text.rpartition("\n")
    color = 31 if verdict.startswith("does not") else 32
    return f"{head}\n\033[{color}m{verdict}\033[0m"
