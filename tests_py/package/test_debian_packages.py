"""``make test-integrations`` names the Debian packages that it lacks, and stops."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from script import execute

SCRIPT = Path(__file__).parents[1] / "integrations" / "debian_packages.py"
PROGRAMS = runpy.run_path(str(SCRIPT))["PROGRAMS"]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    for program in {program for programs in PROGRAMS.values() for program in programs} - {"chromedriver", "srun"}:
        (tmp_path / program).touch(mode=0o755)

    def run(*words: str) -> tuple[int, str]:
        environment = {**os.environ, "PATH": str(tmp_path)}
        done = execute([sys.executable, SCRIPT, *words], env=environment)
        return done.returncode, done.stdout + done.stderr

    lacks = "programs are missing; on Debian and Ubuntu: apt-get install"
    assert run() == (1, f"{lacks} chromium-driver slurm-client\n")
    assert run("chromium", "chromium-driver") == (1, f"{lacks} chromium-driver\n")
    assert run("prometheus") == (0, "")
