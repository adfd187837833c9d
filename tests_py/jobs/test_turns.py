"""``gpuconf run --turns``: programs whose memory goes to the host while others use the card, and comes back. Real
processes, killed by real signals, on a simulated card that all of them share.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpuconf.cli import parser
from gpuconf.jobs import simulated_cards
from gpuconf.jobs.agent import Agent, Saved
from gpuconf.jobs.turns import NO_ROOM
from jupyter_client.blocking.client import BlockingKernelClient
from turning import PROGRAM, Job, agents, in_use, rows, states, until


def test_an_idle_program_gives_its_memory_to_one_that_waits(environment: dict[str, str]) -> None:
    with Job(environment, "--turns") as idle:
        assert idle.ask("begin(7)") == 0
        before = idle.ask("values()")
        assert before[0] == [7]
        time.sleep(12)  # it is idle, and keeps its memory while no program waits
        assert states(environment) == ["granted"]
        with Job(environment, "--turns") as other:
            assert other.ask("begin(9)") == 0
            assert states(environment) == ["granted", "parked"]
            assert in_use(environment) >= 200 << 20
            idle.say("values()")  # the call waits for a turn
            until(lambda: states(environment) == ["granted", "parked", "waiting"])
            time.sleep(3)  # a short wait is not worth a line
            assert other.ask("values()")[0] == [9]
            other.end()
        assert idle.hear() == before  # the same values at the same address
        assert states(environment) == ["granted"]
        assert "waiting for 250.00MiB of the GPU: 1 of 1 in line" in idle.end()
    assert states(environment) == []
    assert in_use(environment) == 0


def test_a_program_whose_cards_the_environment_simulates_can_be_parked(environment: dict[str, str]) -> None:
    """Without --simulate, and inside no other job: its agent sees the same cards nevertheless."""
    own = {name: value for name, value in environment.items() if name != simulated_cards.VARIABLE}
    with Job(own, "--turns") as job:
        assert job.ask("begin(7)") == 0
        before = job.ask("values()")
        for verb in ("park", "resume"):
            words = [sys.executable, "-m", "gpuconf", verb, str(job.pid)]
            done = subprocess.run(words, env=own, capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, done.stderr
            assert states(own) == ["parked"] or verb == "resume"
        assert job.ask("values()") == before


def test_a_program_comes_back_whoever_was_killed(environment: dict[str, str]) -> None:
    with Job(environment, "--turns") as idle:
        assert idle.ask("begin(7)") == 0
        before = idle.ask("values()")
        program = idle.ask("os.getpid()")
        with Job(environment, "--turns") as other:
            assert other.ask("begin(9)") == 0
            (agent,) = agents(idle.pid)
            os.kill(agent, signal.SIGKILL)
            until(lambda: set(agents(idle.pid)) - {agent})
            os.kill(idle.pid, signal.SIGKILL)  # the command: its new agent goes on
            idle.say("values()")
            until(lambda: states(environment) == ["granted", "parked", "waiting"])
            other.end()
        assert idle.hear() == before
        os.kill(program, signal.SIGKILL)
    until(lambda: states(environment) == [])
    assert in_use(environment) == 0


def test_a_parked_program_that_is_killed_leaves_nothing(environment: dict[str, str]) -> None:
    with Job(environment, "--turns") as idle:
        assert idle.ask("begin(7)") == 0
        program = idle.ask("os.getpid()")
        with Job(environment) as other:
            assert other.ask("begin(9)") == 0
            os.kill(program, signal.SIGKILL)
            idle.process.wait(60)
            assert states(environment) == ["granted"]
            assert other.ask("values()")[0] == [9]


def test_a_program_without_turns_keeps_its_memory(environment: dict[str, str]) -> None:
    with Job(environment) as keeps:
        assert keeps.ask("begin(7)") == 0
        words = [sys.executable, "-m", "gpuconf", "run", "--memory", "250MiB", "--timeout", "15", "--turns", "true"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 124
        assert "was not available on 1 of 1 card within 15 s" in done.stderr
        assert states(environment) == ["granted"]


@pytest.mark.parametrize(
    ("listed", "in_use_after", "gone"),
    [(250, 0, False), (0, 900, True), (None, 900, False), (None, 760, False), (None, 650, True)],
)
def test_memory_is_gone_when_it_is_measured(listed: int | None, in_use_after: int, gone: bool) -> None:
    """Where NVML lists no processes, that others free a little is not taken for it."""
    agent = object.__new__(Agent)
    driver = SimpleNamespace(bytes_of=lambda _pid, _uuid: listed, memory=lambda _uuid: (0, in_use_after))
    agent._driver = driver  # type: ignore[assignment]
    before = {"GPU-a": ([None if listed is None else 250], 900)}
    assert agent._is_gone(Saved((1,), 250, ()), before) is gone


def test_a_program_that_cannot_be_parked_is_tried_ever_more_seldom() -> None:
    """Its calls wait while it is tried, but not where the host has no room."""
    agent = object.__new__(Agent)
    agent._again = 60.0
    agent._say = lambda *_: None  # type: ignore[method-assign]
    waits = []
    for why in ("its work did not end", "its work did not end", NO_ROOM, NO_ROOM, *7 * ["its work did not end"]):
        assert not agent._failed(why, 1)
        waits.append(round(agent._retry - time.monotonic()))
    assert waits == [60, 120, 240, 240, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_an_agent_that_always_ends_is_given_up(environment: dict[str, str]) -> None:
    with Job(environment, "--turns") as job:
        assert job.ask("begin(7)") == 0
        killed: set[int] = set()
        while len(killed) < 10:
            until(lambda: set(agents(job.pid)) - killed)
            for agent in set(agents(job.pid)) - killed:
                os.kill(agent, signal.SIGKILL)
                killed.add(agent)
        until(lambda: rows(environment)[0]["keeps"] == "turns are off: their agent has ended 10 times")
        time.sleep(2)
        assert not set(agents(job.pid)) - killed
        assert job.ask("values()")[0] == [7]
        assert "turns are off: their agent has ended 10 times" in job.end()


def test_a_notebook_says_in_the_cell_that_it_waits_and_goes_on(environment: dict[str, str], tmp_path: Path) -> None:
    """The real kernel, idle: its cell's output has the line before the other program has ended."""
    connection = tmp_path / "kernel.json"
    command = [sys.executable, "-m", "gpuconf", "run", "--memory", "250MiB", "--turns"]
    command += [sys.executable, "-m", "ipykernel_launcher", "-f", str(connection)]
    given = {name: value for name, value in environment.items() if name != "PYTEST_CURRENT_TEST"}
    with subprocess.Popen(command, env=given, stderr=subprocess.DEVNULL) as kernel:
        until(lambda: connection.exists() and connection.read_text())
        client = BlockingKernelClient(connection_file=str(connection))
        client.load_connection_file()
        client.start_channels()
        said: list[str] = []

        def shown(message: dict[str, dict[str, str]]) -> None:
            said.append(message["content"].get("text", ""))

        def cell(code: str) -> None:
            reply = client.execute_interactive(code, timeout=120, output_hook=shown, store_history=False)
            assert reply["content"]["status"] == "ok", reply

        try:
            client.wait_for_ready(60)
            cell(PROGRAM.partition("for line in")[0])
            cell("assert begin(7) == 0; before = values(); print(before[0])")
            assert "".join(said) == "[7]\n"
            with Job(environment, "--turns") as other:
                assert other.ask("begin(9)") == 0
                assert states(environment) == ["granted", "parked"]
                asked = client.execute("assert values() == before; print('the same')", store_history=False)
                while "waiting for 250.00MiB of the GPU: 1 of 1 in line" not in "".join(said):
                    shown(client.get_iopub_msg(timeout=60))
                assert "the same" not in "".join(said)
                other.end()
            reply = client.get_shell_msg(timeout=120)
            assert (reply["parent_header"]["msg_id"], reply["content"]["status"]) == (asked, "ok"), reply
        finally:
            client.shutdown()
            client.stop_channels()
        assert kernel.wait(60) == 0


