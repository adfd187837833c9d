"""``gpuconf run --memory MIN..MAX``: memory that is lent while no other program needs it, and is returned by the agent.
Real processes on a simulated card of 400 MiB; each lease takes 50 MiB more for its context.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from turning import Job, agents, in_use, one_card, rows, states, until

LENDS = "100MiB..300MiB"


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Of programs that share one card and one ledger."""
    with one_card(tmp_path) as shared:
        yield shared


def leased(environment: dict[str, str]) -> list[int]:
    """Return the MiB of each lease, by the order of requests."""
    return [row["cards"][0]["bytes"] >> 20 for row in rows(environment)]  # type: ignore[index]


def check(environment: dict[str, str]) -> None:
    words = [sys.executable, "-m", "gpuconf", "ledger", "check"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_nobody_uses_goes_to_its_owner_at_once(environment: dict[str, str]) -> None:
    with Job(environment, memory=LENDS) as borrower:
        until(lambda: leased(environment) == [300])
        assert borrower.ask("begin(7, 60)") == 0
        with Job(environment, memory="200MiB") as owner:
            assert owner.ask("begin(9, 140)") == 0
            assert leased(environment) == [100, 200]
            assert borrower.ask("values()")[0] == [7]  # it was not suspended
            assert borrower.ask("cu.cuMemAlloc_v2(byref(c_uint64()), c_size_t(60 << 20))") == 2  # out of memory
            owner.end()
        until(lambda: leased(environment) == [300])
        assert borrower.ask("cu.cuMemAlloc_v2(byref(c_uint64()), c_size_t(200 << 20))") == 0
        check(environment)


def test_a_program_that_uses_it_is_suspended_and_goes_on_later(environment: dict[str, str]) -> None:
    with Job(environment, memory=LENDS) as borrower:
        until(lambda: leased(environment) == [300])
        assert borrower.ask("begin(7, 250)") == 0
        before = borrower.ask("values()")
        begun = time.monotonic()
        with Job(environment, memory="200MiB") as owner:
            assert owner.ask("begin(9, 140)") == 0
            assert time.monotonic() - begun < 30
            assert leased(environment) == [100, 200]  # it keeps the lease of what it has for sure
            assert in_use(environment) >= 140 << 20
            borrower.say("values()")
            words = [sys.executable, "-m", "gpuconf", "lease", "--list"]
            done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
            assert "parked" in done.stdout
            check(environment)
            time.sleep(3)
            assert owner.ask("values()")[0] == [9]
            owner.end()
        assert borrower.hear() == before  # the same values at the same address
        until(lambda: leased(environment) == [300])
        assert "waiting until 150.00MiB of the GPU are lent again" in borrower.end()
    assert states(environment) == []


def test_who_kills_the_agent_changes_nothing(environment: dict[str, str]) -> None:
    with Job(environment, memory=LENDS) as borrower:
        until(lambda: leased(environment) == [300])
        assert borrower.ask("begin(7, 250)") == 0
        before = borrower.ask("values()")
        with Job(environment, memory="200MiB") as owner:
            assert owner.ask("begin(9, 140)") == 0
            (agent,) = agents(borrower.pid)
            os.kill(agent, signal.SIGKILL)
            until(lambda: set(agents(borrower.pid)) - {agent})
            borrower.say("values()")
            time.sleep(4)  # it would come back too early, and the card have no room
            assert owner.ask("values()")[0] == [9]
            check(environment)
            owner.end()
        assert borrower.hear() == before


POOL = """
import json, sys
import gpuconf
held = []
def hold(mib):
    held.append(gpuconf.memory.allocate(mib << 20, "GPU:0"))
def drop():
    held.clear()
    return gpuconf.memory.stats("GPU:0").bytes_reserved >> 20
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""


def test_idle_memory_of_pools_is_returned(environment: dict[str, str]) -> None:
    with Job(environment, memory=LENDS, code=POOL) as borrower:
        until(lambda: leased(environment) == [300])
        borrower.ask("hold(40)")
        borrower.ask("hold(200)")
        assert borrower.ask("held.pop() and None or drop()") > 150
        with Job(environment, memory="200MiB") as owner:
            assert owner.ask("begin(9, 140)") == 0
            assert borrower.ask("drop()") <= 100  # and it still answers: it was not suspended
            owner.end()


def test_two_borrowers_and_one_card(environment: dict[str, str]) -> None:
    with Job(environment, memory=LENDS) as first:
        until(lambda: leased(environment) == [300])
        with Job(environment, memory=LENDS) as second:
            until(lambda: sum(leased(environment)) == 300 and min(leased(environment)) == 100)
            assert [first.ask("begin(7, 90)"), second.ask("begin(8, 90)")] == [0, 0]
            check(environment)


@pytest.mark.parametrize(
    ("memory", "options", "code", "said"),
    [
        ("300MiB..100MiB", [], 2, "memory is MIN..MAX, but 300MiB is more than 100MiB"),
        ("100MiB..1GiB", [], 3, "1GiB can never be lent: a lease has at most 350.00MiB of a card"),
        ("100MiB..", [], 2, "memory is a size or MIN..MAX, but got '100MiB..'"),
        (LENDS, ["--turns"], 2, "--turns and --memory MIN..MAX exclude each other"),
        (LENDS, ["--no-growth"], 2, "--no-growth and --memory MIN..MAX exclude each other"),
        (LENDS, ["--guard", "off"], 0, "MIN..MAX needs the guard. The program runs with 100.00MiB"),
    ],
)
def test_what_cannot_be_lent(
    environment: dict[str, str], memory: str, options: list[str], code: int, said: str
) -> None:
    words = [sys.executable, "-m", "gpuconf", "run", "--memory", memory, *options, "true"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.returncode == code


LEASE = "import gpuconf; leased = gpuconf.lease('100MiB..300MiB'); leased.__enter__(); print(leased.memory >> 20)"


def test_a_program_leases_such_sizes_only_inside_a_job_that_has_them(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEASE], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert "start the program with gpuconf run --memory 100MiB..300MiB, or lease 100MiB" in said
    words = [sys.executable, "-m", "gpuconf", "run", "--memory", LENDS, sys.executable, "-c", LEASE]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "300\n"
