# SPDX-License-Identifier: Apache-2.0
"""Writes the two lists beside it: what a build downloads, all of it, in exact versions with hashes.

build.txt has what any build needs, and release.txt what `make wheels` needs. The versions that are chosen stand where
they are used: hatchling's in pyproject.toml, Go's in pybind/build/hatch_build.py, the others here. `make generate
WHAT=requirements` runs this; it needs uv.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]

# zig's C compiler, which builds the wheels.
RELEASE = ("build==1.6.1", "auditwheel==6.8.2", "ziglang==0.17.1")


def chosen() -> dict[str, list[str]]:
    """Return the requirements that are chosen, by the name of their list."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    hook = (ROOT / "pybind" / "build" / "hatch_build.py").read_text(encoding="utf-8")
    build = [
        *re.findall(r'^requires = \["(hatchling==[^"]*)"\]', project, re.M),
        *re.findall(r'^GO_WHEEL = "(.*)"', hook, re.M),
    ]
    return {"build.txt": build, "release.txt": [*build, *RELEASE]}


def lock(name: str, requirements: list[str]) -> None:
    """Write one list."""
    uv = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--upgrade",
        "--no-header",
        "--no-annotate",
        "--generate-hashes",
    ]
    options = ["--universal", "--python-version", "3.10", "-", "-o", str(FOLDER / name)]
    subprocess.run([*uv, *options], input="\n".join(requirements), text=True, check=True)


if __name__ == "__main__":
    for one, wanted in chosen().items():
        lock(one, wanted)
