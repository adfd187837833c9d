# SPDX-License-Identifier: Apache-2.0
"""Random programs of file operations: ``python random_programs.py FILE`` runs each in the folder of its number.

A program is a list of operations, drawn from a seed. Its results, the names of its errors and the tree that it sees at
its end are printed as JSON. `shrink` makes a program that behaves differently in a cover as short as it can be.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import random
import shutil
import stat
import sys
from collections.abc import Callable, Collection
from typing import Any

LONG_AGO = 1_500_000_000
FOLDERS = ["a", "b", "a/in", "c", "new", "a/new"]
FILES = ["one", "two", "three", "link", "fresh"]
PATHS = [*FILES, *FOLDERS, *(f"{folder}/{file}" for folder in FOLDERS for file in FILES)]
# What is there, beside a folder that may be mounted.
TREE = ["one", "two", "a/one", "a/two", "a/in/one", "b/one", "c/three"]


def prepare(folder: str) -> None:
    """Make the tree that programs start with."""
    for name in ("a/in", "b", "c", "mounted"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    for index, name in enumerate([*TREE, "mounted/one"]):
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(f"precious {name}\n" * (1 + 40 * index))
        os.chmod(path, (0o644, 0o600, 0o755)[index % 3])
    os.symlink("two", os.path.join(folder, "link"))
    os.symlink("../b", os.path.join(folder, "a", "link"))
    for at, _, names in os.walk(folder, topdown=False):
        for name in names:
            os.utime(os.path.join(at, name), (LONG_AGO, LONG_AGO), follow_symlinks=False)
        os.utime(at, (LONG_AGO, LONG_AGO))


def program(seed: int) -> list[list[Any]]:
    """The operations of a seed: each a name, a path, another path and a number."""
    draw = random.Random(seed)
    likely = [*PATHS, *(TREE * 3)]
    operations = []
    for _ in range(draw.randint(5, 40)):
        name = draw.choice(sorted(OPERATIONS))
        paths = [draw.choice(FOLDERS if name in OF_FOLDERS and draw.random() < 0.7 else likely) for _ in range(2)]
        operations.append([name, *paths, draw.randrange(5000)])
    return operations


# Operations.


def opened(path: str, flags: int, data: bytes, at: int | None = None) -> int:
    descriptor = os.open(path, flags, 0o644)
    try:
        return os.write(descriptor, data) if at is None else os.pwrite(descriptor, data, at)
    finally:
        os.close(descriptor)


def written(path: str, number: int, mode: str) -> int:
    with open(path, mode) as file:
        return file.write(f"{number}\n" * (1 + number % 7))


def read(path: str) -> str:
    with open(path, "rb") as file:
        data = file.read()
    return f"{len(data)} {hash_of(data)}"


def hash_of(data: bytes) -> str:
    import zlib

    return f"{zlib.crc32(data):08x}"


def mapped(path: str, number: int) -> int:
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        at = number % len(memory)
        memory[at] = number % 256
        return at


def status(path: str) -> Any:
    """Kind, mode and size; and the time of the last write, where a program set it."""
    found = os.lstat(path)
    size = found.st_size if stat.S_ISREG(found.st_mode) else 0
    return [
        oct(found.st_mode),
        size,
        found.st_mtime if found.st_mtime < 1e9 + 1 or found.st_mtime == LONG_AGO else "now",
    ]


def latest(path: str, target: str) -> None:
    os.symlink(target, f"{path}.tmp")
    os.replace(f"{path}.tmp", path)


def atomic(path: str, number: int) -> None:
    written(f"{path}.tmp", number, "w")
    os.replace(f"{path}.tmp", path)


class InOrder:
    """`os.scandir` by name: what of a tree is reached before an error depends on the file system's own order."""

    def __init__(self, path: Any = ".", scandir: Any = os.scandir) -> None:
        with scandir(path) as found:
            self.entries = iter(sorted(found, key=lambda entry: entry.name))

    def __enter__(self) -> InOrder:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> InOrder:
        return self

    def __next__(self) -> Any:
        return next(self.entries)


def folder_status(path: str) -> list[str]:
    return sorted(f"{item.name} {item.is_dir(follow_symlinks=False)} {item.is_symlink()}" for item in os.scandir(path))


def copied_tree(path: str, other: str) -> str:
    """A copy, but not into itself: how deep that goes depends on the order of a folder's names."""
    real, target = os.path.realpath(path), os.path.realpath(other)
    if os.path.commonpath([real, target]) == real:
        return "into itself"
    return shutil.copytree(path, other, symlinks=True, dirs_exist_ok=True)


def at_open(path: str, other: str, number: int) -> str:
    """Write to a file that is renamed while it is open."""
    with open(path, "a") as file:
        os.rename(path, other)
        file.write(str(number))
    return read(other)


def after_unlink(path: str, number: int) -> str:
    with open(path, "r+b") as file:
        os.unlink(path)
        file.write(str(number).encode())
        file.seek(0)
        return hash_of(file.read())


