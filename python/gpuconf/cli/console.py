# SPDX-License-Identifier: Apache-2.0
"""The command's standard streams. They may be closed, full, no longer read, or unable to encode a character.

Such an error must cause neither a traceback nor exit code 120, which Python returns when its final flush fails.
"""

from __future__ import annotations

import os
import sys

from .._typing import Any


def prepare() -> None:
    """Prepare the streams before the first output: escape what cannot be encoded, and open standard error if it is
    closed.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - print(file=None) prints to standard output
    # "surrogateescape", which Python chooses in the locale C, cannot encode other characters either.
    if getattr(sys.stdout, "errors", None) in ("strict", "surrogateescape") and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


def complain(text: str) -> None:
    """Print a line to standard error, if possible."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def finish() -> OSError | None:
    """Flush both streams. If standard output fails, discards its buffer and returns the error."""
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