WAITER = """
import sys, threading, time
from gpuconf.cli import lease
from gpuconf.jobs import cgroup, turns
from gpuconf.leases.ledger import Card, open_ledger
cards = [Card(sys.argv[1], 400 << 20, 250 << 20, charge=300 << 20)]
threading.Thread(target=lambda: open_ledger().claim(cards, timeout=60), daemon=True).start()
if sys.argv[2] == "0":
    turns.host_room = lease.host_room = lambda: cgroup.host_room()._replace(available=0, group=0)
while not (said := turns.outlook(open_ledger())) or (sys.argv[2] == "0" and "about" in said):
    time.sleep(0.1)  # until the agent has said what the program needs of the host
print(said)
lease._list(False)
"""


@pytest.mark.parametrize(
    ("options", "room", "says"),
    [
        ([], "1", r": not given way by PID {pid} \(.*: it does not take turns\)"),
        (["--turns"], "1", ", about "),
        (["--turns"], "0", r": not given way by PID {pid} \(.*: the host's memory has no room for it\)"),
    ],
    ids=["keeps", "turns", "no-room"],
)
def test_who_waits_sees_how_long_or_for_whom(
    environment: dict[str, str], options: list[str], room: str, says: str
) -> None:
    with Job(environment, *options) as job:
        assert job.ask("begin(7)") == 0
        (card,) = rows(environment)[0]["cards"]  # type: ignore[misc]
        words = [sys.executable, "-c", WAITER, card["uuid"], room]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=60)
        assert re.search(says.format(pid=job.pid), done.stdout)
        listed = f"\nPID {job.pid} keeps its memory: the host's memory has no room for it\n"
        assert (listed in done.stdout) == (room == "0")


