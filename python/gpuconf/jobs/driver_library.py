# SPDX-License-Identifier: Apache-2.0
"""Where the loader would find NVIDIA's libraries, without loading them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from . import elf

_CACHE_LINE = r"^\s*(\S+) \(.*\) => (\S+)$"
_FOLDERS = (
    "/lib64",
    "/usr/lib64",
    "/lib/{}-linux-gnu",
    "/usr/lib/{}-linux-gnu",
    "/lib",
    "/usr/lib",
    "/usr/lib/wsl/lib",
)


def find(name: str, environment: Mapping[str, str]) -> str | None:
    """The path of a library, such as libcuda.so.1, that a program started with this environment would load."""
    return next((path for path in _candidates(name, environment) if elf.header_fits(path)), None)


def _candidates(name: str, environment: Mapping[str, str]) -> Iterator[str]:
    for folder in environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":"):
        yield os.path.abspath(os.path.join(folder, name)) if folder else os.path.abspath(name)
    import subprocess

    for program in ("/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"):
        try:
            listed = subprocess.run(
                [program, "-p"], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
            )
        except OSError:
            continue
        found = (re.match(_CACHE_LINE, line) for line in listed.stdout.splitlines())
        yield from (line[2] for line in found if line and line[1] == name)
        break
    machine = os.uname().machine
    yield from (os.path.join(folder.format(machine), name) for folder in _FOLDERS)
