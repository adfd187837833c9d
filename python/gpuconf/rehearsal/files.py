# SPDX-License-Identifier: Apache-2.0
"""Files of a program in a rehearsal: what it writes goes into the rehearsal's folder, under the same path, and is read from there.

Python's ``open`` and what is built on it, ``os.remove``, ``os.rename`` and ``shutil.rmtree`` follow this. New files in the folder
for temporary files, caches and what is no regular file stay where they are, because other programs may read them.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import tempfile
import threading
from collections.abc import Callable

from .._typing import Any
from .line import SETTINGS

_NOT_HERE = ("/dev/", "/proc/", "/sys/")
_CACHES = ("/__pycache__/", "/.cache/", "/.triton/", "/torchinductor_", "/.nv/", "/site-packages/")


class Files:
    """The files of one process. ``kept`` is called with the path of a file that stays as it is."""

    def __init__(self, folder: str, kept: Callable[[str], None], made: Callable[[str], None]) -> None:
        self._folder = folder
        self._own = os.path.realpath(os.path.dirname(folder)) + "/"  # the rehearsal's, which need not be among temporary files
        self._temporary = os.path.realpath(tempfile.gettempdir()) + "/"
        self._kept, self._made = kept, made
        self._stat, self._exists = os.stat, os.path.lexists
        self._inside = threading.local()
        self._begin = self._stat(os.path.join(os.path.dirname(folder), SETTINGS)).st_mtime_ns
        self.used: bool = os.path.isdir(folder)

    def copy_of(self, path: Any) -> str:
        """Return where a file would be in the folder of the rehearsal."""
        return self._folder + os.path.realpath(os.fsdecode(path))

    def to_read(self, path: Any) -> Any:
        """Return the path to read a file from: what the program wrote, if it did."""
        if not self.used or isinstance(path, int):
            return path
        copy = self.copy_of(path)
        return copy if self._exists(copy) else path

    def to_write(self, path: Any, *, fresh: bool) -> Any:
        """Return the path to write a file to. ``fresh`` is whether its contents do not matter."""
        if isinstance(path, int) or not self._goes_away(path):
            return path
        copy = self.copy_of(path)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        self.used = True
        if os.path.isfile(path) and not self._exists(copy):
            self._kept(os.path.realpath(os.fsdecode(path)))
            if not fresh:
                shutil.copyfile(path, copy)
        return copy

    def folder_to_write(self, path: Any) -> str:
        """Return the folder to write files into that no one but the program reads."""
        copy = self.copy_of(path)
        os.makedirs(copy, exist_ok=True)
        self.used = True
        if os.path.isdir(path) and os.listdir(path):
            self._kept(os.path.realpath(os.fsdecode(path)))
        return copy

    def leave(self, path: Any) -> None:
        """Name a file or folder that would have been replaced, and stays as it is."""
        if self._exists(path):
            self._kept(os.path.realpath(os.fsdecode(path)))

    def _goes_away(self, path: Any) -> bool:
        real = os.path.realpath(os.fsdecode(path))
        if real.startswith((*_NOT_HERE, self._own)) or any(cache in real for cache in _CACHES):
            return False
        try:
            there = self._stat(real)
        except OSError:
            if not os.path.isdir(os.path.dirname(real)) and not self._exists(self._folder + os.path.dirname(real)):
                return False  # the error is the program's
            return not real.startswith(self._temporary) or (self.used and self._exists(self.copy_of(real)))
        import stat

        return stat.S_ISREG(there.st_mode)

    def install(self) -> None:
        """Take the place of Python's functions."""
        plain = io.open

        def opened(file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
            if isinstance(file, (str, bytes, os.PathLike)) and isinstance(mode, str):
                if set(mode) & set("wax+"):
                    if "x" in mode and self._exists(self.to_read(file)):
                        return plain(self.to_read(file), mode, *args, **named)  # raises FileExistsError
                    file = self.to_write(file, fresh="w" in mode)
                else:
                    file = self.to_read(file)
            return plain(file, mode, *args, **named)

        builtins.open = io.open = opened
        self._replace_in_os()

    def _replace_in_os(self) -> None:
        remove, rename, mkdir, stat, rmtree = os.remove, os.replace, os.mkdir, os.stat, shutil.rmtree

        def removed(path: Any, *, dir_fd: int | None = None) -> None:
            if dir_fd is not None:
                remove(path, dir_fd=dir_fd)
            elif self.to_read(path) != path:
                remove(self.copy_of(path))
            elif self._exists(path) and self._goes_away(path) and not self._is_own_temporary(path):
                self._kept(os.path.realpath(os.fsdecode(path)))
            else:
                remove(path)

        def renamed(source: Any, to: Any, **named: Any) -> None:
            if named or isinstance(source, int):
                rename(source, to, **named)
                return
            there = self.to_read(source)
            if os.path.isdir(there):
                self._rename_folder(source, there, to, rename)
                return
            if there == source and os.path.isfile(source) and not self._is_new(source):
                target = self.copy_of(to)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copyfile(source, target)
                self.used = True
                self._kept(os.path.realpath(os.fsdecode(source)))
                return
            target = self.to_write(to, fresh=True)
            if there == source and target == to:
                rename(source, to)
            else:
                shutil.move(there, target)

        def made(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            mkdir(path, mode, dir_fd=dir_fd)
            if dir_fd is None:
                real = os.path.realpath(os.fsdecode(path))
                if not real.startswith(self._folder):
                    self._made(real)

        def looked(path: Any, *args: Any, **named: Any) -> os.stat_result:
            if self.used and not args and not named.get("dir_fd") and isinstance(path, (str, bytes, os.PathLike)):
                if getattr(self._inside, "stat", False):
                    return stat(path, **named)
                self._inside.stat = True
                try:
                    path = self.to_read(path)
                finally:
                    self._inside.stat = False
            return stat(path, *args, **named)

        def removed_tree(path: Any, *args: Any, **named: Any) -> None:
            copy = self.copy_of(path)
            if self.used and self._exists(copy):
                rmtree(copy, ignore_errors=True)
            old = self._old_files(path)
            for file in old:
                self._kept(file)
            if not old:
                rmtree(path, *args, **named)

        os.remove = os.unlink = removed
        os.rename = os.replace = renamed  # type: ignore[assignment]
        os.mkdir = made
        os.stat = looked
        shutil.rmtree = removed_tree  # type: ignore[assignment]

    def _is_new(self, path: Any) -> bool:
        """Whether the program has made or changed a file, so that it may be removed."""
        try:
            return self._stat(path).st_ctime_ns >= self._begin
        except OSError:
            return True

    def _is_own_temporary(self, path: Any) -> bool:
        """Whether a file is a temporary one of this run, such as those that compilers are called with."""
        return os.path.realpath(os.fsdecode(path)).startswith(self._temporary) and self._is_new(path)

    def _old_files(self, path: Any) -> list[str]:
        found = []
        for folder, _, names in os.walk(os.path.realpath(os.fsdecode(path))):
            found += [os.path.join(folder, name) for name in names if not self._is_new(os.path.join(folder, name))]
        return found

    def _rename_folder(self, source: Any, there: Any, to: Any, rename: Any) -> None:
        copy = self.copy_of(source)
        if self.used and self._exists(copy):
            target = self.copy_of(to)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            rename(copy, target)
        if there == source and not self._old_files(source):
            rename(source, to)
            self._made(os.path.realpath(os.fsdecode(to)))
