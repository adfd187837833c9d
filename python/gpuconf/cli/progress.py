# SPDX-License-Identifier: Apache-2.0
"""A line on the terminal that says what takes so long. Nothing is printed where standard error is not a terminal."""

from __future__ import annotations

import os
import sys

_ERASE = "\r\033[K"
_BAR = 20  # characters


class Progress:
    """A context manager; leaving the block erases the line."""

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending

    def __init__(self, command: str) -> None:
        terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._command = command if terminal else ""
        self._shown = ""

    def show(self, what: str, fraction: float | None = None) -> None:
        """Replace the line. A fraction adds a bar."""
        done = "" if fraction is None else "#" * int(_BAR * fraction)
        text = f"{self._command}: {what}" + ("" if fraction is None else f" {100 * fraction:.0f}% [{done:-<{_BAR}}]")
        if self._command and text != self._shown:
            self._shown = text
            _write(_ERASE + text)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ending():
            return
        if self._shown:
            _write(_ERASE)


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        pass
