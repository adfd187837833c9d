# SPDX-License-Identifier: Apache-2.0
"""What ``gpuconf top`` shows, as lines of styled text for a size of the terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence

from .. import __version__
from .._core.table import human_bytes
from .._typing import Any
from ..leases.view import Place, Share, View
from .output import Cell, text_of
from .processes import HEADER, RIGHT, errors_of, no_gpus, row_of, rows_of

Line = list[Cell]

# The orders of processes, and the keys that choose them, as in htop and nvitop.
ORDERS = ("GPU", "memory", "lease", "in use", "PID", "user")
ORDER_KEYS = {"G": "GPU", "M": "memory", "L": "lease", "I": "in use", "N": "PID", "U": "user"}

HELP = (
    ("q, Esc", "quit"), ("up/down, PgUp/PgDn, Home/End", "select a process (also k, j)"),
    ("left, right", "scroll the commands"), (", .", "previous, next sort order"), ("/", "reverse the order"),
    ("M L I N U G", "sort by memory, lease, in use, PID, user, GPU"), ("T", "end the selected job, after a question"),
    ("h, ?", "this help"),
)  # fmt: skip


class State:
    """What the user has chosen."""

    def __init__(self) -> None:
        self.order: str = "GPU"
        self.reverse: bool = False
        self.selected: int = 0  # the index of a row
        self.scrolled: int = 0  # columns of the command that are hidden on the left
        self.help: bool = False
        self.page = 10  # rows on the screen, for PgUp and PgDn
        self.said = ""  # a question, or what was done, in place of the keys

    def press(self, key: str, rows: int) -> bool:
        """Do what a key means. Returns False to quit."""
        if key in ("q", "Q", "escape") and not self.help:
            return False
        if self.help or key in ("h", "?"):
            self.help = not self.help
            return True
        steps = {
            "up": -1, "k": -1, "down": 1, "j": 1, "page up": -self.page, "page down": self.page, "home": -rows,
            "end": rows,
        }  # fmt: skip
        if key in steps:
            self.selected = max(0, min(rows - 1, self.selected + steps[key]))
        elif key in ("left", "right"):
            self.scrolled = max(0, self.scrolled + (8 if key == "right" else -8))
        elif key in (",", "."):
            self.order = ORDERS[(ORDERS.index(self.order) + (1 if key == "." else -1)) % len(ORDERS)]
        elif key in ORDER_KEYS:
            self.order = ORDER_KEYS[key]
        elif key == "/":
            self.reverse = not self.reverse
        return True


def ordered(machine: View, state: State) -> list[tuple[Place, Share]]:
    """Return the rows in the chosen order: amounts begin with the largest."""
    rows = rows_of(machine)
    amounts = {"memory": "bytes", "lease": "lease", "in use": "in_use"}
    numbers = {place.gpu: i for i, place in enumerate(machine.places)}  # what waits has none, and comes last

    def key(row: tuple[Place, Share]) -> Any:
        place, share = row
        if state.order in amounts:
            return -(getattr(share, amounts[state.order]) or 0)
        return {"GPU": numbers.get(place.gpu, len(numbers)), "PID": share.pid, "user": share.user or ""}[state.order]

    return sorted(rows, key=key, reverse=state.reverse)


def frame(machine: View, state: State, width: int, height: int) -> list[Line]:
    """Return the lines of the screen."""
    lines = [_title(machine, width)]
    if state.help:
        told: list[Line] = [[(f"  {keys:<30}"[:width], "bold"), text[: max(0, width - 32)]] for keys, text in HELP]
        return [*lines, [], *told][:height]
    lines += _cards(machine.places, width, max(1, (height - 6) * 2 // 3))
    said = errors_of(machine) or ([no_gpus(machine.survey)] if machine.survey.why_none else [])
    lines += [[(text[:width], "yellow")] for text in said[:2]]
    lines.append([])
    lines += _table(ordered(machine, state), state, width, height - len(lines) - 1)
    lines = lines[: height - 1]
    empty: list[Line] = [[] for _ in range(height - 1 - len(lines))]
    return [*lines, *empty, [(_footer(state)[:width], "dim")]]


def _footer(state: State) -> str:
    if state.said:
        return state.said
    reverse = ", reversed" if state.reverse else ""
    return f"q quit  h help  arrows select  , . / order: by {state.order}{reverse}"


def _title(machine: View, width: int) -> Line:
    about = machine.survey
    parts = [f"gpuconf {__version__}"]
    if about.simulated:
        parts.append(f"simulated {about.simulated}")
    if about.driver:
        parts.append(f"driver {about.driver}")
    if about.cuda:
        parts.append("CUDA {}.{}".format(*about.cuda))
    clock = time.strftime("%H:%M:%S")
    text = "  ".join(parts)[: max(0, width - len(clock) - 1)]
    return [(text, "bold"), " " * max(1, width - len(text) - len(clock)), clock]


# Cards

_NAME = 26  # columns
_LEAST_BAR = 32
_LEAST = 30  # a bar of four cells with its numbers, which are not cut
_LINE = 110  # a terminal with fewer columns has two lines for a card


def _cards(places: Sequence[Place], width: int, room: int) -> list[Line]:
    """Return the cards, within ``room`` lines: with two lines for each if the terminal is narrow, as far as there is
    room.
    """
    two = width < _LINE and 2 * len(places) <= room
    shown = places if len(places) * (1 + two) <= room else places[: max(1, room - 1)]
    lines: list[Line] = []
    for place in shown:
        name = f"{place.gpu:>3} {_short(place.name)}"
        kind = "" if place.memory.kind == "dedicated" else f" ({place.memory.kind})"
        if two:
            lines.append([(f"{name}{kind}"[:width], "bold")])
            lines.append(["    ", *_bar(place, width - 4)])
        else:
            room_for_name = max(4, min(_NAME + 4, width - _LEAST - 1))
            named = f"{name + kind:<{room_for_name}}"[:room_for_name] + " "
            lines.append([(named, "bold"), *_bar(place, width - room_for_name - 1)])
    if len(shown) < len(places):
        lines.append([(f"    and {len(places) - len(shown)} more cards", "dim")])
    return lines


def _short(name: str) -> str:
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def _bar(place: Place, width: int) -> Line:
    """Return a bar of what is in use, reserved by pools, used by others, leased, and free, with the numbers."""
    memory = place.memory
    if not memory.total:
        return [("memory unknown", "yellow")]
    others = max(0, (memory.used or 0) - place.reserved)
    ahead = max(0, place.leased - place.reserved)  # leased, and not reserved yet
    # The same widths in each line, so that bars of cards can be compared.
    used = f"{human_bytes(memory.used) if memory.used is not None else '?':>9} of {human_bytes(memory.total):>9}"
    ours = (
        f"leased {human_bytes(place.leased):>9} reserved {human_bytes(place.reserved):>9} in use "
        f"{human_bytes(place.in_use):>9}"
    )
    text = f" {used}  {ours}"
    if width - len(text) < _LEAST_BAR:
        text = f" {used}"
    cells = max(4, width - len(text) - 2)
    parts = (
        (place.in_use, "█", "green"),
        (max(0, place.reserved - place.in_use), "▓", "yellow"),
        (others, "▒", "blue"),
        (ahead, "░", "cyan"),
    )
    line: Line = ["["]
    begun = drawn = 0
    for count, glyph, style in parts:
        begun += count
        end = min(cells, round(cells * begun / memory.total))
        line.append((glyph * (end - drawn), style))
        drawn = max(drawn, end)
    return [*line, "·" * (cells - drawn) + "]", text]


# Processes


def _table(rows: Sequence[tuple[Place, Share]], state: State, width: int, room: int) -> list[Line]:
    if not rows:
        return [[("no processes", "dim")]]
    state.selected = max(0, min(state.selected, len(rows) - 1))
    state.page = max(1, room - 1)
    first = max(0, min(state.selected - state.page // 2, len(rows) - state.page))
    cells = [row_of(*row) for row in rows[first : first + state.page]]
    kept = [i for i, name in enumerate(HEADER) if name not in ("command", *_hidden(width))]
    widths = {i: max(len(text_of(row[i])) for row in [HEADER, *cells]) for i in kept}
    command = HEADER.index("command")
    notes = HEADER.index("notes")
    rest = max(10, width - sum(widths.values()) - 2 * len(kept))
    kept.insert(kept.index(notes), command)
    widths[command] = rest
    # The notes, last, take what the command leaves; so a long command is cut, and not the notes.
    lines: list[Line] = [[(_row([HEADER[i] for i in kept], kept, widths)[:width], "bold underline")]]
    for at, row in enumerate(cells, first):
        texts = [text_of(row[i]) for i in kept]
        where = kept.index(command)
        texts[where] = texts[where][state.scrolled :][:rest]
        style = "reverse" if at == state.selected else row[notes][1]
        lines.append([(_row(texts, kept, widths)[:width], style)])
    return lines


def _hidden(width: int) -> tuple[str, ...]:
    """Return the columns for which a terminal is too narrow."""
    if width < 90:
        return ("limit", "reserved", "user", "lease PID")
    return ("reserved", "lease PID") if width < 140 else ()


def _row(texts: Sequence[str], kept: Sequence[int], widths: dict[int, int]) -> str:
    padded = [
        text.rjust(widths[i]) if HEADER[i] in RIGHT else text.ljust(widths[i])
        for text, i in zip(texts, kept, strict=True)
    ]
    return "  ".join(padded)
