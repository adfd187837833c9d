# SPDX-License-Identifier: Apache-2.0
"""Builds the wheels for every Linux with glibc 2.28 or newer, x86-64 and arm64, on one machine:
``python pybind/build/wheels.py dist``.

zig's C compiler knows the C libraries of both, so neither a container nor a cross compiler is needed. Each wheel serves
every CPython from 3.10. auditwheel must confirm each tag. The environment of this Python has what the build needs, in
the versions and with the hashes of pybind/build/requirements/release.txt (`make wheels`).
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}  # as wheels and as Go call them
GLIBC = (2, 28)


@contextlib.contextmanager
def python_headers() -> Iterator[str]:
    """The compiler's option for Debian's Python, whose pyconfig.h includes the target's from a folder that zig does not
    search.

    A folder with links to that one only: beside it lie the headers of this machine's C library. Its pyconfig.h serves
    each target, as all of them have types of the same sizes.
    """
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    real = Path(sysconfig.get_path("include")).parent / (sysconfig.get_config_var("MULTIARCH") or "none") / version
    with tempfile.TemporaryDirectory() as folder:
        for machine in MACHINES if real.is_dir() else ():
            link = Path(folder, f"{machine}-linux-gnu", version)
            link.parent.mkdir()
            link.symlink_to(real)
        yield f"-I{folder}"


def build(machine: str, dist: Path, option: str) -> Path:
    """Build one wheel."""
    version = ".".join(map(str, GLIBC))
    compiler = [sys.executable, str(ROOT / "pybind" / "build" / "zigcc.py"), f"{machine}-linux-gnu.{version}"]
    environment = os.environ | {
        "CC": shlex.join(compiler),
        "CGO_CFLAGS": f"{os.environ.get('CGO_CFLAGS', '-O2')} {option}",
        "GOARCH": MACHINES[machine],
        "GPUCONF_PINNED_GO": "1",
        "GPUCONF_WHEEL_PLATFORM": f"manylinux_{version.replace('.', '_')}_{machine}",
    }
    before = set(dist.glob("*.whl"))
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", dist, ROOT],
        check=True,
        env=environment,
    )
    (wheel,) = set(dist.glob("*.whl")) - before
    return wheel


def check(wheel: Path) -> str:
    """The oldest platform that auditwheel finds the wheel fit for; its tag must not promise more."""
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True, check=False
    )
    told = " ".join(done.stdout.split())
    found = re.search(r'consistent with the following platform tag: "(manylinux_(\d+)_(\d+)_\w+)"', told)
    if done.returncode or not found or (int(found[2]), int(found[3])) > GLIBC:
        raise SystemExit(f"auditwheel rejects {wheel.name}:\n{done.stdout}{done.stderr}")
    return found[1]


def main(dist: str) -> None:
    """Build and check all of them."""
    folder = Path(dist)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*-manylinux_*.whl"):
        old.unlink()
    with python_headers() as option:
        wheels = [build(machine, folder, option) for machine in MACHINES]
    for wheel in wheels:
        print(f"{wheel}: {wheel.stat().st_size:,} bytes; symbols are those of {check(wheel)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
