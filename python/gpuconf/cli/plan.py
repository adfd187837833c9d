# SPDX-License-Identifier: Apache-2.0
"""``gpuconf plan``."""

from __future__ import annotations

import functools
import json
import os
import sys

from .. import errors
from .._core.sizes import limit_bytes
from .._core.table import glyphs_of
from ..memory import load_trace
from ..plans.pages import plot, report
from ..plans.recordings import error_text, ranks
from ..plans.recordings.replay import SCHEMA, Plan, Verification, find, verify
from . import console, plan_fleet, plan_program
from .console import DIFFERS, DOES_NOT_FIT, OK, CheckingUsage, Progress, UsageError
from .output import print_colored
from .parser import Options


def plan(options: Options) -> int:
    """Run the command."""
    for name in ("limit", "writes", "beside"):
        if getattr(options, name) is not None:
            try:
                setattr(options, name, limit_bytes(getattr(options, name)))
            except errors.InvalidArgumentError as error:
                raise UsageError(f"--{str(error).replace('limit', name, 1)}") from None
    if options.program is not None:
        return plan_program.run(options)
    plan_program.refuse(options)
    if options.message is not None:
        return _message(options)
    if options.trace == "":  # as of a variable that is not set
        raise UsageError("TRACE needs the name of a file or a folder, but got ''")
    if options.trace is None:
        for name in ("plot", "message"):
            if getattr(options, name) not in (None, "-"):
                file = getattr(options, name)
                raise UsageError(f"TRACE is missing: --{name} took {file!r} as its file; put TRACE before --{name}")
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
    options.refuse("reserve dask phases", "{} needs --fleet")
    if options.verify:
        return _verify(options)
    if os.path.isdir(options.trace):
        return _ranks(options)
    _check_outputs(options)
    with Progress("gpuconf plan") as progress:
        progress.show("reading the trace")
        trace = load_trace(options.trace)
        progress.show("replaying the trace", 0)
        with CheckingUsage():
            replayed = functools.partial(progress.show, "replaying the trace")
            plan = find(trace, options.limit, options.gpu, options.policy, replayed)
        if options.html is not None:
            progress.show("writing the report")
            report.write(trace, plan, options.html)
    if options.json:
        print(json.dumps(plan.to_dict(), indent=2))
    else:
        head, _, verdict = str(plan).rpartition("\n")
        print_colored(f"{head}\n", verdict, 31 if verdict.startswith(("does not", "no allocations")) else 32)
    if options.plot is not None:
        _draw(plan, options)
    return _code([plan])


def _message(options: Options) -> int:
    options.refuse("trace limit gpu policy plot html fleet", "--message cannot be used with {}")
    if options.message == "-":
        text = sys.stdin.buffer.read(_MOST_TEXT).decode("utf-8", "replace")
    elif error_text.begins(options.message) and not os.path.exists(options.message):
        text = options.message  # the message itself, and not the name of a file
    else:
        with open(options.message, "rb") as file:
            file.seek(max(os.path.getsize(options.message) - _MOST_TEXT, 0))  # an error is at the end of a log
            text = file.read().decode("utf-8", "replace")
    found = error_text.read(text, "standard input" if options.message == "-" else repr(options.message))
    if options.json:
        print(json.dumps({"schema": SCHEMA, "messages": [each.to_dict() for each in found]}, indent=2))
        return OK
    for number, each in enumerate(found):
        print(*([""] if number else []), *each.lines(), sep="\n")
    return OK


_MOST_TEXT = 64 << 20


def _check_outputs(options: Options) -> None:
    """Find out before the work whether the plot and the page can be written. Neither replaces the trace."""
    if options.plot not in (None, "-"):
        with CheckingUsage("--plot: "):
            plot.checked_figure(options.plot)
    for name in ("html", "plot"):
        path = getattr(options, name)
        if path and os.path.exists(path) and os.path.exists(options.trace) and os.path.samefile(path, options.trace):
            raise UsageError(f"--{name} would replace the trace {options.trace!r}")
    if options.html is not None:
        with CheckingUsage("--html: "):
            report.plotly_script(options.html)


def _ranks(options: Options) -> int:
    options.refuse("plot html", f"{{}} needs a single trace, but {options.trace!r} is a folder")
    plans = []
    files = ranks.files_of(options.trace)
    with Progress("gpuconf plan") as progress:
        for i, path in enumerate(files):
            name = os.path.basename(path)

            def show(done: float, before: int = i, what: str = f"replaying {name}") -> None:
                progress.show(what, (before + done) / len(files))

            show(0)
            trace = load_trace(path)
            with CheckingUsage():
                plans.append((name, find(trace, options.limit, options.gpu, options.policy, show)))
    if options.json:
        print(json.dumps(ranks.to_dict(plans), indent=2))
    else:
        print(*ranks.table(plans), sep="\n")
    return _code([found for _, found in plans])


def _code(plans: list[Plan]) -> int:
    found = [plan.fits for plan in plans if plan.limit is not None]
    if False in found:
        return DOES_NOT_FIT
    return plan_program.DEPENDS if None in found else OK


def _verify(options: Options) -> int:
    options.refuse("limit gpu policy plot html", "--verify cannot be used with {}")
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
    first = f"first difference: {verification.difference}" if verification.difference else ""
    return [*lines, first or "the replay agrees with the snapshot"]


def _draw(plan: Plan, options: Options) -> None:
    if options.plot != "-":
        plan.plot(options.plot)
        return
    stream = sys.stderr if options.json else sys.stdout
    print(*plot.bars(plan, glyphs_of(stream)), sep="\n", file=stream)
