# SPDX-License-Identifier: Apache-2.0
"""Two versions on one machine: an older gpuconf, built from its commit, and the installed one share a ledger, or say
why not.

    python tests_py/wheel/previous.py            # the versions that are listed below

Needs the repository with its history. It builds each older version once, into build/previous.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "previous"

GIB, MIB = 1 << 30, 1 << 20

# The first commit of ledgers that can grow, and the last one of the format before it.
GROWING = "2f781280f074ddf4b19afb0e8cae297621b451c9"
FIXED = "ece68887c86a1d24291ff5c07f46c5907945a265"

_HOLD = """
import sys
from gpuconf.leases.ledger import open_ledger
import gpuconf
with gpuconf.lease(sys.argv[1]) as held:
    print(held.memory, flush=True)
    sys.stdin.read()
"""

_LIST = """
import json
from gpuconf.leases.ledger import open_ledger
ledger = open_ledger()
rows = ledger.claims()
print(json.dumps([[row.cards[0].bytes, row.cards[0].charge] for row in rows]), json.dumps(ledger.check()), sep="\\n")
"""


def package(commit: str) -> Path:
    """Return a folder with gpuconf of a commit, installed there."""
    target = BUILT / commit
    if not (target / "gpuconf").is_dir():
        with tempfile.TemporaryDirectory() as folder:
            archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
            subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
            pip = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "--target",
                target,
            ]
            subprocess.run([*pip, folder], check=True)
    return target


def variables(ledger: Path, packages: Path | None) -> dict[str, str]:
    """Return the environment of a program with this ledger: of gpuconf in a folder, or of the installed one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUCONF_", "CUDA_", "PYTHON"))}
    more = {} if packages is None else {"PYTHONPATH": str(packages)}
    return {**kept, **more, "GPUCONF_SIMULATE": "A100-40GB", "GPUCONF_LEDGER": str(ledger)}


def python(code: str, *words: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False, timeout=60)


def run(*words: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuconf", *words]
    return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False, timeout=60)


@contextmanager
def holding(memory: str, env: Mapping[str, str]) -> Iterator[None]:
    """Hold a lease in a process of its own."""
    holder = subprocess.Popen([sys.executable, "-c", _HOLD, memory], env=env, cwd="/", stdin=-1, stdout=-1, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline(), "no lease"
    try:
        yield
    finally:
        holder.communicate()
        assert holder.returncode == 0


def leases(env: Mapping[str, str]) -> list[list[int]]:
    """Return bytes and charge of each lease, as a version reads them; the ledger has no problem."""
    done = python(_LIST, env=env)
    assert done.returncode == 0, done.stderr
    rows, problems = map(json.loads, done.stdout.splitlines())
    assert problems == [], problems
    return sorted(rows)


def share(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Sums hold in both versions: an older one counts the room for contexts, of which it knows nothing."""
    with holding("30GiB", new):
        assert leases(old) == leases(new) == [[30 * GIB, 30 * GIB + 448 * MIB]]
        for env in (old, new):
            done = run("run", "--memory", "9.8GiB", "--no-wait", "true", env=env)
            assert done.returncode == 124, (done.returncode, done.stderr)
        with holding("5GiB", old):
            assert leases(old) == leases(new) == [[5 * GIB, 5 * GIB], [30 * GIB, 30 * GIB + 448 * MIB]]
            assert run("run", "--memory", "4.5GiB", "--no-wait", "true", env=new).returncode == 124
            assert run("run", "--memory", "4GiB", "--no-wait", "true", env=new).returncode == 0
    assert leases(old) == leases(new) == []


def refuse(first: Mapping[str, str], second: Mapping[str, str], *texts: str) -> None:
    """The second version does not use the first one's ledger, changes nothing in it, and says which version is
    needed.
    """
    with holding("5GiB", first):
        done = run("run", "--memory", "1GiB", "true", env=second)
        assert done.returncode == 1, done.stdout
        assert all(text in done.stderr for text in texts), done.stderr
        done = run("run", "--memory", "1GiB", "--no-wait", "true", env=first)
        assert done.returncode == 0, done.stderr


def main() -> None:
    growing, fixed = package(GROWING), package(FIXED)
    with tempfile.TemporaryDirectory() as folder:
        for creator in ("old", "new"):
            ledger = Path(folder, creator)
            old, new = variables(ledger, growing), variables(ledger, None)
            assert run("run", "--memory", "1GiB", "true", env=old if creator == "old" else new).returncode == 0
            share(old, new)
        ledger = Path(folder, "fixed")
        refuse(variables(ledger, fixed), variables(ledger, None), "has format version 2", "GPUCONF_LEDGER")
        ledger = Path(folder, "later")
        refuse(
            variables(ledger, None),
            variables(ledger, fixed),
            "has format version 3; this gpuconf uses version 2",
            "GPUCONF_LEDGER",
        )
    print("older versions share the ledger, or say why they cannot")


if __name__ == "__main__":
    main()
