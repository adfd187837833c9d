# SPDX-License-Identifier: Apache-2.0
"""The situations in which a cover is tried, whether this machine allows them, and how a program runs in one.

A test calls `stage`, which runs a function of `stages` in a process of its own: as root in a mount namespace of its
own, where it may mount what a situation needs. Users are numbers that no one has; nothing is written to /etc/passwd.
"""

import concurrent.futures
import contextlib
import ctypes
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
USER, GROUP = 64_321, 64_322
NEW_USER, NEW_MOUNTS = 0x10000000, 0x00020000
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000


@dataclass(frozen=True)
class Situation:
    name: str
    mode: str  # of the cover; "" for the first that works
    root: bool = False
    mounts: bool = False  # below each project
    group: bool = False  # the project is of a group that is not the user's first
    inside: tuple[str, ...] = ()  # what the cover is started by

    @property
    def user(self) -> int:
        return 0 if self.root else os.geteuid() or USER


SITUATIONS = {
    each.name: each
    for each in (
        Situation("root", "root", root=True),
        Situation("user", "user"),
        Situation("user with mounts below", "user", mounts=True),
        Situation("supplementary group", "user", group=True),
        Situation("landlock", "mirror"),
        # As in a container: no namespace can be made.
        Situation(
            "inside bubblewrap",
            "",
            inside=("bwrap", "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--die-with-parent"),
        ),
    )
}


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


TRIES = """
import ctypes, os, sys
user, function, *arguments = sys.argv[1:]
if int(user) and os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
libc = ctypes.CDLL(None, use_errno=True)
if getattr(libc, function)(*map(int, arguments)) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
"""


def why_not(function: str, *arguments: int, user: int = 0) -> str:
    """Why a call of the C library fails, tried as a user by a process of its own; nothing if it works."""
    words = [sys.executable, "-c", TRIES, str(user), function, *map(str, arguments)]
    done = subprocess.run(words, check=False, text=True, capture_output=True, timeout=60)
    return "" if done.returncode == 0 else done.stderr.strip()[-200:] or f"exit code {done.returncode}"


@functools.cache  # one answer for all tests
def refused(situation: Situation) -> str:
    """Why this machine does not allow a situation, or nothing."""
    if os.geteuid() != 0 and (situation.root or situation.mounts or situation.group):
        return "needs root"
    if os.geteuid() == 0 and (why := why_not("unshare", NEW_MOUNTS)):
        return f"root may not make a mount namespace: {why}"
    if situation.mode == "user" or situation.inside:
        why = why_not("unshare", NEW_USER | NEW_MOUNTS, user=situation.user)
        if why:
            return f"a user may not make a user namespace: {why}"
    if (situation.mode == "mirror" or situation.inside) and (
        why := why_not("syscall", 444, 0, 0, 1, user=situation.user)
    ):
        return f"the kernel has no Landlock: {why}"
    if situation.inside and shutil.which(situation.inside[0]) is None:
        return f"{situation.inside[0]}: not installed"
    return ""


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [word if word is None else word.encode() for word in (source, target, kind)]
    if libc().mount(*words, ctypes.c_ulong(flags), data and data.encode()) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def opened_to_all(path: str) -> None:
    """Let every user reach a path, in this mount namespace: a folder on the way that is closed to others gets an open
    twin.
    """
    parts = Path(path).resolve().parts
    for depth in range(1, len(parts)):
        folder = Path(*parts[:depth])
        if folder.stat().st_mode & 0o001:
            continue
        below = os.open(folder / parts[depth], os.O_PATH)
        mount("twin", str(folder), "tmpfs", 0, "mode=755")
        (folder / parts[depth]).mkdir()
        mount(f"/proc/self/fd/{below}", str(folder / parts[depth]), None, BIND | RECURSIVE)
        os.close(below)


def enter(situation: Situation) -> None:
    """Have mounts of this process's own, as root, and programs that the situation's user can start."""
    if os.geteuid() == 0:
        if libc().unshare(NEW_MOUNTS) < 0:
            raise OSError(ctypes.get_errno(), "unshare")
        mount("none", "/", None, PRIVATE | RECURSIVE)
        if not situation.root:
            for path in {sys.base_prefix, sys.prefix, str(HERE)}:
                opened_to_all(path)


@contextlib.contextmanager
def as_user(situation: Situation) -> Iterator[None]:
    """Let this process touch files as a situation's user does."""
    if os.geteuid() != 0 or situation.root:
        yield
        return
    os.setgroups([GROUP] if situation.group else [])
    os.setegid(USER)
    os.seteuid(USER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def run(
    words: list[str], cwd: str, environment: dict[str, str], situation: Situation, *, covered: bool, seconds: int = 3000
) -> subprocess.CompletedProcess[str]:
    """Run a program in a cover, or as it is."""
    process = start(words, cwd, environment, situation, covered=covered)
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        errors += f"\nended after {seconds} s"
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def start(
    words: list[str], cwd: str, environment: dict[str, str], situation: Situation, *, covered: bool
) -> subprocess.Popen[str]:
    """Start a program in a cover, or as it is."""
    if covered:
        words = [*situation.inside, sys.executable, str(HERE / "covered.py"), situation.mode, *words]
    as_whom: dict[str, Any] = {}
    if os.geteuid() == 0 and not situation.root:
        as_whom = {"user": USER, "group": USER, "extra_groups": [GROUP] if situation.group else []}
    return subprocess.Popen(
        words, cwd=cwd, env=environment, text=True, start_new_session=True, umask=0o022,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **as_whom,
    )  # fmt: skip


def stage(function: str, situation: Situation, *, python: str = sys.executable, **arguments: Any) -> Any:
    """What a function of `stages` returns, run in a process of its own."""
    words = [python, str(HERE / "stages.py"), function, situation.name, json.dumps(arguments)]
    done = subprocess.run(words, check=False, text=True, capture_output=True, timeout=3000)
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])


def stages(function: str, at_once: int, **arguments: Any) -> dict[str, Any]:
    """What a function of `stages` returns in each situation that this machine allows, or its error."""
    allowed = {name: each for name, each in SITUATIONS.items() if not refused(each)}
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        futures = {name: pool.submit(stage, function, each, **arguments) for name, each in allowed.items()}
    return {name: future.exception() or future.result() for name, future in futures.items()}
