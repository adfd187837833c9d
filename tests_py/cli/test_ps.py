"""``gpuconf ps``, ``stats`` and ``top`` where the output is a pipe: who has what of the cards."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import command
import pytest
from command import COMMAND
from fake_nvml import ONE_H100, fake_nvml
from gpuconf.leases.ledger import Card, init_shared, open_ledger
from holder import holder
from script import environment, without_others

MIB, GIB = 1 << 20, 1 << 30


def run(*arguments: str, env: dict[str, str]) -> tuple[int, str, str]:
    code, out, err = command.run(*arguments, env=env)
    return code, without_others(out), err


def shown(env: dict[str, str], *command: str) -> dict[str, Any]:
    code, out, err = run(*(command or ("ps",)), "--json", env=env)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found.pop("schema") == 1
    return found


@pytest.fixture
def simulated(tmp_path: Path) -> dict[str, str]:
    return {"GPUCONF_SIMULATE": "2xH100-80GB", "GPUCONF_LEDGER": str(tmp_path / "ledger")}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_nvml(tmp_path_factory.mktemp("nvml"))


def real(library: Path, tmp_path: Path, *lines: str, machine: str = ONE_H100) -> dict[str, str]:
    """A machine whose driver reports these processes."""
    (tmp_path / "machine").write_text(machine + "".join(f"{line}\n" for line in lines))
    ledger = str(tmp_path / "ledger")
    return {"LD_LIBRARY_PATH": str(library), "FAKE_NVML": str(tmp_path / "machine"), "GPUCONF_LEDGER": ledger}


def test_a_lease_and_its_pools(simulated: dict[str, str]) -> None:
    with holder(simulated, lease=10 * GIB, pool=8 * GIB, used=3 * GIB) as program:
        found = shown(simulated)
        (row,) = [row for row in found["processes"] if row["lease"]]
        assert row["pid"] == program.pid
        assert (row["name"], row["job"], row["gpu"], row["notes"]) == ("training", "job-7", "0", [])
        assert (row["lease"], row["limit"], row["in_use"], row["peak"]) == (10 * GIB, 8 * GIB, 3 * GIB, 3 * GIB)
        assert row["libraries"] == {"gpuconf": 3 * GIB}
        assert 3 * GIB <= row["reserved"] <= 8 * GIB
        assert row["bytes"] is None, "a simulated driver counts nothing"
        first, second = found["gpus"]
        assert (first["leased"], first["in_use"], second["leased"]) == (10 * GIB, 3 * GIB, 0)
        assert first["memory"]["used"] == row["reserved"]
        assert first["memory"]["source"] == "simulation and ledger"
        pools = shown(simulated, "stats", "--pid", str(program.pid))["pools"]
        assert [(pool["device"], pool["limit"], pool["in_use"]) for pool in pools[:1]] == [("GPU:0", 8 * GIB, 3 * GIB)]
        _, out, _ = run("ps", env=simulated)
        line = next(line for line in out.splitlines() if "10.00GiB" in line)
        assert "training: " in line
        assert "8.00GiB" in line
        assert "gpuconf 3.00GiB" in line, "in use by library"
        _, out, _ = run("top", env=simulated)
        assert "▓" in out or "█" in out
        assert "░" in out, "what is leased and not reserved"
        assert str(program.pid) in out
    assert shown(simulated)["processes"] == [], "a killed process leaves nothing"


def test_a_lease_without_memory(simulated: dict[str, str]) -> None:
    with holder(simulated, lease=10 * GIB):
        found = shown(simulated)
        (row,) = found["processes"]
        assert (row["lease"], row["limit"], row["notes"]) == (10 * GIB, None, ["no memory in use"])
        assert (found["gpus"][0]["leased"], found["gpus"][0]["reserved"], found["gpus"][0]["in_use"]) == (
            10 * GIB,
            0,
            0,
        )


def test_waiting(simulated: dict[str, str]) -> None:
    program = """
from gpuconf.leases.ledger import Card, open_ledger
import gpuconf
open_ledger().claim([Card(one.uuid, 80 << 30, 60 << 30) for one in gpuconf.visible_devices()], 2, name="second",
                    timeout=60)
