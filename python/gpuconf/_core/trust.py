# SPDX-License-Identifier: Apache-2.0
"""Who can have written a file: only this user and root, or others as well."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from .. import errors
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
    """Whether one of the folders is this one.

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
    """Whether a group has no other members than this user and root, as the group that many systems create for each
    user.
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
    if all(one.pw_uid != user.pw_uid for one in known) and entry.gr_name != user.pw_name:
        return False  # the directory of users does not list them all, so others may have this group
    members = listed | {one.pw_uid for one in known if one.pw_gid == group}
    members |= {user.pw_uid} if user.pw_gid == group else set()
    return bool(members) and members <= set(_ourselves())


def _has_acl(descriptor: int) -> bool:
    """Whether the group's bits are those of a list of users and groups, any of which may write."""
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
