"""What commands import: most of the time of a short one goes into that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from script import environment

COMMAND = str(Path(sys.executable).with_name("gpuconf"))

# What takes a millisecond or more beside a bare interpreter, and is of no use to a command that ends well.
HEAVY = {
    "bz2", "contextlib", "ctypes", "difflib", "inspect", "json", "locale", "lzma", "shutil", "subprocess", "tempfile", "threading",
    "typing", "zlib",
}  # fmt: skip


def imported(tmp_path: Path, *words: str, simulate: str = "T4") -> set[str]:
    """The modules that a command imports, from its own first one on: an installer's script may import re before."""
    env = environment({"GPUCONF_SIMULATE": simulate, "GPUCONF_LEDGER": str(tmp_path / "ledger")})
    done = subprocess.run(
        [sys.executable, "-X", "importtime", COMMAND, *words], capture_output=True, text=True, check=True, timeout=60, env=env
    )
    names = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    return set(names[names.index("gpuconf._core") :])


def own(names: set[str]) -> set[str]:
    return {name.removeprefix("gpuconf.") for name in names if name.startswith("gpuconf.")}


SHARED = {"_core", "_core.fork", "_core.public", "__main__", "cli", "cli.main", "cli.console", "cli.exits", "_typing"}
PARSED = {*SHARED, "_core.humanbytes", "cli.output", "cli.parser"}


def test_the_version(tmp_path: Path) -> None:
    names = imported(tmp_path, "--version")
    assert own(names) == SHARED
    assert names & {*HEAVY, "argparse", "re", "signal"} == set()


def test_a_program_without_a_lease(tmp_path: Path) -> None:
    names = imported(tmp_path, "run", "true")
    assert own(names) == {*PARSED, "cli.execute", "cli.guard_modes", "cli.late_options", "cli.requested", "cli.run"}
    assert names & {*HEAVY, "signal"} == set()
