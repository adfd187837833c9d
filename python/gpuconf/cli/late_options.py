# SPDX-License-Identifier: Apache-2.0
"""Options of ``gpuconf run`` that stand after the program's name: they are the program's, which is often not what was meant."""

from __future__ import annotations

import os
from collections.abc import Sequence

from . import console

_OPTIONS = ("--memory", "--gpus", "--growth", "--simulate", "--guard", "--as-tensorflow")
_ENOUGH = 1 << 20  # bytes of a program's file


def note_late_options(words: Sequence[str]) -> None:
    """Say that an option of gpuconf's goes to the program, unless that may be what was meant.

    ``gpuconf run train.py --memory 5`` may be right: the script may have that option. So only Python's own options, and those of a
    script that never reads its arguments, are named.
    """
    late = next((word.partition("=")[0] for word in words if word.partition("=")[0] in _OPTIONS), "")
    if late and not {"-c", "-m"} & set(words) and not any(_may_read(word, late) for word in words):
        console.complain(f"gpuconf run: {late} is passed to {words[0]}: gpuconf's own options come before the program's name")


def _may_read(path: str, option: str) -> bool:
    """Whether a file is a script that has an option's name, or reads its arguments in a way that shows."""
    if not path.endswith((".py", ".sh")) or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            text = file.read(_ENOUGH)
    except OSError:
        return True
    return any(
        word in text for word in (b"argv", b"$@", b"$*", b"$1", option.strip("-").replace("-", "_").encode(), option.encode())
    )
