# SPDX-License-Identifier: Apache-2.0
"""``gpuconf top``."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import shutil
import signal
import sys
import time

from .._core import texts
from .._core.block import Block
from .._core.table import writable
from .._typing import Any
from ..leases.view import View, view
from .console import CONDITION, OK, raw
from .ending import Ending, RefusedError
from .frame import State, frame, ordered
from .output import colors, print_json, style_of, text_of
from .parser import Options
from .processes import as_json

_SEQUENCES = {
    "[A": "up", "[B": "down", "[C": "right", "[D": "left", "OA": "up", "OB": "down", "OC": "right", "OD": "left",
    "[H": "home", "[F": "end", "[1~": "home", "[4~": "end", "[5~": "page up", "[6~": "page down",
}  # fmt: skip

# After Escape, the rest of a key's sequence follows at once, over a slow connection within this time.
_SEQUENCE_SECONDS = 0.1


class Keys(Block):
    """A context manager: keys are read as they are pressed, and not shown.

    A change of the terminal's size wakes the reader.

    Signals that end the program raise SystemExit, so that it leaves the terminal as it was. Ctrl-Z is a key.
    """

    def __init__(self) -> None:
        self._terminal = sys.stdin is not None and sys.stdin.isatty()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pending = ""
        self._saved: Any = None
        self._wake = self._woken = -1

    def __enter__(self) -> Keys:
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._before = {signal.SIGWINCH: signal.signal(signal.SIGWINCH, lambda *_: self._wake_with(b"r"))}
        self._handle(signal.SIGTSTP, lambda *_: self._wake_with(b"s"))
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._handle(number, _end)
        if self._terminal:
            import termios
            import tty

            self._saved = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def _leave(self, *_: object) -> None:
        if self._terminal:
            import termios

            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._saved)
        for number, before in self._before.items():
            signal.signal(number, before)
        os.close(self._woken)
        os.close(self._wake)

    def _handle(self, number: signal.Signals, handler: Any) -> None:
        """Handle a signal, unless this process ignores it, as below nohup."""
        if signal.getsignal(number) == signal.SIG_DFL:
            self._before[number] = signal.signal(number, handler)

    def _wake_with(self, why: bytes) -> None:
        with contextlib.suppress(BlockingIOError):  # the reader has not read the last ones
            os.write(self._wake, why)

    def wait(self, until: float) -> str | None:
        """Return the next key: a character, or a name such as "up"; None when it is time.

        "resize" is a change of the size, "stop" Ctrl-Z. ``until`` is on the clock ``time.monotonic``.
        """
        while not self._pending:
            sources = [self._woken, *([sys.stdin.fileno()] if self._terminal else [])]
            ready, _, _ = select.select(sources, [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            if self._woken in ready:
                return "stop" if b"s" in os.read(self._woken, 4096) else "resize"
            self._fill()
        return self._next()

    def _fill(self) -> None:
        read = os.read(sys.stdin.fileno(), 1024)
        if not read:  # the terminal is gone
            self._pending = "q"
        self._pending += self._decode(read)

    def _next(self) -> str:
        if self._pending[0] != "\033":
            key, self._pending = self._pending[0], self._pending[1:]
            return {"\r": "enter", "\n": "enter"}.get(key, key)
        if len(self._pending) < 3 and select.select([sys.stdin], [], [], _SEQUENCE_SECONDS)[0]:
            self._fill()
        for sequence, key in _SEQUENCES.items():
            if self._pending.startswith(sequence, 1):
                self._pending = self._pending[1 + len(sequence) :]
                return key
        known = self._pending
        self._pending = ""
        return "escape" if known == "\033" else "unknown"


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def top(options: Options) -> int:
    """Run the command."""
    options.interval = options.interval or 1
    machine = view()
    if options.json:
        print_json(as_json(machine))
    elif sys.stdout.isatty():
        _watch(options, machine)
    else:
        _print(options, machine)
    return OK if machine.places else CONDITION


def _print(options: Options, machine: View) -> None:
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


def _watch(options: Options, machine: View) -> None:
    try:
        from rich.console import Console, Group
        from rich.live import Live
        from rich.text import Text
    except ImportError as error:
        raise texts.missing("gpuconf top on a terminal needs", "rich", "cli", error) from None
    encoded, colored = writable(sys.stdout), colors()
    state, updates, due = State(), 1, time.monotonic() + options.interval
    ending: Ending | None = None  # what the user is asked about
    while True:
        # The terminal's other screen, so that the user's own is as before at the end.
        with (
            Keys() as keys,
            Live(console=Console(file=raw(sys.stdout), highlight=False), screen=True, auto_refresh=False) as screen,
        ):
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
                elif key in ("resize", "stop"):
                    continue
                elif ending is not None:
                    state.said, ending = ending.answer(key), None
                elif key == "T" and not state.help:
                    ending = _ask(machine, state)
                else:
                    state.said = ""
                    if not state.press(key, len(ordered(machine, state))):
                        return
        # By its default action, with the terminal as it was, until the shell continues us.
        os.kill(os.getpid(), signal.SIGTSTP)


def _ask(machine: View, state: State) -> Ending | None:
    """Ask whether to end the selected job, or say why it cannot be ended."""
    rows = ordered(machine, state)
    if not rows:
        return None
    try:
        ending = Ending(rows[min(state.selected, len(rows) - 1)][1])
    except RefusedError as why:
        state.said = str(why)
        return None
    state.said = ending.question
    return ending
