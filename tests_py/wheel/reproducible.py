# SPDX-License-Identifier: Apache-2.0
"""Build the wheel twice, in folders of different names and lengths, with empty caches of Go's, and compare the files byte by byte.

    python tests_py/wheel/reproducible.py

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


def build(folder: Path) -> Path:
    """Check the commit out into a folder, and build its wheel there."""
    source, dist = folder / "source", folder / "dist"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(source)], check=True)
    environment = os.environ | {"GOCACHE": str(folder / "cache"), "SOURCE_DATE_EPOCH": "1600000000"}
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", dist, source], check=True, env=environment)
    (wheel,) = dist.glob("*.whl")
    return wheel


def differences(first: Path, second: Path) -> list[str]:
    """The names of the members that differ."""
    with zipfile.ZipFile(first) as a, zipfile.ZipFile(second) as b:
        names = sorted({*a.namelist(), *b.namelist()})
        return [name for name in names if name not in a.namelist() or name not in b.namelist() or a.read(name) != b.read(name)]


def main() -> None:
    """Build and compare; a difference ends the program with the names of the files."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory(prefix="a-longer-name-") as two:
        wheels = [build(Path(folder)) for folder in (one, two)]
        digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels]
        if digests[0] != digests[1]:
            raise SystemExit(f"two builds of one commit differ, in: {', '.join(differences(*wheels)) or 'the archive alone'}")
    print(f"two builds in different folders with empty caches are the same file, SHA-256 {digests[0]}")


if __name__ == "__main__":
    main()
