# SPDX-License-Identifier: Apache-2.0
"""``gpuconf diff``."""

from __future__ import annotations

import argparse
import os

from .._typing import Any
from ..memory import load_trace
from ..planning import difference
from .exits import DIFFERS, OK, UsageError
from .output import FILES, add_json, example, print_json
from .progress import Progress

_MOST = 20  # lines of a program, for each GPU


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    diff = commands.add_parser(
        "diff",
        help="show which lines of a program need more memory than before",
        description="Compare the memory at the peaks of two recordings or snapshots, line by line. Exit code 3 if a peak is "
        "higher than before. Needs no GPU.",
        **example("gpuconf diff before.pickle after.pickle --html difference.html"),
    )
    for name, help_ in (("old", "an RMM log (CSV) or a PyTorch memory snapshot"), ("new", "the one to compare with it")):
        file: Any = diff.add_argument(name, metavar=name.upper(), help=help_)
        file.complete = FILES
    page: Any = diff.add_argument("--html", metavar="FILE", help="write all lines to an HTML page that works offline")
    page.complete = FILES
    add_json(diff)
    diff.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    for name in (options.old, options.new):
        if (
            options.html is not None
            and os.path.exists(options.html)
            and os.path.exists(name)
            and os.path.samefile(options.html, name)
        ):
            raise UsageError(f"--html would replace the trace {name!r}")
    with Progress("gpuconf diff") as progress:
        progress.show("reading the traces")
        found = difference.difference(load_trace(options.old), load_trace(options.new))
    if options.html is not None:
        with open(options.html, "w", encoding="utf-8", errors="backslashreplace") as file:  # file names may be undecodable
            file.write(difference.page(found, (options.old, options.new)))
    if options.json:
        print_json({"old": options.old, "new": options.new, "gpus": [each.to_dict() for each in found]})
    else:
        print(*difference.lines(found, _MOST), sep="\n")
    return DIFFERS if any(each.bytes_grown > 0 for each in found) else OK
