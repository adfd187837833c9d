# SPDX-License-Identifier: Apache-2.0
"""Python calls that led to an allocation."""

from __future__ import annotations

# A call: filename, line, function.
Frame = tuple[str, int, str]

_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3.", ".so/", ".so.")


def call_site(stack: tuple[Frame, ...]) -> Frame | None:
    """Return the innermost call that is not in an installed library, Python's own or machine code, else the innermost.

    Without a stack it returns None. gocore/trace/names.go has the same rule.
    """
    for frame in stack:
        if not (frame[0] == "??" or frame[0].startswith("<frozen ") or any(part in frame[0] + "/" for part in _LIBRARIES)):
            return frame
    return stack[0] if stack else None


def shown(frame: Frame) -> str:
    """Return a call as text: ``train.py:12 (step)``."""
    return f"{frame[0]}:{frame[1]} ({frame[2]})"
