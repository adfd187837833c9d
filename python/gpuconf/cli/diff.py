# SPDX-License-Identifier: Apache-2.0
"""``gpuconf diff``."""

from __future__ import annotations

import argparse
import math
import os

from .._core.files import replacing
from .._typing import Any
from ..memory import load_trace
from ..plans.recordings import difference
from .console import DIFFERS, OK, Progress, UsageError
from .output import FILES, add_json, example, print_json

_MOST = 20  # lines of a program, for each GPU


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    diff = commands.add_parser(
        "diff",
        help="show which lines of a program need more memory than before",
        description="Compare the memory at the peaks of two recordings or snapshots, or at two moments of one, line "
        "by line. "
        "Exit code 3 if there is more than before. Needs no GPU.",
        **example("gpuconf diff before.pickle after.pickle --html difference.html"),
    )
    old: Any = diff.add_argument("old", metavar="OLD", help="an RMM log (CSV) or a PyTorch memory snapshot")
    new: Any = diff.add_argument("new", metavar="NEW", nargs="?", help="the one to compare with it")
    old.complete = new.complete = FILES
    diff.add_argument(
        "--between",
        metavar=("T1", "T2"),
        nargs=2,
        type=_seconds,
        help="without NEW: compare what is in use T1 and T2 seconds after the GPU's first event, as on the time axis "
        "of "
        "`gpuconf plan --html`",
    )
    page: Any = diff.add_argument("--html", metavar="FILE", help="write all lines to an HTML page that works offline")
    page.complete = FILES
    add_json(diff)
    diff.set_defaults(run=_run)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 1.5")
    return seconds


def _run(options: argparse.Namespace) -> int:
    if (options.new is None) == (options.between is None):
        raise UsageError("name two recordings, or one and two moments in it: --between T1 T2")
    names = [name for name in (options.old, options.new) if name is not None]
    for name in names:
        if (
            options.html is not None
            and os.path.exists(options.html)
            and os.path.exists(name)
            and os.path.samefile(options.html, name)
        ):
            raise UsageError(f"--html would replace the trace {name!r}")
    with Progress("gpuconf diff") as progress:
        progress.show("reading the traces")
        traces = [load_trace(name) for name in names]
        differences = (
            difference.difference(*traces)
            if options.between is None
            else difference.between(traces[0], *options.between)
        )
    if options.between is not None:
        names = [f"{options.old} after {seconds:g} s" for seconds in options.between]
    if options.html is not None:
        # File names may be undecodable.
        with replacing(options.html, encoding="utf-8", errors="backslashreplace") as file:
            file.write(difference.page(differences, (names[0], names[1])))
    if options.json:
        print_json({"old": options.old, "new": options.new, "gpus": [each.to_dict() for each in differences]})
    else:
        print(*difference.lines(differences, _MOST), sep="\n")
    return DIFFERS if any(each.bytes_grown > 0 for each in differences) else OK