@pytest.mark.parametrize(("option", "constant"), [("--slice", "LeastSlice"), ("--idle", "leastIdleTime")])
def test_the_least_that_an_option_takes_is_that_of_the_policy(option: str, constant: str) -> None:
    policy = (Path(__file__).parents[2] / "gocore/lease/turns/plan.go").read_text()
    (seconds,) = re.findall(rf"{constant} += (\d+) \* time\.Second", policy)
    assert parser._NUMBERS[option][1] == int(seconds)


@pytest.mark.parametrize(
    ("options", "variables", "said"),
    [
        (["--slice", "60", "true"], {}, "--slice needs --turns"),
        (["--turns", "--slice", "59", "true"], {}, "--slice must be a number of seconds, 60 or more, but got '59'"),
        (["--turns", "--idle", "9.9", "true"], {}, "--idle must be a number of seconds, 10 or more, but got '9.9'"),
        (["--turns", "true"], {"GPUCONF_SIMULATE": "A100-40GB:driver=12.4"}, "need driver 570 or newer"),
        (
            ["--turns", "true"],
            {"GPUCONF_SIMULATE": "A100-40GB:driver=13.0:mps"},
            "--turns: programs use the GPU through",
        ),
        (["--turns", "true"], {"GPUCONF_SIMULATE": "A100-40GB:driver=13.0:mig-container"}, "--turns: MIG is on"),
        (["--turns", "--guard", "off", "true"], {}, "--turns needs the guard"),
        (["--turns", "true"], {"GPUCONF_LEASE": "0" * 32, "GPUCONF_LIMIT": "300MiB"}, "inside another one"),
    ],
)
def test_turns_that_are_not_possible(
    environment: dict[str, str], options: list[str], variables: dict[str, str], said: str
) -> None:
    given = {**environment, **variables}
    if "GPUCONF_SIMULATE" in variables:
        del given[simulated_cards.VARIABLE]
    words = [sys.executable, "-m", "gpuconf", "run", "--memory", "250MiB", *options]
    done = subprocess.run(words, env=given, capture_output=True, text=True, check=False, timeout=60)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.returncode == (2 if said.startswith(("--slice", "--idle")) else 0)
