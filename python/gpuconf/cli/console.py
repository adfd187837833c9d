# SPDX-License-Identifier: Apache-2.0
"""The command's exit codes and standard streams. These may be closed, full, no longer read, or unable to encode a
character. No text of others changes the terminal: names come from recordings, processes and the ledger.
"""

from __future__ import annotations

import os
import sys
import time

from .._core.block import Entered
from .._typing import Any

# Exit codes, and the usage error.

OK, ERROR, USAGE = 0, 1, 2
CONDITION = 3  # there is no GPU, or a condition that the command checks does not hold
DOES_NOT_FIT = DIFFERS = CONDITION
TIMED_OUT = 124  # as timeout(1)
INTERRUPTED = 130

EMPTY = "the name of the program is empty"  # that of an unset variable


class UsageError(Exception):
    """The command line is invalid."""

    command = ""  # set where the command is not known to the one who reports it


class CheckingUsage(Entered):
    """A context manager: an invalid argument of what is called in it is invalid usage. The message begins with this."""

    def __init__(self, option: str = "") -> None:
        self._option = option

    def _leave(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            from .. import errors

            if isinstance(error, (errors.InvalidArgumentError, errors.InvalidTypeError)):
                raise UsageError(f"{self._option}{error}") from None


def plain(text: str) -> str:
    """Return a text in which what could change a terminal is escaped: all but line ends and what can be printed."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class _Plain:
    """A stream that writes plain text."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(plain(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def raw(stream: Any) -> Any:
    """Return the stream itself, for the command's own colors and moves of the cursor."""
    return stream.stream if isinstance(stream, _Plain) else stream


def prepare() -> None:
    """Prepare the streams before the first output: escape what cannot be encoded or could change the terminal, and open
    standard error if it is closed.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - print(file=None) prints to standard output
    # "surrogateescape", which Python chooses in the locale C, cannot encode other characters either.
    if getattr(sys.stdout, "errors", None) in ("strict", "surrogateescape") and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stdout is not None:
        sys.stdout = _Plain(sys.stdout)
    sys.stderr = _Plain(sys.stderr)


def complain(text: str) -> None:
    """Print a line to standard error, if possible."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def finish() -> OSError | None:
    """Flush both streams, and put them back. If standard output fails, discards its buffer and returns the error."""
    sys.stdout, sys.stderr = raw(sys.stdout), raw(sys.stderr)
    _flushed(sys.stderr)
    return _flushed(sys.stdout) if sys.stdout is not None else None


def _flushed(stream: Any) -> OSError | None:
    try:
        stream.flush()
    except OSError as error:
        _discard(stream)
        return error
    return None


def _discard(stream: Any) -> None:
    """Redirect a stream to the null device, so that flushing its buffer at exit succeeds."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):  # the stream has no file descriptor
        pass


# A line on the terminal that says what takes so long.

_ERASE = "\r\033[K"
_BAR = 20  # characters
_PAUSE = 10  # seconds


class Progress(Entered):
    """A context manager; leaving the block erases the line. Where it is no terminal, a line is written at most each 10
    seconds.
    """

    def __init__(self, command: str) -> None:
        self._terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._command = command if sys.stderr is not None else ""
        self._shown = ""
        self._said = 0.0  # when it last wrote a line, or began

    def show(self, what: str, fraction: float | None = None) -> None:
        """Replace the line. A fraction adds a bar."""
        done = "" if fraction is None else "#" * int(_BAR * fraction)
        text = f"{self._command}: {what}" + ("" if fraction is None else f" {100 * fraction:.0f}% [{done:-<{_BAR}}]")
        if not self._command or text == self._shown:
            return
        if self._terminal:
            _write(_ERASE + plain(text))
        elif self._said and time.monotonic() - self._said >= _PAUSE:
            _write(f"{plain(text)}\n")
            self._said = 0.0
        self._said = self._said or time.monotonic()
        self._shown = text

    def say(self, what: str) -> None:
        """Write a line that stays."""
        if self._command:
            _write((_ERASE if self._terminal else "") + plain(f"{self._command}: {what}") + "\n")
            self._said = time.monotonic()

    def _leave(self, *_: object) -> None:
        if self._shown and self._terminal:
            _write(_ERASE)


def _write(text: str) -> None:
    try:
        raw(sys.stderr).write(text)
        sys.stderr.flush()
    except OSError:
        pass
