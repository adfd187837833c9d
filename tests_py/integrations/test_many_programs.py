"""40 unmodified programs of different needs on 4 simulated cards at once, through ``gpuconf run``, and a third of them
killed.
"""

import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import script
from gpuconf.leases.ledger import open_ledger

BIN = Path(sys.executable).parent
GIB = 1 << 30
CARDS, CARD = 4, 40 * GIB

# It fills what it needs, and one program in three tries to take more than it has.
PROGRAM = """
import sys, time
import gpuconf as tf
need, seconds, greedy = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "greedy"
gpus = tf.config.list_physical_devices("GPU")
held = []
for gpu in tf.config.list_logical_devices("GPU"):
    held += [tf.memory.allocate(need // 4, gpu.name) for _ in range(4)]
    if greedy:
        try:
            while True:
                held.append(tf.memory.allocate(64 << 20, gpu.name))
        except MemoryError:
            pass
time.sleep(seconds)
print(len(gpus), max(tf.memory.stats(gpu).peak_bytes_in_use for gpu in tf.config.list_logical_devices("GPU")))
for one in held:
    one.free()
"""


@pytest.mark.parametrize("killed", [0, 13], ids=["all finish", "a third is killed"])
def test_programs_of_different_needs(killed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCONF_LEDGER", str(tmp_path / "ledger"))
    monkeypatch.setenv("GPUCONF_SIMULATE", f"{CARDS}xA100-40GB")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    rng = random.Random(5)
    ledger = open_ledger()
    started = []
    for number in range(40):
        limit, gpus = rng.choice([1, 2, 4, 6, 10, 15, 20, 30, 38]) * GIB, rng.choice([1, 1, 1, 2])
        need = limit * rng.randint(30, 95) // 100
        words = ["run", "--memory", str(limit), "--gpus", str(gpus), "--name", f"program {number}"]
        words += [
            "--policy",
            rng.choice(["spread", "pack"]),
            "--json-report",
            str(tmp_path / f"{number}.json"),
            sys.executable,
            str(program),
        ]
        words += [str(need), str(rng.uniform(0, 0.5)), "greedy" if number % 3 == 0 else "modest"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append((subprocess.Popen([str(BIN / "gpuconf"), *words], **pipes), limit, gpus, need))  # type: ignore[call-overload]
    victims = set(rng.sample(range(40), killed))
    with exporter() as address:
        most, processes = watch(ledger, started, victims, rng, address)
    assert most <= CARD
    assert processes > 1
    for number, (process, limit, gpus, need) in enumerate(started):
        out, err = process.communicate(timeout=60)
        if number in victims:
            continue
        assert (process.returncode, err) == (0, "")
        seen, peak = map(int, out.split())
        assert seen == gpus
        assert need // 2 <= peak <= limit
        report = json.loads((tmp_path / f"{number}.json").read_text())
        assert need // 2 <= sum(report["peak_bytes"].values()) <= limit * gpus
        assert report["not_limited"] == []
    deadline = time.monotonic() + 20
    while ledger.claims() or ledger.processes():
        assert time.monotonic() < deadline, (ledger.claims(), ledger.processes())
        time.sleep(0.05)
    assert ledger.check() == []


@contextlib.contextmanager
def exporter() -> Iterator[str]:
    """``gpuconf export`` on a free port; its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    process = subprocess.Popen([str(BIN / "gpuconf"), "export", "--port", str(port)], stdout=subprocess.PIPE)
    address = f"http://127.0.0.1:{port}/metrics"
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(address, timeout=5).close()
                break
            time.sleep(0.05)
        yield address
    finally:
        process.kill()
        process.communicate()


def check_what_others_see(address: str) -> None:
    """``gpuconf ps`` and ``gpuconf export`` while programs come and go: what is in use is leased, and the leases
    fit.
    """
    done = script.completed([str(BIN / "gpuconf"), "ps", "--json"], check=True)
    seen = json.loads(done.stdout)
    assert len(seen["gpus"]) == CARDS
    for gpu in seen["gpus"]:
        assert gpu["in_use"] <= gpu["reserved"] <= CARD
        assert gpu["leased"] <= CARD
    for row in seen["processes"]:
        assert all(pool["in_use"] <= pool["limit"] for pool in row["pools"])
    metrics = urllib.request.urlopen(address, timeout=30).read().decode()
    leased = [float(value) for value in re.findall(r"^gpuconf_gpu_leased_bytes{.*} (\S+)$", metrics, re.MULTILINE)]
    assert len(leased) == CARDS
    assert max(leased) <= CARD


def watch(ledger, started, victims, rng, address) -> tuple[int, int]:  # type: ignore[no-untyped-def] # noqa: ANN001
    """Watch the ledger until all have ended, and kill the victims.

    Returns the most that leases took of a card, and processes.
    """
    most = processes = rounds = 0
    waiting = set(victims)
    deadline = time.monotonic() + 240
    while any(process.poll() is None for process, *_ in started):
        assert time.monotonic() < deadline, ledger.claims()
        leased: dict[str, int] = {}
        rows = ledger.claims()
        for card in (card for row in rows if row.state == "granted" for card in row.cards):
            leased[card.uuid] = leased.get(card.uuid, 0) + card.charge
        most = max([most, *leased.values()])
        limits = {(row.id, card.uuid): card.bytes for row in rows for card in row.cards}
        found = ledger.processes()
        processes = max(processes, len(found))
        for row in found:
            for pool in row.pools:
                assert pool.in_use <= pool.limit
                assert pool.limit == limits.get((row.claim_id, pool.uuid), pool.limit)
        if rounds % 20 == 5:
            check_what_others_see(address)
        rounds += 1
        if waiting and rng.random() < 0.5:
            kill(started[waiting.pop()][0], rng)
        time.sleep(0.05)
    return most, processes


def kill(process: subprocess.Popen[str], rng: random.Random) -> None:
    """Kill the command, or the program below it, or both."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    below = [int(pid) for pid in children.read_text().split()] if children.exists() else []
    for pid in rng.choice([[process.pid], [process.pid, *below], below or [process.pid]]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
