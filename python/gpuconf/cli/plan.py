"""``gpuconf plan``."""

from __future__ import annotations

import argparse
import json
import os
import sys

from .. import errors
from .._core.glyphs import glyphs_of
from .._core.sizes import limit_bytes
from .._typing import Any
from ..memory import load_trace
from ..planning import plot
from ..planning.plan import POLICIES, Plan, plan
from . import console
from .exits import DOES_NOT_FIT, OK, UsageError


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    planning = commands.add_parser(
        "plan",
        help="whether a recorded job would fit, without a GPU",
        description="Tell whether a recorded job would fit, and which memory limit it needs at least. Needs no GPU.",
        epilog="exit codes: 0 it fits with at least one of the policies, or no limit was asked for; 1 the trace can't be read; "
        "2 wrong usage; 3 it does not fit",
    )
    planning.add_argument("trace", metavar="TRACE", help="RMM's CSV, or a snapshot of PyTorch's memory")
    planning.add_argument("--limit", type=_limit, metavar="SIZE", help="what each logical GPU may take: bytes, 24GiB, 500MB")
    planning.add_argument("--gpu", metavar="MODEL", help="the card, such as A10; without --limit with its default limit")
    planning.add_argument(
        "--policy", action="append", choices=POLICIES, help="how memory is managed; can be repeated (default: all)"
    )
    planning.add_argument("--json", action="store_true", help="print JSON; sizes in bytes")
    planning.add_argument(
        "--plot", nargs="?", const="-", metavar="FILE", help="memory over time: into a .png or .svg with matplotlib, else as text"
    )
    planning.set_defaults(run=_plan)


def _limit(text: str) -> int:
    try:
        return limit_bytes(text)
    except errors.GpuconfError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _plan(options: argparse.Namespace) -> int:
    trace = load_trace(options.trace)
    try:
        found = plan(trace, limit=options.limit, gpu=options.gpu, policy=options.policy)
    except errors.InvalidArgumentError as error:
        raise UsageError(str(error)) from None
    if options.json:
        print(json.dumps(found.to_dict(), indent=2))
    else:
        print(_coloured(str(found)) if _colours() else found)
    if options.plot is not None:
        _draw(found, options)
    return DOES_NOT_FIT if found.fits is False else OK


def _draw(found: Plan, options: argparse.Namespace) -> None:
    if options.plot != "-":
        try:
            found.plot(options.plot)
            return
        except errors.UnimplementedError as error:
            console.complain(f"gpuconf plan: {error}; here is text instead")
    stream = sys.stderr if options.json else sys.stdout
    print(*plot.bars(found, glyphs_of(stream)), sep="\n", file=stream)


def _colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(text: str) -> str:
    """The last line, which is the answer, in green or red."""
    head, _, verdict = text.rpartition("\n")
    colour = 31 if verdict.startswith("does not") else 32
    return f"{head}\n\033[{colour}m{verdict}\033[0m"
