# SPDX-License-Identifier: Apache-2.0
"""Files with settings: which one counts, and its contents.

A file that the search upwards finds is untrusted input. It counts only if no other user than this one and root can have
written it, or if the user trusts its folder: see :mod:`.trust`. What is checked is what is read: the open file, and the
open folder that has its name. Reading is cheap while a file does not change.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from .. import errors
from .._typing import Any, NamedTuple
from . import texts

# Folders whose settings files count in any case, separated by os.pathsep.
VARIABLE = "GPUCONF_TRUST_SETTINGS"


def folders(environ: Mapping[str, str]) -> list[str]:
    """Return the folders that the user trusts. Raises InvalidArgumentError for an entry that is not an absolute path.

    Empty entries are skipped. A shell makes one of ``$OTHER:/srv/team``, and it never means the working directory.
    There is no entry for all folders: it would trust the file that anybody puts into ``/tmp``.
    """
    entries = [entry for entry in environ.get(VARIABLE, "").split(os.pathsep) if entry]
    for entry in entries:
        if not os.path.isabs(entry) or "\0" in entry:
            why = (
                "there is none for all folders" if entry == "*" else "a relative name depends on the working directory"
            )
            text = f"{VARIABLE} has the entry {texts.shown(entry)}, which is not the absolute path of a folder: {why}"
            raise errors.InvalidArgumentError(f"{text}. Write paths such as /srv/team, separated by {os.pathsep!r}")
    return entries


def names(trusted: list[str], folder: os.stat_result) -> bool:
    """Report whether one of the folders is this one.

    Paths are followed now, so a folder need not exist before it is needed.
    """
    for entry in trusted:
        try:
            if os.path.samestat(os.stat(entry), folder):
                return True
        except OSError:
            continue
    return False


def why_not(what: str, descriptor: int) -> str:
    """Return which user other than this one and root can write an open file or folder, as a clause; "" if none can."""
    at = os.fstat(descriptor)
    if at.st_uid not in _ourselves():
        return f"{what} belongs to {_user(at.st_uid)}"
    # Also with the sticky bit, as in /tmp: anybody can be the first to make the file there.
    if at.st_mode & stat.S_IWOTH:
        return f"everyone can write {what}"
    if at.st_mode & stat.S_IWGRP and not (_is_ours(at.st_gid) and not _has_acl(descriptor)):
        return f"the group {_group(at.st_gid)} can write {what}"
    return ""


def _ourselves() -> tuple[int, int]:
    return (0, os.geteuid())


def _is_ours(group: int) -> bool:
    """Report whether a group has no other members than this user and root, as the group that many systems create for
    each user.
    """
    import grp
    import pwd

    try:
        entry = grp.getgrgid(group)
        listed = {pwd.getpwnam(name).pw_uid for name in entry.gr_mem}
        user = pwd.getpwuid(os.geteuid())
    except KeyError:  # a group or a member without a name: it may be anyone
        return False
    known = pwd.getpwall()
    if all(user_entry.pw_uid != user.pw_uid for user_entry in known) and entry.gr_name != user.pw_name:
        return False  # the directory of users does not list them all, so others may have this group
    members = listed | {user_entry.pw_uid for user_entry in known if user_entry.pw_gid == group}
    members |= {user.pw_uid} if user.pw_gid == group else set()
    return bool(members) and members <= set(_ourselves())


def _has_acl(descriptor: int) -> bool:
    """Report whether the group's bits are those of a list of users and groups, any of which may write."""
    try:
        return bool(os.getxattr(f"/proc/self/fd/{descriptor}", "system.posix_acl_access"))
    except OSError:
        return False


