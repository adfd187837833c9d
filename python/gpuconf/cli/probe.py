# SPDX-License-Identifier: Apache-2.0
"""Findings about a Python environment, for ``gpuconf doctor``."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

from .. import __version__, errors
from .._core.command import run
from .._typing import Any
from ..plans.programs.cover import LAUNCHER, Cover, Options
from . import libraries
from .diagnosis import Finding, fine, note, problem

_SUBJECT = "rehearsals"
_COVER_SECONDS = 1.0
_PROGRAM = ("/bin/sh", "-c", ":")
_OF_CONTAINERS = ("/.dockerenv", "/run/.containerenv")
_QUIET = subprocess.DEVNULL
_PAGE = "docs/plan.md has what each cover keeps"


def of_cover(environ: Mapping[str, str]) -> Finding:
    """Return which cover ``gpuconf plan -- PROGRAM`` uses here, or why there is none, and what to set."""
    try:
        cover = Cover(Options())
        try:
            with tempfile.TemporaryDirectory(prefix="gpuconf-doctor-") as folder:
                cover.start(_PROGRAM, environ, stdout=_QUIET, stderr=_QUIET, folder=folder, seconds=_COVER_SECONDS)
                status = _run(cover)
        except errors.UnavailableError:
            text = f"none is possible, because this machine has no cover for the program's writes ({_refused(cover)})"
            return note(_SUBJECT, text, _advice())
        finally:
            cover.close()
    except OSError as error:
        return note(_SUBJECT, f"whether this machine allows a cover is unknown: {error}", _PAGE)
    if status != 0:
        return note(_SUBJECT, f"a program does not run in the cover ({cover.said()}): status {status}", _PAGE)
    text = f"gpuconf plan -- PROGRAM has a cover: {cover.said()}"
    if cover.kind != "mirror":
        return fine(_SUBJECT, text)
    return note(_SUBJECT, f"{text}. Overlays are refused: {_refused(cover)}", _advice())


def _refused(cover: Cover) -> str:
    return "; ".join(dict.fromkeys(cover.refused)) or "the launcher ended"


def _run(cover: Cover) -> int:
    """Run the program. Returns its status. Raises OSError if it takes too long."""
    until = time.monotonic() + _COVER_SECONDS
    cover.go({})
    while (status := cover.poll()) is None:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("a program in it does not end")
        select.select([cover], [], [], left)
    return status


def _advice() -> str:
    return advice(LAUNCHER, "/proc/sys", container=os.geteuid() == 0 or any(map(os.path.exists, _OF_CONTAINERS)))


def advice(launcher: str, kernel: str, *, container: bool) -> str:
    """Return what to set for overlays, by the kernel's settings."""
    steps = []
    if container:
        options = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        steps.append(
            f"in Docker or Podman, start the container with {options}, and with --cap-add SYS_ADMIN --cap-add "
            "NET_ADMIN if that is not enough"
        )
    if _setting(kernel, "kernel/apparmor_restrict_unprivileged_userns") not in (None, 0):
        text = f"a profile of AppArmor for {launcher}"
        steps.append(f"add {text} (docs/plan.md), or sysctl kernel.apparmor_restrict_unprivileged_userns=0")
    if _setting(kernel, "kernel/unprivileged_userns_clone") == 0:
        steps.append("sysctl kernel.unprivileged_userns_clone=1")
    if _setting(kernel, "user/max_user_namespaces") == 0:
        steps.append("sysctl user.max_user_namespaces=15000")
    return "; ".join(steps) or "overlays need Linux 5.12 or newer, and user namespaces or root; docs/plan.md has more"


