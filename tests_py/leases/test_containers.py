"""The ledger between containers: processes of other PID and time namespaces, exec, and a PID that is used again."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command import COMMAND
from fake_nvml import ONE_H100, fake_nvml
from gpuconf import errors
from gpuconf.leases.ledger import Card, Ledger, open_ledger
from holder import holder
from script import environment, execute

MIB, GIB = 1 << 20, 1 << 30
CARD = "GPU-4d1ee11c-4cd2-4b5c-8a6d-6a2bfd9a3ba1"

PIDS = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
AHEAD, BEHIND = (["unshare", "--time", "--boottime", offset, "--monotonic", "100000"] for offset in ("1000000", "-10"))


def container(words: list[str]) -> list[str]:
    """Return a command that runs a program in namespaces of its own, or skip the test."""
    tried = execute([*words, "true"])
    if tried.returncode:
        pytest.skip(f"namespaces cannot be created: {tried.stderr.strip()}")
    return words


def shown(env: dict[str, str], inside: list[str]) -> list[dict[str, Any]]:
    done = execute([*inside, COMMAND, "ps", "--json"], check=True, env=environment(env))
    found: list[dict[str, Any]] = json.loads(done.stdout)["processes"]
    return found


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"GPUCONF_SIMULATE": "H100-80GB", "GPUCONF_LEDGER": str(tmp_path / "ledger")}


@pytest.fixture
def ledger(env: dict[str, str]) -> Ledger:
    return open_ledger(env["GPUCONF_LEDGER"])


def test_containers_see_each_others_figures(env: dict[str, str], ledger: Ledger) -> None:
    inside = container(PIDS)
    with holder(env, 10 * GIB, 8 * GIB, 3 * GIB, inside):
        (row,) = shown(env, [])
        assert (row["notes"], row["lease"], row["in_use"]) == (["other container"], 10 * GIB, 3 * GIB)
        assert (row["name"], row["libraries"]) == ("training", {"gpuconf": 3 * GIB})
        (claim,) = ledger.claims()
        assert (claim.local, claim.gone) == (False, False)
        with pytest.raises(
            errors.DeadlineExceededError, match=f"process {claim.pid} in another container training, user"
        ):
            ledger.claim([Card(claim.cards[0].uuid, 80 * GIB, 75 * GIB)], timeout=0)
        assert "(container)" in subprocess.check_output([COMMAND, "ledger", "list"], text=True, env=environment(env))
    with holder(env, 10 * GIB, 8 * GIB, 3 * GIB) as program:
        (row,) = shown(env, inside)
        assert (row["pid"], row["notes"], row["in_use"]) == (program.pid, ["other container"], 3 * GIB)
    assert ledger.claims() == []


def test_the_drivers_process_in_a_container_has_its_lease(env: dict[str, str], tmp_path: Path) -> None:
    """The driver's PID is the host's, and the ledger's is the container's: they are one row."""
    inside = container(PIDS)
    with holder(env, 10 * GIB, 8 * GIB, 3 * GIB, inside) as program:
        (uuid,) = (row["uuid"] for row in shown(env, []))
        (pid,) = map(int, Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split())
        listed = f"process {pid} bytes={5 * MIB} list=compute gi=-1 ci=-1\n"
        (tmp_path / "machine").write_text(ONE_H100.replace("GPU-1", uuid) + listed)
        real = {
            **env,
            "GPUCONF_SIMULATE": "",
            "LD_LIBRARY_PATH": str(fake_nvml(tmp_path)),
            "FAKE_NVML": str(tmp_path / "machine"),
        }
        (row,) = shown(real, [])
    assert (row["pid"], row["bytes"], row["notes"]) == (pid, 5 * MIB, ["other container"])
    assert (row["lease"], row["in_use"], row["name"]) == (10 * GIB, 3 * GIB, "training")


def test_a_drivers_pid_means_nothing_in_a_container(tmp_path: Path) -> None:
    """The driver lists PIDs of the host there. Not one of them may be taken for a process of the container."""
    (tmp_path / "machine").write_text(f"{ONE_H100}process 1 bytes={5 * MIB} list=compute gi=-1 ci=-1\n")
    real = {"LD_LIBRARY_PATH": str(fake_nvml(tmp_path)), "FAKE_NVML": str(tmp_path / "machine")}
    (row,) = shown({**real, "GPUCONF_LEDGER": str(tmp_path / "ledger")}, container(PIDS))
    assert (row["pid"], row["notes"], row["command"], row["bytes"]) == (1, ["host PID"], None, 5 * MIB)


def test_a_program_that_executes_another_one(ledger: Ledger) -> None:
    """The claim and the figures of a program end when it replaces itself; what it passes on stays, for the same
    process.
    """
    code = f"""