OPERATIONS: dict[str, Callable[[str, str, int], Any]] = {
    "create": lambda path, _, number: opened(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, b"new" * (1 + number % 9)),
    "write": lambda path, _, number: written(path, number, "w"),
    "append": lambda path, _, number: written(path, number, "a"),
    "update": lambda path, _, number: opened(path, os.O_WRONLY, b"here", number % 300),
    "truncate": lambda path, _, number: os.truncate(path, number % 700),
    "open truncated": lambda path, _, __: opened(path, os.O_TRUNC | os.O_WRONLY, b""),
    "no follow": lambda path, _, number: opened(path, os.O_NOFOLLOW | os.O_WRONLY, b"x", number % 9),
    "map": lambda path, _, number: mapped(path, number),
    "rename": lambda path, other, _: os.rename(path, other),
    "rename folder": lambda path, other, _: os.rename(path, other),
    "rename while open": at_open,
    "link": lambda path, other, _: os.link(path, other),
    "symlink": lambda path, other, _: os.symlink(other, path),
    "latest": lambda path, other, _: latest(path, other),
    "atomic": lambda path, _, number: atomic(path, number),
    "mkdir": lambda path, _, __: os.mkdir(path),
    "makedirs": lambda path, _, __: os.makedirs(path, exist_ok=True),
    "rmdir": lambda path, _, __: os.rmdir(path),
    "unlink": lambda path, _, __: os.unlink(path),
    "unlink while open": lambda path, _, number: after_unlink(path, number),
    "rmtree": lambda path, _, __: shutil.rmtree(path),
    "chmod": lambda path, _, number: os.chmod(path, (0o644, 0o600, 0o755, 0o700)[number % 4]),
    "utime": lambda path, _, number: os.utime(path, (number, number)),
    "listdir": lambda path, _, __: sorted(os.listdir(path)),
    "scandir": lambda path, _, __: folder_status(path),
    "read": lambda path, _, __: read(path),
    "read once more": lambda path, _, __: read(path),
    "stat": lambda path, _, __: status(path),
    "readlink": lambda path, _, __: os.readlink(path),
    "copy": lambda path, other, _: shutil.copy(path, other),
    "copy2": lambda path, other, _: shutil.copy2(path, other),
    "copytree": lambda path, other, _: copied_tree(path, other),
    "move": lambda path, other, _: shutil.move(path, other),
    "same": lambda path, other, _: os.path.samefile(path, other),
    "links": lambda path, _, __: os.stat(path).st_nlink if os.path.isfile(path) else None,
    "access": lambda path, _, __: [os.access(path, how) for how in (os.R_OK, os.W_OK, os.X_OK)],
}
OF_FOLDERS = {"rename folder", "listdir", "scandir", "rmtree", "rmdir", "copytree", "mkdir", "makedirs"}


def error_of(error: BaseException) -> str:
    if isinstance(error, shutil.Error):  # of a tree: its parts are words
        return "shutil.Error"
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, str(error.errno))
    return type(error).__name__


def tree() -> dict[str, Any]:
    found = {}
    for at, inner, names in os.walk("."):
        for name in inner + names:
            path = os.path.normpath(os.path.join(at, name))
            if os.path.islink(path):
                found[path] = f"link to {os.readlink(path)}"
                continue
            try:
                found[path] = [*status(path), read(path) if os.path.isfile(path) else ""]
            except OSError as error:  # a folder that the program closed
                found[path] = error_of(error)
    return dict(sorted(found.items()))


def execute(operations: list[list[Any]]) -> dict[str, Any]:
    """Run a program in the working folder: the result of each operation, and the tree at the end."""
    results = []
    for name, path, other, number in operations:
        try:
            result = OPERATIONS[name](path, other, number)
        except (OSError, ValueError, RecursionError) as error:
            result = error_of(error)
        results.append(f"{name} {path} {other} {number}: {result}")
    return {"results": results, "tree": tree()}


# Comparing.


def opened_in_vain(results: list[str]) -> bool:
    """Whether a file was opened for writing and not written: an operation failed in between."""
    return any(result.startswith("rename while open ") and result.rpartition(": ")[2].isupper() for result in results)


def is_newer(should: Any, does: Any) -> bool:
    """Whether two states of a file differ in the time alone, which is new."""
    return (
        isinstance(should, list)
        and isinstance(does, list)
        and does[2] == "now"
        and [*should[:2], "now", *should[3:]] == does
    )


def unexplained(
    expected: dict[str, Any], seen: dict[str, Any], allowed: Collection[str], new_times: bool = False
) -> str:
    """The first difference; nothing where there is none, or from an operation on that fails as a cover may let it.

    With `new_times`, files may be newer at the end if one was opened in vain.
    """
    for should, does in zip(expected["results"], seen["results"], strict=True):
        if should != does:
            result = does.rpartition(": ")[2]
            return "" if result in allowed else f"expected {should}, got {result}"
    new_times = new_times and opened_in_vain(expected["results"])
    for path in sorted(expected["tree"].keys() | seen["tree"].keys()):
        should, does = expected["tree"].get(path), seen["tree"].get(path)
        if should != does and not (new_times and is_newer(should, does)):
            return f"{path} at the end: expected {should}, got {does}"
    return ""


def shrink(operations: list[Any], differs: Callable[[list[Any]], bool]) -> list[Any]:
    """The shortest part of a program that still differs, by leaving out ever smaller pieces."""
    size = len(operations) // 2
    while size:
        start = 0
        while start < len(operations):
            shorter = operations[:start] + operations[start + size :]
            if differs(shorter):
                operations = shorter
            else:
                start += size
        size //= 2
    return operations


def main(path: str) -> None:
    with open(path) as file:
        programs = json.load(file)
    seen = []
    home = os.getcwd()
    os.umask(0o022)
    os.scandir = InOrder  # type: ignore[assignment, misc]
    for number, operations in enumerate(programs):
        os.chdir(os.path.join(home, str(number)))
        seen.append(execute(operations))
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1])