def _user(number: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def _group(number: int) -> str:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


# Names a file to read instead of the nearest one; empty for no file.
CHOICE = "GPUCONF_CONFIG"

_OURS, _SHARED = "gpuconf.toml", "pyproject.toml"


class File(NamedTuple):
    """A settings file that counts."""

    path: str
    table: dict[str, Any]
    trusted: bool  # the user has named it or its folder


class Ignored(NamedTuple):
    """A file, or one setting of a file, that does not count."""

    path: str
    key: str  # "" for the whole file
    reason: str

    @property
    def text(self) -> str:
        """The sentence that says what is ignored and why."""
        return f"{self.key + ' in ' if self.key else ''}{self.path} is ignored: {self.reason}"

    @property
    def fix(self) -> str:
        """The sentence that says how to make it count."""
        folder = os.path.dirname(self.path)
        return f"{VARIABLE}={folder} makes it count; do so only if you trust everyone who can write there"


def find(environ: Mapping[str, str]) -> tuple[File | None, list[Ignored]]:
    """Return the file that counts, with known keys not yet checked, and the files that do not.

    Raises errors of the first.
    """
    trusted = folders(environ)
    chosen = environ.get(CHOICE)
    if chosen is None:
        return _nearest(trusted)
    if not chosen:
        return None, []
    table = _table(chosen, read(chosen))
    if table is None:
        raise errors.InvalidArgumentError(
            f"{CHOICE} is {texts.shown(chosen)}, but there is no such file, or it has no [tool.gpuconf]"
        )
    return File(chosen, table, True), []


def _nearest(trusted: list[str]) -> tuple[File | None, list[Ignored]]:
    ignored: list[Ignored] = []
    try:
        folder = os.getcwd()
    except OSError:  # it was deleted
        return None, ignored
    while True:
        for name in (_OURS, _SHARED):
            try:
                os.stat(os.path.join(folder, name))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                if not os.access(folder, os.X_OK):
                    # In a container that changes the user, its first folder may be another user's, and shows nothing.
                    break
            file = _of_folder(folder, name, trusted, ignored)
            if file is not None:
                return file, ignored
        above = os.path.dirname(folder)
        if above == folder:
            return None, ignored
        folder = above


def _of_folder(folder: str, name: str, trusted: list[str], ignored: list[Ignored]) -> File | None:
    """Return a file of a folder if it counts. If not, note it with the reason, unless it says nothing about gpuconf."""
    path = os.path.join(folder, name)
    try:
        directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # it has been removed
        return None
    try:
        named = bool(trusted) and names(trusted, os.fstat(directory))
        why = "" if named else why_not("its folder", directory)
        contents = None
        if not why:
            why, contents = _checked(path, directory, named)
        if why and (name == _OURS or _mentions_us(path)):
            ignored.append(Ignored(path, "", why))
    finally:
        os.close(directory)
    table = _table(path, contents)
    return None if table is None else File(path, table, named)


def _checked(path: str, directory: int, named: bool) -> tuple[str, dict[str, Any] | None]:
    """Return who else can have written a file in an open folder, or "" and its contents, None if it is gone."""
    name = os.path.basename(path)
    try:
        if not named:
            # Opens no pipe or device that another user put there.
            handle = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=directory)
            try:
                why = why_not("it", handle)
            finally:
                os.close(handle)
            if why:
                return why, None
        descriptor = os.open(name, _READING, dir_fd=directory)
        try:
            why = "" if named else why_not("it", descriptor)  # another file may have taken the name
            return why, None if why else _parsed(path, descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return "", None
    except OSError as error:
        raise _unreadable(path, error) from None


def _mentions_us(path: str) -> bool:
    """Report whether a pyproject.toml that does not count has settings of gpuconf.

    It is not parsed, and no device is opened.
    """
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return False
            with open(f"/proc/self/fd/{handle}", "rb") as file:
                return _MENTION in _plain(file.read(_MOST_BYTES))
        finally:
            os.close(handle)
    except OSError:
        return False


# Reading

_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_BYTES = 4 << 20
_MENTION = b"tool.gpuconf"
_read: dict[str, tuple[tuple[int, ...], Any]] = {}  # by path: its identity when it was read, and its table


def read(path: str) -> dict[str, Any] | None:
    """Return the contents of a file that the user or the administrator has named; None for no file."""
    try:
        # A process that can open no more files goes on if this one is missing or known.
        identity = _identity(os.stat(path))
        if path in _read and _read[path][0] == identity:
            return _read[path][1]  # type: ignore[no-any-return]
        descriptor = os.open(path, _READING)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        return _parsed(path, descriptor)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(descriptor)


def _unreadable(path: str, error: OSError) -> errors.UnavailableError:
    found = os.path.join(path, "gpuconf.toml")
    hint = f". Did you mean {found}?" if os.path.isdir(path) else ""
    return errors.UnavailableError(f"cannot read the settings in {path}: {error.strerror}{hint}")


def _parsed(path: str, descriptor: int) -> dict[str, Any]:
    """Return a TOML file's contents; {} for a pyproject.toml that does not mention gpuconf."""
    at = os.fstat(descriptor)
    identity = _identity(at)
    if path in _read and _read[path][0] == identity:
        return _read[path][1]  # type: ignore[no-any-return]
    text = _contents(path, descriptor, at.st_mode)
    others = os.path.basename(path) == _SHARED and _MENTION not in _plain(text)
    found = {} if others else _toml(path, text)
    _read[path] = identity, found
    return found


def _identity(at: os.stat_result) -> tuple[int, ...]:
    return (at.st_dev, at.st_ino, at.st_ctime_ns, at.st_mtime_ns, at.st_size)


def _plain(text: bytes) -> bytes:
    """Return a file without what may stand inside and around the names of a table: spaces and quotes."""
    return text.translate(None, b" \t'\"")


def _contents(path: str, descriptor: int, mode: int) -> bytes:
    """Read a file, within bounds: not a pipe, which may never end, and not more than any settings need."""
    text = None
    if not stat.S_ISFIFO(mode):
        with open(descriptor, "rb", closefd=False) as file:
            text = file.read(_MOST_BYTES + 1)
    if text is None:
        raise errors.UnavailableError(f"cannot read the settings in {path}: it is a pipe or a terminal")
    if len(text) > _MOST_BYTES:
        raise errors.UnavailableError(f"cannot read the settings in {path}: it is larger than {_MOST_BYTES >> 20} MiB")
    return text


def _quotes(text: bytes, error: str) -> str:
    """Return a hint for a line such as ``limit = 6GiB``, which TOML's error names by its number."""
    number = error.partition("at line ")[2].partition(",")[0]
    line = text.splitlines()[int(number) - 1].decode().partition("=") if number.isdigit() else ("", "", "")
    value = line[2].strip()
    if value in ("True", "False"):
        return f"; TOML has {value.lower()}"
    return f'; text needs quotes: {line[0].strip()} = "{value}"' if value and '"' not in value else ""


def _toml(path: str, text: bytes) -> dict[str, Any]:
    try:
        import tomllib  # type: ignore[import-not-found,unused-ignore]
    except ImportError:  # Python 3.10
        try:
            import tomli as tomllib  # type: ignore[import-not-found]
        except ImportError as error:
            raise texts.missing(f"{path} has settings, for which Python 3.10 needs", "tomli", "toml", error) from None
    try:
        found: dict[str, Any] = tomllib.loads(text.decode("utf-8-sig"))
    except ValueError as error:
        raise errors.InvalidArgumentError(f"{path} is not valid TOML: {error}{_quotes(text, str(error))}") from None
    except RecursionError:
        raise errors.InvalidArgumentError(f"{path} is nested too deeply") from None
    return found


def _table(path: str, contents: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return gpuconf's table of a file; None if the file has none."""
    if contents is not None and os.path.basename(path) == _SHARED:
        tools = contents.get("tool")
        return tools.get("gpuconf") if isinstance(tools, dict) else None
    return contents


def line_of(path: str, key: str) -> int:
    """Return the line of a file that sets a key, 0 if it is not found: the parser does not tell. For messages."""
    try:
        with open(path, "rb") as file:
            lines = _plain(file.read(_MOST_BYTES)).decode("utf-8", "replace").splitlines()
    except OSError:
        return 0
    ours = os.path.basename(path) != _SHARED
    for number, line in enumerate(lines, 1):
        if line.startswith("["):
            ours = line.startswith("[tool.gpuconf]")
        if (ours and line.startswith(f"{key}=")) or (not ours and "tool.gpuconf" in line and key in line):
            return number
    return 0
