# SPDX-License-Identifier: Apache-2.0
"""Build the wheel twice, in folders of different names and lengths, with empty caches of Go's, and compare the files
byte by byte.

Its Python's environment has the build's tools, in the versions and with the hashes of
pybind/build/requirements/release.txt; an older Go comes first on PATH.

    make check WHAT=reproducible

Not a test module: `.ci/more` runs it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def older_go(folder: Path) -> str:
    """A program that says it is an old Go, and fails. It comes first on PATH, and must not be chosen."""
    folder.mkdir()
    program = folder / "go"
    program.write_text('#!/bin/sh\ntest "$1 $2" = "env GOVERSION" && echo go1.19.8\n', encoding="utf-8")
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def build(folder: Path) -> Path:
    """Check the commit out into a folder, and build its wheel there with the tools of this environment."""
    source, dist = folder / "source", folder / "dist"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(source)], check=True)
    environment = os.environ | {
        "PATH": older_go(folder / "old"),
        "GPUCONF_PINNED_GO": "1",
        "GOCACHE": str(folder / "cache"),
        "GOMODCACHE": str(folder / "modules"),
        "GOFLAGS": "-modcacherw",  # so that the folder can be removed
        "SOURCE_DATE_EPOCH": "1600000000",
    }
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", dist, source]
    subprocess.run(command, check=True, env=environment)
    (wheel,) = dist.glob("*.whl")
    return wheel


def differences(first: Path, second: Path) -> list[str]:
    """The names of the members that differ."""
    with zipfile.ZipFile(first) as a, zipfile.ZipFile(second) as b:
        names = sorted({*a.namelist(), *b.namelist()})
        return [
            name
            for name in names
            if name not in a.namelist() or name not in b.namelist() or a.read(name) != b.read(name)
        ]


def main() -> None:
    """Build and compare; a difference ends the program with the names of the files."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory(prefix="a-longer-name-") as two:
        wheels = [build(Path(folder)) for folder in (one, two)]
        digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels]
        if digests[0] != digests[1]:
            raise SystemExit(
                f"two builds of one commit differ, in: {', '.join(differences(*wheels)) or 'the archive alone'}"
            )
    print(f"two builds in different folders with empty caches are the same file, SHA-256 {digests[0]}")


if __name__ == "__main__":
    main()