"""
    with holder(simulated, lease=50 * GIB):
        waiting = subprocess.Popen([sys.executable, "-c", program], env=environment(simulated))
        try:
            for _ in range(300):
                rows = [row for row in shown(simulated)["processes"] if row["name"] == "second"]
                if rows:
                    break
            assert (rows[0]["pid"], rows[0]["lease"], rows[0]["notes"]) == (waiting.pid, 60 * GIB, ["waiting"])
            assert shown(simulated)["gpus"][0]["leased"] == 50 * GIB, "what waits is not leased"
            for command in ("ps", "top"):
                (line,) = (line for line in run(command, env=simulated)[1].splitlines() if "second" in line)
                assert line.split()[0] == "any", "one line, although it is on the queue of two cards"
        finally:
            waiting.kill()
            waiting.wait()


def test_processes_of_the_driver(library: Path, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper, subprocess.Popen(["true"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its parent has not collected it
        gone = 2**22 + 1  # beyond the largest PID
        env = real(
            library,
            tmp_path,
            f"process {sleeper.pid} bytes={5 * MIB} list=compute gi=-1 ci=-1",
            f"process {zombie.pid} bytes={6 * MIB} list=compute gi=-1 ci=-1",
            f"process {gone} bytes=-1 list=compute gi=-1 ci=-1",
        )
        found = shown(env)
        rows = {row["pid"]: row for row in found["processes"]}
        sleeper.kill()
    in_container = "host PID" in str(found)  # this test may run in one
    if in_container:
        assert all(row["notes"] == ["host PID"] for row in rows.values())
    else:
        assert (rows[sleeper.pid]["command"], rows[sleeper.pid]["notes"], rows[sleeper.pid]["bytes"]) == (
            "sleep 60",
            [],
            5 * MIB,
        )
        assert rows[zombie.pid]["notes"] == ["zombie"]
        assert (rows[gone]["notes"], rows[gone]["command"]) == (["gone"], None)
    assert rows[gone]["bytes"] is None
    assert found["gpus"][0]["memory"]["used"] == GIB


def test_a_long_command_line_is_cut(library: Path, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "060", *["0"] * 4000]) as sleeper:
        (row,) = shown(real(library, tmp_path, f"process {sleeper.pid} bytes={MIB} list=compute gi=-1 ci=-1"))[
            "processes"
        ]
        sleeper.kill()
    if row["notes"] != ["host PID"]:  # this test may run in a container
        assert row["command"] == ("sleep 060" + 4000 * " 0")[:4096].strip()


def test_the_leases_of_other_users_are_not_seen(library: Path, tmp_path: Path) -> None:
    """A private ledger says nothing of the others who use the card."""
    user = 54321 if os.geteuid() == 0 else None
    with subprocess.Popen(["sleep", "60"], user=user) as sleeper:
        pid = 1 if user is None else sleeper.pid  # root's
        try:
            env = real(library, tmp_path, f"process {pid} bytes={5 * MIB} list=compute gi=-1 ci=-1")
            shared = {**env, "GPUCONF_LEDGER": str(tmp_path / "shared")}
            (row,) = shown(env)["processes"]
            none = run("ps", env=env)[2], run("doctor", "--json", env=env)[1]
            open_ledger(env["GPUCONF_LEDGER"])
            private = run("ps", env=env)[2], run("doctor", "--json", env=env)[1]
            init_shared(shared["GPUCONF_LEDGER"])
            silent = run("ps", env=shared)[2], run("doctor", "--json", env=shared)[1]
        finally:
            sleeper.kill()
    if row["notes"] == ["host PID"]:
        pytest.skip("this test runs in a container: whose the driver's processes are is not known")
    said = (
        f"{row['user']} use these GPUs, but the ledger ({env['GPUCONF_LEDGER']}) is yours alone: it does not show "
        "their leases. "
    )
    said += "For one that all users share: sudo gpuconf ledger init --shared"
    for complaint, findings in (none, private):
        assert complaint == f"gpuconf ps: {said}\n"
        assert [one["level"] for one in json.loads(findings)["findings"] if one["text"] == said] == ["note"]
    assert silent[0] == ""
    assert "yours alone" not in silent[1]


def test_unified_memory_and_broken_cards(library: Path, tmp_path: Path) -> None:
    gb10 = (
        "driver 580.95.05\ncuda 13000\ncard GPU-1 domain=15 bus=1 device=0 cc=12.1 mig=none total=1 used=0 NVIDIA "
        "GB10\n"
    )
    env = real(library, tmp_path, "fail nvmlDeviceGetMemoryInfo 3", machine=gb10)
    (card,) = shown(env)["gpus"]
    assert (card["memory"]["kind"], card["memory"]["source"]) == ("unified", "/proc/meminfo")
    assert "GB10 (unified)" in run("top", env=env)[1]
    env = real(library, tmp_path, "fail nvmlDeviceGetMemoryInfo 15")
    code, out, err = run("ps", env=env)
    assert (code, out) == (0, "no processes\n")
    assert "fell off the bus" in err
    assert "memory unknown" in run("top", env=env)[1]


def test_leases_name_the_kind_of_memory(library: Path, tmp_path: Path) -> None:
    gb10 = (
        "driver 580.95.05\ncuda 13000\ncard GPU-1 domain=15 bus=1 device=0 cc=12.1 mig=none total=1 used=0 NVIDIA "
        "GB10\n"
    )
    env = real(library, tmp_path, "fail nvmlDeviceGetMemoryInfo 3", machine=gb10)
    with open_ledger(env["GPUCONF_LEDGER"]).claim([Card("GPU-1", 128 * GIB, 10 * GIB)]):
        ((lease,),) = [shown(env, "lease", "--list")["leases"]]
        (card,) = lease["cards"]
        assert card == {
            "uuid": "GPU-1",
            "bytes": 10 * GIB,
            "charge": 10 * GIB,
            "memory_kind": "unified",
            "memory_source": "/proc/meminfo",
        }
        assert "10.00GiB unified" in run("lease", "--list", env=env)[1]


def test_control_characters_reach_no_terminal(library: Path, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], executable="/bin/sleep") as plain:
        plain.kill()
    with subprocess.Popen(["\033[2Jsleep", "60"], executable="/bin/sleep") as sleeper:
        env = real(library, tmp_path, f"process {sleeper.pid} bytes=1 list=compute gi=-1 ci=-1")
        out = run("ps", env=env)[1] + run("top", env=env)[1]
        sleeper.kill()
    assert "\033" not in out


def test_without_cards(tmp_path: Path) -> None:
    env = {"LD_LIBRARY_PATH": str(tmp_path), "GPUCONF_LEDGER": str(tmp_path / "ledger")}
    code, out, err = run("ps", env=env)
    if code == 0:
        pytest.skip("this machine has an NVIDIA driver")
    assert (code, err) == (3, "")
    assert out == "no GPUs: NVML is not available; gpuconf doctor says more\n", (
        "all the files that were looked for were one long line"
    )
    assert run("devices", env=env) == (3, out, ""), "it used to say nothing else than no GPUs"
    assert not (tmp_path / "ledger").exists(), "looking makes no ledger"
    assert run("top", env=env)[0] == 3


def test_a_damaged_ledger_is_said(simulated: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir(mode=0o700)
    (tmp_path / "ledger" / "ledger").write_text("something else")
    code, out, err = run("ps", env=simulated)
    assert (code, out) == (0, "no processes\n")
    assert "the ledger cannot be read: " in err
    assert shown(simulated)["errors"] != []


def test_the_pids_of_a_job_join(simulated: dict[str, str]) -> None:
    """``ps`` shows the program, and ``lease --list`` and messages show the ``gpuconf run`` that holds its lease."""
    user = pwd.getpwuid(os.getuid()).pw_name
    program = (
        "import gpuconf, sys; kept = gpuconf.memory.allocate('1GiB'); print('ready', flush=True); sys.stdin.read()"
    )
    words = [COMMAND, "run", "--memory", "60GiB", "--gpus", "2", "--name", "service", sys.executable, "-c", program]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=environment(simulated), **pipes) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == "ready\n"
        row = next(row for row in shown(simulated)["processes"] if row["in_use"])
        (lease,) = shown(simulated, "lease", "--list")["leases"]
        lease_cards = [one["uuid"] for one in shown(simulated)["gpus"]]
        line = next(line for line in run("ps", env=simulated)[1].splitlines() if "1.00GiB" in line)
        code, _, message = run("run", "--memory", "30GiB", "--no-wait", "true", env=simulated)
        elsewhere = {"GPUCONF_LEDGER": simulated["GPUCONF_LEDGER"]}
        seen = json.loads(run("ps", "--json", env=elsewhere)[1])
        table = run("ps", env=elsewhere)
        pools_there = run("stats", env=elsewhere)
        runner.communicate()
    assert row["pid"] != runner.pid
    assert (
        (row["lease_pid"], row["claim"], row["user"])
        == (lease["pid"], lease["id"], user)
        == (runner.pid, lease["id"], lease["user"])
    )
    assert line.split()[1:3] == [str(row["pid"]), user]
    assert str(runner.pid) in line.split()
    assert code == 124
    assert f"  process {runner.pid} service, user {user}: 120.00GiB" in message
    assert "0B leased" not in message
    assert "dedicated memory of a simulated GPU" in message
    # In a shell without the simulation.
    assert pools_there[0] == 0
    assert "1.00GiB" in pools_there[1]
    assert all(f"{card[:12]}, job service: " in pools_there[1] for card in lease_cards), pools_there[1]
    assert all(f"{card[:12]}, job service: " in table[1] for card in lease_cards), table[1]
    (there,) = [one for one in seen["processes"] if one["in_use"]]
    assert (there["pid"], there["lease_pid"], there["gpu"], there["uuid"]) == (
        row["pid"],
        runner.pid,
        row["uuid"][:12],
        row["uuid"],
    )
    assert table[0] == 0
    assert "service: " in table[1]
    assert "are not visible here" in table[2]


def test_a_mig_card_whose_own_queries_a_container_may_not_make(library: Path, tmp_path: Path) -> None:
    """Each instance repeated the refusals, with advice on the permissions of device files."""
    machine = ONE_H100.replace("mig=off", "mig=on") + (
        "instance MIG-1 gi=1 ci=0 total=10737418240 used=4096 NVIDIA H100 80GB HBM3 MIG 1g.10gb\n"
        "instance MIG-2 gi=2 ci=0 total=10737418240 used=4096 NVIDIA H100 80GB HBM3 MIG 1g.10gb\n"
        "fail nvmlDeviceGetMemoryInfo 4 GPU-1\nfail nvmlDeviceGetComputeRunningProcesses_v3 4 GPU-1\n"
    )
    found = shown(real(library, tmp_path, machine=machine))
    assert [gpu["uuid"] for gpu in found["gpus"]] == ["MIG-1", "MIG-2"]
    (told,) = found["errors"]
    assert told.startswith("GPU 0: the driver refuses queries of the whole card here, as in containers with MIG")
