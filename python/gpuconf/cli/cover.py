# SPDX-License-Identifier: Apache-2.0
"""What ``gpuconf doctor`` says of rehearsals: the cover that this machine allows, found by running a program in it."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping

from .. import errors
from ..plans.programs.cover import LAUNCHER, Cover, Options
from .diagnosis import NOTE, OK, Finding

_SUBJECT = "rehearsals"
_SECONDS = 1.0
_PROGRAM = ("/bin/sh", "-c", ":")
_OF_CONTAINERS = ("/.dockerenv", "/run/.containerenv")
_QUIET = subprocess.DEVNULL
_PAGE = "docs/plan.md has what each cover keeps"


def of_machine(environ: Mapping[str, str]) -> Finding:
    """Return which cover ``gpuconf plan -- PROGRAM`` uses here, or why there is none, and what to set."""
    try:
        cover = Cover(Options())
        try:
            with tempfile.TemporaryDirectory(prefix="gpuconf-doctor-") as folder:
                cover.start(_PROGRAM, environ, stdout=_QUIET, stderr=_QUIET, folder=folder, seconds=_SECONDS)
                status = _run(cover)
        except errors.UnavailableError:
            text = f"none is possible, because this machine has no cover for the program's writes ({_refused(cover)})"
            return Finding(NOTE, _SUBJECT, text, _advice())
        finally:
            cover.close()
    except OSError as error:
        return Finding(NOTE, _SUBJECT, f"whether this machine allows a cover is unknown: {error}", _PAGE)
    if status != 0:
        return Finding(NOTE, _SUBJECT, f"a program does not run in the cover ({cover.said()}): status {status}", _PAGE)
    text = f"gpuconf plan -- PROGRAM has a cover: {cover.said()}"
    if cover.kind != "mirror":
        return Finding(OK, _SUBJECT, text)
    return Finding(NOTE, _SUBJECT, f"{text}. Overlays are refused: {_refused(cover)}", _advice())


def _refused(cover: Cover) -> str:
    return "; ".join(dict.fromkeys(cover.refused)) or "the launcher ended"


def _run(cover: Cover) -> int:
    """Run the program. Returns its status. Raises OSError if it takes too long."""
    until = time.monotonic() + _SECONDS
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
            f"in Docker or Podman, start the container with {options}, and with --cap-add SYS_ADMIN if that is not "
            "enough"
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
