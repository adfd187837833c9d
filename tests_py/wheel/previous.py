# SPDX-License-Identifier: Apache-2.0
"""Two versions on one machine: an older gpuconf, built from its commit, and the installed one share a ledger, or say
why not.

    PYTHONPATH=tests_py:tests_py/jobs python tests_py/wheel/previous.py   # the versions that are listed below

Needs the repository with its history. It builds each older version once, into build/previous.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from turning import SPEC, Job, one_card, until

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "previous"

GIB, MIB = 1 << 30, 1 << 20

# The commit of 0.3, which knows of no turns and of nothing that is lent.
RELEASED = "23416694f92c5254f5183b10c29f73bb81d9b000"
# The first commit of ledgers that can grow, and the last one of the format before it.
GROWING = "2f781280f074ddf4b19afb0e8cae297621b451c9"
FIXED = "ece68887c86a1d24291ff5c07f46c5907945a265"

_HOLD = """
import sys
import gpuconf
with gpuconf.lease(sys.argv[1]) as held:
    print(held.memory, flush=True)
    sys.stdin.read()
"""

_LIST = """
import json
try:
    from gpuconf.leases.ledger import open_ledger
except ImportError:  # until 0.3
    from gpuconf.sharing._ledger import open_ledger
ledger = open_ledger()
rows = ledger.claims()
print(json.dumps([[row.cards[0].bytes, row.cards[0].charge] for row in rows if row.state == "granted"]))
print(json.dumps(ledger.check()))
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
    return {**kept, **more, "GPUCONF_SIMULATE": "A100-40GB:40GiB", "GPUCONF_LEDGER": str(ledger)}


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


def turns(old: Mapping[str, str], new: Mapping[str, str], *options: str, memory: str, most: int) -> None:
    """A program that gives way does so for an older version's, too, and has its turn after that. The older one counts
    what is parked as free, and what is lent as leased.
    """
    with Job(dict(new), *options, memory=memory) as job:
        until(lambda: [one for one, _ in leases(new)] == [most])
        assert job.ask("begin(7)") == 0
        values = job.ask("values()")
        code = "import sys; print('runs', flush=True); sys.stdin.read()"
        words = [sys.executable, "-m", "gpuconf", "run", "--memory", "250MiB", sys.executable, "-c", code]
        other = subprocess.Popen(words, env=old, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        assert other.stdout.readline() == "runs\n"
        job.say("values()")
        end = time.monotonic() + 5
        while time.monotonic() < end:
            before = leases(new)
            if leases(old) == before == leases(new):
                assert sum(charge for _, charge in before) <= 400 * MIB, before
        assert (before, leases(old)) == (leases(new), before)
        other.communicate()
        assert other.returncode == 0
        assert job.hear() == values
        job.end()
    assert leases(old) == leases(new) == []


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
        released = package(RELEASED)
        with one_card(Path(folder)) as shared:
            new = {**variables(Path(shared["GPUCONF_LEDGER"]), None), **shared}
            old = {**variables(Path(shared["GPUCONF_LEDGER"]), released), "GPUCONF_SIMULATE": SPEC}
            turns(old, new, "--turns", memory="250MiB", most=250 * MIB)
            turns(old, new, memory="50MiB..300MiB", most=300 * MIB)
    print("older versions share the ledger, or say why they cannot")


if __name__ == "__main__":
    main()
