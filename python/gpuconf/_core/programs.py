# SPDX-License-Identifier: Apache-2.0
"""Programs: where they are, and which ones they are by their names.

Without shutil and patterns, whose import and compilation take longer than all else that a command does with a program.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

PYTHONS = ("python", "pypy")
_VERSION = "0123456789."


def which(command: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of a program, None if there is none, as shutil.which does."""
    if os.path.dirname(command):
        return command if _is_program(command) else None
    folders = environ.get("PATH", os.defpath)
    paths = (os.path.join(folder, command) for folder in folders.split(os.pathsep)) if folders else ()
    return next(filter(_is_program, paths), None)


def is_one_of(programs: Collection[str], path: str) -> bool:
    """Whether a path is of one of these programs, whose names may end in a version, and in the t of a Python without
    the lock.
    """
    name = os.path.basename(path)
    return name.rstrip(_VERSION) in programs or name.removesuffix("t").rstrip(_VERSION) in programs


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and not os.path.isdir(path)