def _setting(kernel: str, name: str) -> int | None:
    try:
        with open(os.path.join(kernel, name), encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


_PYTHON = re.compile(r"(python|pypy)[0-9.]*t?")
_SECONDS = 60

# Runs in the other Python, which may be older than gpuconf supports, and imports none of the libraries, and nothing of
# the working directory: that may be a project of others.
_PROBE = """
import sys
sys.path[:] = [p for p in sys.path if p]
import json, os
try:
    from importlib import metadata
except ImportError:
    metadata = None
found = {}
for name in NAMES:
    try:
        found[name] = metadata.version(name)
    except Exception:
        pass
try:
    import multiprocessing
    start = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
except Exception:
    start = ""
try:
    import gpuconf
    gpuconf = gpuconf.__version__
except Exception as error:
    gpuconf = "" if isinstance(error, ImportError) else repr(error)
options = (("-I", sys.flags.isolated), ("-E", sys.flags.ignore_environment), ("-S", sys.flags.no_site))
flags = [name for name, is_set in options if is_set]
print(json.dumps({"version": list(sys.version_info[:3]), "executable": sys.executable, "libraries": found,
                  "start": start, "gpuconf": gpuconf, "flags": flags, "abiflags": getattr(sys, "abiflags", ""),
                  "path": [p for p in sys.path if isinstance(p, str)]}))
"""


def of_environment(words: Sequence[str]) -> Iterator[Finding]:
    """Yield the findings about the Python that a command would run in; without a command, about this one."""
    interpreter = _interpreter(words) if words else [sys.executable]
    if interpreter is None and shutil.which(words[0], os.F_OK) is None:
        yield problem("program", f"{words[0]}: command not found", "correct the name, or PATH")
        return
    if interpreter is None:
        text = f"doctor does not recognize {words[0]} as a Python program, so its libraries are unknown"
        yield note("program", f"{text}; gpuconf run limits what it can: the guard counts every library's memory")
        return
    answer = _ask(interpreter)
    if isinstance(answer, str):
        yield problem("Python", f"{' '.join(interpreter)}: {answer}", "check the command, and that this Python starts")
        return
    yield from _python(answer, libraries.is_under_run(words, os.environ))
    yield from libraries.of_python(answer, words, os.environ)
    yield libraries.finding(answer["path"])


def _interpreter(words: Sequence[str]) -> list[str] | None:
    """Return the beginning of a command up to its Python, with options such as -I; None if it runs none."""
    for at, word in enumerate(words):
        if _PYTHON.fullmatch(os.path.basename(word)):
            end = at + 1
            while end < len(words) and re.fullmatch(r"-[bBdEIOPqsSuvx]+", words[end]):
                end += 1
            return list(words[at if libraries.is_run(words) else 0 : end])  # the command would lease memory
    path = shutil.which(words[0]) or words[0]
    try:
        with open(path, "rb") as file:
            first = file.readline(256).decode("utf-8", "replace")
    except OSError:
        return None
    named = first[2:].split() if first.startswith("#!") else []
    if named and os.path.basename(named[0]) == "env":
        named = named[1:]
    if named and _PYTHON.fullmatch(os.path.basename(named[0])):
        return named[:1]
    return [sys.executable] if path.endswith(".py") else None


def _ask(interpreter: Sequence[str]) -> dict[str, Any] | str:
    """Return what the probe prints, or what went wrong."""
    names = [package for packages in libraries.PACKAGES.values() for package in packages]
    code = f"NAMES = {names!r}\n{_PROBE}"
    try:
        done = run([*interpreter, "-c", code], timeout=_SECONDS, stdin=_QUIET)
        found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
        return found
    except OSError as error:
        return error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return f"it did not start within {_SECONDS} s"
    except ValueError:
        return (done.stderr.strip().rpartition("\n")[2] or f"it ended with code {done.returncode}")[:200]


def _python(answer: dict[str, Any], under_run: bool) -> Iterator[Finding]:
    version = ".".join(map(str, answer["version"]))
    about = f"{version} at {answer['executable']}"
    if answer["gpuconf"] == __version__:
        yield fine("Python", f"{about}, with gpuconf {__version__}")
    elif answer["version"] < [3, 10]:
        fix = "use Python 3.10 or newer, or rely on the guard"
        yield problem("Python", f"{about} is too old for gpuconf: its libraries are not routed", fix)
    elif "t" in answer["abiflags"]:
        fix = "use a Python with the GIL, or rely on the guard"
        text = f"{about} is free-threaded, which gpuconf does not support: its libraries are not routed"
        yield problem("Python", text, fix)
    elif answer["gpuconf"]:
        yield note("Python", f"{about}, with gpuconf {answer['gpuconf']}; this command is {__version__}")
    else:
        yield note("Python", f"{about} does not have gpuconf; under gpuconf run it uses this command's gpuconf")
    if answer["flags"]:
        text = (
            f"{' '.join(answer['flags'])} keeps the startup code of gpuconf run from running: its libraries are "
            "not routed"
        )
        other = note("Python", f"{text} there, unless the program calls gpuconf.configure()")
        yield problem("Python", text, "remove the option") if under_run else other
    if answer["start"] == "fork":
        text = (
            "multiprocessing forks its workers: neither CUDA nor gpuconf works in a child forked after its parent "
            "has used them"
        )
        yield note("forks", text, "multiprocessing.set_start_method('spawn'), or fork before the first use of the GPU")
