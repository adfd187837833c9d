"""The command's standard streams, which may be closed, full, read no longer, or of an encoding that lacks a character.

An error on them must not become a traceback, nor the exit code 120 with which Python ends when its own last flush fails.
"""

from __future__ import annotations

import os
import sys

from .._typing import Any


def prepare() -> None:
    """Before anything is printed: escape characters that the encoding lacks, and open a standard error that is closed."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - print(file=None) would print to standard output
    if getattr(sys.stdout, "errors", None) == "strict" and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


def complain(text: str) -> None:
    """Print a line on standard error, if that is possible."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def finish() -> OSError | None:
    """Write what is buffered. Returns the error of standard output, whose rest is discarded then."""
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
    """Let a stream end in the null device, so that what it has buffered can go somewhere at exit."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):  # a stream that is no file
        pass
