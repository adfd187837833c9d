# SPDX-License-Identifier: Apache-2.0
"""``gpuconf top``."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time

from .._core import texts
from .._core.table import writable
from .._typing import Any
from ..leases.view import View, view
from .console import CONDITION, OK
from .frame import State, frame, ordered
from .keys import Keys
from .output import add_json, colors, example, print_json, style_of, text_of
from .processes import as_json

_EXAMPLE = """
gpuconf top
gpuconf top --interval 5 --iterations 3 > log.txt
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "top",
        help="watch cards, processes and leases",
        description="Watch the cards of this machine. A card's bar shows memory in use by pools (█), reserved by "
        "pools (▓), used by "
        "others (▒), and leased but not used yet (░). Press h for the keys. If the output is not a terminal, the "
        "display is printed "
        "once, or --iterations times.",
        **example(_EXAMPLE),
    )
    parser.add_argument(
        "--interval", type=_seconds, default=1.0, metavar="SECONDS", help="time between updates (default: 1)"
    )
    parser.add_argument("--iterations", type=_count, metavar="N", help="end after N updates")
    add_json(parser)
    parser.set_defaults(run=_top)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: pass 0.1 to 3600 seconds")
    return seconds


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of updates: pass 1 or more")
    return int(text)


def _top(options: argparse.Namespace) -> int:
    machine = view()
    if options.json:
        print_json(as_json(machine))
    elif sys.stdout.isatty():
        _watch(options, machine)
    else:
        _print(options, machine)
    return OK if machine.places else CONDITION


def _print(options: argparse.Namespace, machine: View) -> None:
    """Print the screens one after another."""
    for i in range(options.iterations or 1):
        if i:
            print()
            time.sleep(options.interval)
            machine = view()
        width = shutil.get_terminal_size((120, 24)).columns
        lines = frame(machine, State(), width, 40 + sum(1 + len(place.shares) for place in machine.places))
        text = writable(sys.stdout)
        shown = [text("".join(map(text_of, line))).rstrip() for line in lines[:-1]]
        print("\n".join(shown).rstrip(), flush=True)


def _watch(options: argparse.Namespace, machine: View) -> None:
    try:
        from rich.console import Console, Group
        from rich.live import Live
        from rich.text import Text
    except ImportError as error:
        raise texts.missing("gpuconf top on a terminal needs", "rich", "cli", error) from None
    encoded, colored = writable(sys.stdout), colors()
    state, updates, due = State(), 1, time.monotonic() + options.interval
    while True:
        # The terminal's other screen, so that the user's own is as before at the end.
        with Keys() as keys, Live(console=Console(highlight=False), screen=True, auto_refresh=False) as screen:
            key: str | None = None
            while key != "stop":
                size = shutil.get_terminal_size()
                lines = frame(machine, state, size.columns, size.lines)
                cells = [
                    [(encoded(text_of(cell)), style_of(cell) if colored else "") for cell in line] for line in lines
                ]
                shown = (Text.assemble(*line, no_wrap=True, overflow="crop") for line in cells)
                screen.update(Group(*shown), refresh=True)
                if options.iterations is not None and updates >= options.iterations:
                    return
                key = keys.wait(due)
                if key is None:
                    machine, updates = view(), updates + 1
                    due = max(due + options.interval, time.monotonic() + options.interval / 2)
                elif key not in ("resize", "stop") and not state.press(key, len(ordered(machine, state))):
                    return
        # By its default action, with the terminal as it was, until the shell continues us.
        os.kill(os.getpid(), signal.SIGTSTP)
