# SPDX-License-Identifier: Apache-2.0
"""Folders that only this user can open, each with one file that the processes of a job share (_budget_file.py).

A folder is removed when no process of its job lives: by what made it, or by the next one that makes such a folder.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator

from .. import errors
from . import _budget_file

_ABANDONED = 3600.0  # seconds after which a folder without its file is not being made any more


def new(prefix: str, *, executable: bool = False) -> str:
    """Make a folder, in memory if possible; if executable, where libraries can be loaded from. Raises UnavailableError."""
    places = [place for place in _places() if not executable or not os.statvfs(place).f_flag & os.ST_NOEXEC]
    if not places:
        raise errors.UnavailableError(f"no folder for the guard: {', '.join(_places())} forbid loading libraries (noexec)")
    return tempfile.mkdtemp(prefix=prefix, dir=places[0])


def existing(prefix: str) -> Iterator[str]:
    """Yield the folders of this user."""
    for place in dict.fromkeys(_places()):
        try:
            names = os.listdir(place)
        except PermissionError:  # on some machines /tmp may be written and not listed
            continue
        for name in names:
            path = os.path.join(place, name)
            try:
                facts = os.lstat(path)
            except OSError:
                continue
            if name.startswith(prefix) and stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid():
                yield path


def sweep(prefix: str, file: str) -> None:
    """Remove the folders of jobs that have ended without it."""
    for folder in existing(prefix):
        remove_if_unused(folder, file)


def remove_if_unused(folder: str, name: str) -> None:
    """Remove a folder if no process of its job lives."""
    try:
        file = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # being made, being removed, or damaged
        if _age(folder) > _ABANDONED:
            shutil.rmtree(folder, ignore_errors=True)
        return
    try:
        unused = not _budget_file.in_use(file) and (os.fstat(file).st_size > 0 or _age(folder) > _ABANDONED)
    finally:
        os.close(file)
    if unused:
        shutil.rmtree(folder, ignore_errors=True)


def _places() -> list[str]:
    """Where the folders may be: private to the user, in memory if possible."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return [place for place in (runtime, "/dev/shm", tempfile.gettempdir()) if place and os.access(place, os.W_OK | os.X_OK)]


def _age(folder: str) -> float:
    try:
        return time.time() - os.stat(folder).st_mtime
    except OSError:
        return 0.0