import os, sys, gpuconf
from gpuconf.leases.ledger import open_ledger
from gpuconf.leases.ledger import Card
ledger = open_ledger({ledger.folder!r})
kept, dropped = (ledger.claim([Card({CARD!r}, {40 * GIB}, {GIB})], name=name) for name in ("kept", "dropped"))
gpuconf.simulate("T4")
ledger.publish(kept.id)
gpuconf.memory.allocate(1000).free()
assert len(ledger.claims()) == 2 and len(ledger.processes()) == 1
os.set_inheritable(kept.fileno(), True)
os.execv("/bin/sh", ["sh", "-c", "echo ready; read line"])
"""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        (row,) = ledger.claims()
        assert (row.name, row.pid, row.gone) == ("kept", program.pid, False)
        assert ledger.processes() == []
        assert ledger.check() == []
        program.communicate("\n")
    assert ledger.claims() == []


def test_a_pid_that_is_used_again(ledger: Ledger) -> None:
    """A child keeps the lease of a process that has ended, and another process gets its PID: the lease is not that
    one's.
    """
    leave = (
        "import subprocess; from gpuconf.leases.ledger import open_ledger; from gpuconf.leases.ledger import Card; "
        f"claim = open_ledger({ledger.folder!r}).claim([Card({CARD!r}, {40 * GIB}, {GIB})]); "
        "subprocess.Popen(['sleep', '60'], pass_fds=[claim.fileno()])"
    )
    code = f"""
import os, subprocess, sys
from gpuconf.leases.ledger import open_ledger
first = subprocess.Popen([sys.executable, "-c", {leave!r}])
first.wait()
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(first.pid - 1))
again = subprocess.Popen(["sleep", "60"])
assert again.pid == first.pid, (again.pid, first.pid)
(row,) = open_ledger({ledger.folder!r}).claims()
print(row.pid == again.pid, row.local, row.gone)
"""
    inside = container([*PIDS, "--", "sh", "-c", 'test -w /proc/sys/kernel/ns_last_pid && exec "$@"', "-"])
    done = execute([*inside, sys.executable, "-c", code])
    assert (done.stdout, done.stderr) == ("True True True\n", "")


@pytest.mark.parametrize("offset", [AHEAD, BEHIND], ids=["ahead", "behind"])
def test_other_clocks(env: dict[str, str], ledger: Ledger, offset: list[str]) -> None:
    """Processes of a time namespace have another time since boot, and other start times.

    Order and figures are as ever.
    """
    with holder(env, 10 * GIB, 8 * GIB, 3 * GIB, container(offset)) as program:
        (row,) = ledger.claims()
        assert (row.pid, row.gone, row.local) == (program.pid, False, True)
        assert 0 <= row.seconds < 60
        (inner,) = shown(env, offset)
        (outer,) = shown(env, [])
        assert (inner["notes"], inner["pid"], inner["in_use"]) == ([], program.pid, 3 * GIB)
        assert inner == outer
        wait = f"open_ledger({ledger.folder!r}).claim([Card({CARD!r}, {40 * GIB}, {35 * GIB})])"
        code = f"from gpuconf.leases.ledger import open_ledger; from gpuconf.leases.ledger import Card; {wait}"
        own = ledger.claim([Card(CARD, 40 * GIB, 10 * GIB)])
        with own, subprocess.Popen([*container(offset), sys.executable, "-c", code]) as waiter:
            try:
                deadline = time.monotonic() + 30
                while len(ledger.claims()) < 3:
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
                assert not ledger.claims()[2].stopped, "when it looked last has the same zero here"
            finally:
                waiter.kill()
    assert ledger.claims() == []
