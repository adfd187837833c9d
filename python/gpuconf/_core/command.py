# SPDX-License-Identifier: Apache-2.0
"""Runs another program for its text."""

from __future__ import annotations

from collections.abc import Sequence

from .._typing import Any


def run(words: Sequence[str], **options: Any) -> Any:
    """Return what ``subprocess.run`` does for a program whose output is text.

    Text that is not UTF-8, such as a path in a message, is shown as it can be: it raised a UnicodeDecodeError.
    """
    import subprocess

    return subprocess.run(
        words, **{"capture_output": True, "text": True, "errors": "replace", "check": False, **options}
    )
