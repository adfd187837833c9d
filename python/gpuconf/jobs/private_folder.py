# SPDX-License-Identifier: Apache-2.0
"""Folders that only this user can open, each with one file that the processes of a job share (budget_file.py).

A folder is removed when no process of its job lives: by what made it, or by the next one that makes such a folder.
Without tempfile and shutil: their imports would take longer than what `gpuconf ps` does here.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator

from .. import errors

BUDGETS, CARDS = "gpuconf-job-", "gpuconf-cards-"  # what the names of folders begin with

_ABANDONED = 3600.0  # seconds after which a folder without its file is not being made any more


def new(prefix: str, *, executable: bool = False) -> str:
    """Make a folder, in memory if possible; if executable, where libraries can be loaded from.

    Raises UnavailableError.
    """
    places = [place for place in _places() if not executable or _may_have_libraries(place)]
    if not places:
        why = "forbid loading libraries (noexec), or have names that the loader splits"
        raise errors.UnavailableError(f"no folder for the guard: {', '.join(_places())} {why}")
    while True:
        folder = os.path.join(places[0], prefix + os.urandom(6).hex())
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            continue
        return folder


def remove(folder: str) -> None:
    """Remove a folder and the files in it, as far as that is possible."""
    try:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
    except OSError:
        pass


def existing(prefix: str) -> Iterator[str]:
    """Yield the folders of this user."""
    for place in _places():
        try:
            names = os.listdir(place)
        except PermissionError:  # on some machines /tmp may be written and not listed
            continue
        for name in names:
            if not name.startswith(prefix):  # there may be thousands of others
                continue
            path = os.path.join(place, name)
            try:
                facts = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid():
                yield path


def sweep(prefix: str, file: str) -> None:
    """Remove the folders of jobs that have ended without it."""
    for folder in existing(prefix):
        remove_if_unused(folder, file)


def remove_if_unused(folder: str, name: str) -> None:
    """Remove a folder if no process of its job lives."""
    from . import budget_file

    try:
        file = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # being made, being removed, or damaged
        if _age(folder) > _ABANDONED:
            remove(folder)
        return
    try:
        unused = not budget_file.in_use(file) and (os.fstat(file).st_size > 0 or _age(folder) > _ABANDONED)
    finally:
        os.close(file)
    if unused:
        remove(folder)


def _places() -> list[str]:
    """Where the folders may be: private to the user, in memory if possible.

    A program of the job may be in another folder.
    """
    runtime, temporary = (os.environ.get(name, "") for name in ("XDG_RUNTIME_DIR", "TMPDIR"))
    places = dict.fromkeys((runtime, "/dev/shm", temporary, "/tmp"))
    return [place for place in places if os.path.isabs(place) and os.access(place, os.W_OK | os.X_OK)]


def _may_have_libraries(place: str) -> bool:
    """Whether the loader takes it for one folder in ``LD_LIBRARY_PATH`` and ``LD_PRELOAD``, and maps programs from
    it.
    """
    return not set(place) & set(":;$") and len(place.split()) == 1 and not os.statvfs(place).f_flag & os.ST_NOEXEC


def _age(folder: str) -> float:
    try:
        return time.time() - os.stat(folder).st_mtime
    except OSError:
        return 0.0
