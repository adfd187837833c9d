"""What the live figures of the ledger cost an allocation: three processes that take turns, one of them without the
code.

The third one runs a core that is built without the lines which write the figures.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

from gpuconf.leases.ledger import open_ledger

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 100
NUMBER = 50_000
SOURCE = ROOT / "gocore" / "pool" / "bfc" / "stats.go"
HOT = (
    "\ta.live.Libraries[by.Library()] += bytes\n",
    "\ta.live.Libraries[by.Library()] -= bytes\n",
    "{ a.live.Peak = a.peaks.recent }",
)

# Runs a loop for each line of its input: the pair, and the churn.
WORKER = f"""
import sys
from benchmarks.c_loops import loops
with loops() as c:
    c.churn(10 * {NUMBER})
    for line in sys.stdin:
        print(2 * getattr(c, line.strip())({NUMBER}), flush=True)
"""


def measure() -> list[dict[str, str]]:
    """Return what a pair of calls costs with figures in a ledger, with figures outside a ledger, and without any."""
    with tempfile.TemporaryDirectory() as folder:
        without = build_without(Path(folder))
        ledger = f"{folder}/ledger"
        open_ledger(ledger).close()
        workers = {
            "in a ledger": _start(str(ROOT), ledger),
            "no ledger": _start(str(ROOT), f"{folder}/none"),
            "built without figures": _start(f"{without}{os.pathsep}{ROOT}", f"{folder}/none"),
        }
        _check(ledger, workers)
        rows = [
            _row(what, loop, workers)
            for loop, what in (("pair", "hot pair of 4 KiB"), ("churn", "churn of 1000 blocks"))
        ]
        for worker in workers.values():
            worker.communicate()
    return rows


def _check(ledger: str, workers: dict[str, subprocess.Popen[str]]) -> None:
    """Make sure that the contenders are what they are called."""
    for worker in workers.values():
        _ask(worker, "pair")
    (row,) = open_ledger(ledger).processes()
    assert row.pid == workers["in a ledger"].pid
    maps = [Path(f"/proc/{worker.pid}/maps").read_text() for worker in workers.values()]
    assert ["/installed/gpuconf/" in text for text in maps] == [False, False, True]


def build_without(folder: Path) -> Path:
    """Install a gpuconf without the lines that write figures during an allocation or a free; return where."""
    text = SOURCE.read_text()
    for line in HOT:
        assert text.count(line) == 1, line
        text = text.replace(line, "{}" if line.startswith("{") else "")
    changed, overlay, target = folder / "stats.go", folder / "overlay.json", folder / "installed"
    changed.write_text(text)
    overlay.write_text(json.dumps({"Replace": {str(SOURCE): str(changed)}}))
    env = {**os.environ, "GOFLAGS": f"-overlay={overlay}"}
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", str(target), str(ROOT)], env=env, check=True)
    return target


def _start(path: str, ledger: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": path, "GPUCONF_LEDGER": ledger}
    return subprocess.Popen(
        [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )


def _row(what: str, loop: str, workers: dict[str, subprocess.Popen[str]]) -> dict[str, str]:
    times: dict[str, list[float]] = {name: [] for name in workers}
    for number in range(ROUNDS):
        names = list(workers)
        for name in names[number % 3 :] + names[: number % 3]:
            times[name].append(_ask(workers[name], loop))
    least = {name: min(found) for name, found in times.items()}
    base = times["built without figures"]
    ratio = statistics.median(
        with_figures / without for with_figures, without in zip(times["in a ledger"], base, strict=True)
    )
    return {
        "what": f"`gpuconf_malloc` and `gpuconf_free`, {what}",
        **{name: f"{least[name]:.1f} ns" for name in workers},
        "ratio of the fastest": f"{least['in a ledger'] / least['built without figures']:.3f}",
        "median of the ratios": f"{ratio:.3f}",
        "goal": "<= 1.03",
    }


def _ask(worker: subprocess.Popen[str], loop: str) -> float:
    send: IO[str] | None = worker.stdin
    answers: IO[str] | None = worker.stdout
    assert send is not None
    assert answers is not None
    send.write(f"{loop}\n")
    send.flush()
    return float(answers.readline())


if __name__ == "__main__":
    for row in measure():
        for name, value in row.items():
            print(f"{name}: {value}")
