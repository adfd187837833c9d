# SPDX-License-Identifier: Apache-2.0
"""Pictures of folders, with all that a program could change, and the differences of two."""

import contextlib
import hashlib
import os
import stat
from typing import TypeAlias

Picture: TypeAlias = "dict[str, dict[str, object]]"  # of each path, what it was


def content(path: str, status: os.stat_result) -> str | None:
    """A hash of a file's content; of a large one, which the tests make sparse, of its begin, its middle and its end."""
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(path)
    if not stat.S_ISREG(status.st_mode):
        return None
    found = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        size = status.st_size
        for start in (0,) if size < 8 << 20 else (0, size // 2, size - (1 << 20)):
            file.seek(start)
            found.update(file.read(8 << 20 if size < 8 << 20 else 1 << 20))
    return found.hexdigest()


def attributes(path: str) -> dict[str, object]:
    """Everything about a path but the time of its last reading."""
    status = os.lstat(path)
    extended = {}
    with contextlib.suppress(OSError):
        for name in os.listxattr(path, follow_symlinks=False):
            extended[name] = os.getxattr(path, name, follow_symlinks=False).hex()
    return {
        "content": content(path, status),
        "mode": oct(status.st_mode),
        "owner": (status.st_uid, status.st_gid),
        "size": status.st_size if not stat.S_ISDIR(status.st_mode) else None,
        "blocks": status.st_blocks,
        "links": status.st_nlink,
        "number": (status.st_dev, status.st_ino),
        "written": status.st_mtime_ns,
        "changed": status.st_ctime_ns,
        "extended": extended,
        "listing": sorted(os.listdir(path)) if stat.S_ISDIR(status.st_mode) else None,
    }


def picture(*folders: str, shared: dict[str, str] | None = None) -> Picture:
    """Pictures of folders, and of what has a test's token in its name in folders that all processes share."""
    found: Picture = {}
    roots = list(folders)
    for folder, token in (shared or {}).items():
        roots += [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if token in name]
    for root in roots:
        paths = [root]
        if os.path.isdir(root) and not os.path.islink(root):
            paths += [os.path.join(at, name) for at, inner, names in os.walk(root) for name in inner + names]
        for path in paths:
            found[path] = attributes(path)
    return found


def differences(before: Picture, after: Picture) -> dict[str, str]:
    """For each path that differs, how."""
    found = {}
    for path in sorted(before.keys() | after.keys()):
        if path not in after:
            found[path] = "is gone"
        elif path not in before:
            found[path] = "is new"
        elif before[path] != after[path]:
            changed = [name for name in before[path] if before[path][name] != after[path][name]]
            found[path] = "; ".join(f"{name}: {before[path][name]} -> {after[path][name]}" for name in changed)
    return found
