"""``gpuconf run --memory MIN..MAX``: memory that is lent while no other program needs it, and is returned by the agent.
Real processes on a simulated card of 400 MiB; each lease takes 50 MiB more for its context.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

import pytest
from gpuconf.jobs import simulated_cards
from gpuconf.jobs.budget import budgets
from turning import PROGRAM, Job, agents, in_use, rows, states, until

LENDS = "100MiB..300MiB"


def leased(environment: dict[str, str]) -> list[int]:
    """Return the MiB of each lease, by the order of requests."""
    return [row["cards"][0]["bytes"] >> 20 for row in rows(environment)]  # type: ignore[index]


def all_is_lent(environment: dict[str, str]) -> bool:
    """Whether a program has all that is lent: its lease has, and then its limit."""
    jobs = [row["id"] for row in rows(environment)]
    limits = [card.limit for budget in budgets() if budget.job in jobs for card in budget.usage().values()]
    return (leased(environment), limits) == ([300], [300 << 20])


def check(environment: dict[str, str]) -> None:
    words = [sys.executable, "-m", "gpuconf", "ledger", "check"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def has_answered(job: Job) -> bool:
    return bool(select.select([job.stdout], [], [], 0)[0])


def its_owner_gets_it_at_once(environment: dict[str, str], borrower: Job) -> None:
    assert borrower.ask("begin(7, 60)") == 0
    with Job(environment, memory="200MiB") as owner:
        assert owner.ask("begin(9, 140)") == 0
        assert leased(environment) == [100, 200]
        assert borrower.ask("values()")[0] == [7]  # it was not suspended
        assert borrower.ask("cu.cuMemAlloc_v2(byref(c_uint64()), c_size_t(60 << 20))") == 2  # out of memory
        owner.end()
    until(lambda: all_is_lent(environment))
    assert borrower.ask("cu.cuMemAlloc_v2(byref(c_uint64()), c_size_t(200 << 20))") == 0
    check(environment)


def test_what_nobody_uses_goes_to_its_owner_at_once(environment: dict[str, str]) -> None:
    with Job(environment, memory=LENDS) as borrower:
        until(lambda: all_is_lent(environment))
        its_owner_gets_it_at_once(environment, borrower)


def test_a_program_that_uses_it_is_suspended_and_goes_on_later(environment: dict[str, str]) -> None:
    with Job(environment, memory=LENDS) as borrower:
        until(lambda: all_is_lent(environment))
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
        until(lambda: all_is_lent(environment))
        assert "waiting until 150.00MiB of the GPU are lent again" in borrower.end()
    assert states(environment) == []


def test_who_kills_the_agent_changes_nothing(environment: dict[str, str]) -> None:
    with Job(environment, memory=LENDS) as borrower:
        until(lambda: all_is_lent(environment))
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
import ctypes, json, sys
import gpuconf
held = []
def hold(mib):
    held.append(gpuconf.memory.allocate(mib << 20, "GPU:0"))
def take(mib):
    cu, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert cu.cuInit(0) == cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == cu.cuCtxSetCurrent(context) == 0
    return cu.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(mib << 20))
def drop():
    held.clear()
    return gpuconf.memory.stats("GPU:0").bytes_reserved >> 20
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""


def test_idle_memory_of_pools_is_returned(environment: dict[str, str]) -> None:
    with Job(environment, memory=LENDS, code=POOL) as borrower:
        until(lambda: all_is_lent(environment))
        borrower.ask("hold(40)")
        borrower.ask("hold(200)")
        assert borrower.ask("held.pop() and None or drop()") > 150
        with Job(environment, memory="200MiB") as owner:
            assert owner.ask("begin(9, 140)") == 0
            assert borrower.ask("drop()") <= 100  # and it still answers: it was not suspended
            owner.end()


def test_a_limit_below_what_is_in_use_is_not_called_its_sum(environment: dict[str, str]) -> None:
    with Job(environment, memory=LENDS, code=POOL) as borrower:
        until(lambda: all_is_lent(environment))
        borrower.ask("hold(250)")
        with Job(environment, memory="200MiB") as owner:
            owner.say("begin(9, 140)")
            words = [sys.executable, "-m", "gpuconf", "ps"]

            def said() -> str:
                return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout

            until(lambda: "limit 100.00MiB < pools 250.00MiB + outside 0B + free 0B" in said(), 20)
            assert owner.hear() == 0
            owner.end()


@pytest.mark.parametrize("itself", [False, True])
def test_a_program_that_has_only_pools_is_suspended(environment: dict[str, str], itself: bool) -> None:
    with (Leasing if itself else Job)(environment, memory=LENDS, code=POOL) as borrower:
        until(lambda: all_is_lent(environment))
        borrower.ask("hold(250)")
        with Job(environment, memory="200MiB") as owner:
            assert owner.ask("begin(9, 140)") == 0
            borrower.say("hold(20)")
            time.sleep(2)
            (agent,) = agents(borrower.pid)
            os.kill(agent, signal.SIGKILL)
            until(lambda: set(agents(borrower.pid)) - {agent})
            assert owner.ask("values()")[0] == [9]
            owner.end()
        assert borrower.hear() is None
        until(lambda: all_is_lent(environment))


@pytest.mark.parametrize(
    ("itself", "ends"), [(False, "gpuconf.reset()"), (True, "gpuconf.reset()"), (True, "made.release()")]
)
def test_a_suspended_program_that_ends_its_use_goes_on(environment: dict[str, str], itself: bool, ends: str) -> None:
    with (Leasing if itself else Job)(environment, memory=LENDS, code=POOL) as borrower:
        until(lambda: all_is_lent(environment))
        borrower.ask("hold(250)")
        with Job(environment, memory="200MiB") as owner:
            assert owner.ask("begin(9, 140)") == 0
            borrower.say(f"held.clear() or {ends}")
            time.sleep(2)
            assert owner.ask("values()")[0] == [9]
            owner.end()
        # It asks the driver about its streams first, which has to wait at the gate: the agent sees nothing else.
        try:
            until(lambda: has_answered(borrower), 20)
        except AssertionError:  # or it would never end
            subprocess.run([sys.executable, "-m", "gpuconf", "resume", str(borrower.pid)], env=environment, check=False)
            raise
        assert borrower.hear() is None
        borrower.end()
    until(lambda: states(environment) == [], 10)


def test_a_program_whose_cards_the_environment_simulates_is_suspended(environment: dict[str, str]) -> None:
    own = {name: value for name, value in environment.items() if name != simulated_cards.VARIABLE}
    with Job(own, memory=LENDS) as borrower:
        until(lambda: all_is_lent(own))
        assert borrower.ask("begin(7, 250)") == 0
        before = borrower.ask("values()")
        with Job(own, "--timeout", "20", memory="200MiB") as owner:
            assert owner.ask("begin(9, 140)") == 0
            assert leased(own) == [100, 200]
            borrower.say("values()")
            time.sleep(2)
            assert not has_answered(borrower)
            owner.end()
        assert borrower.hear() == before


def test_two_borrowers_and_one_card(environment: dict[str, str]) -> None:
    with Job(environment, memory=LENDS) as first:
        until(lambda: all_is_lent(environment))
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


def test_the_report_has_the_range_of_the_limit(environment: dict[str, str]) -> None:
    code = "import gpuconf; gpuconf.memory.allocate('50MiB').free()"
    words = [sys.executable, "-m", "gpuconf", "run", "--memory", LENDS, "--report", sys.executable, "-c", code]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert "peak gpuconf 50.00MiB of 100.00MiB..300.00MiB" in done.stderr


LEASE = "import gpuconf; leased = gpuconf.lease('100MiB..300MiB'); leased.__enter__(); print(leased.memory >> 20)"


def test_a_part_of_a_job_that_has_such_sizes(environment: dict[str, str]) -> None:
    words = [sys.executable, "-m", "gpuconf", "run", "--memory", LENDS, sys.executable, "-c", LEASE]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "300\n"


# gpuconf.lease("MIN..MAX") in a program that nothing has prepared

ITSELF = f"""
import gpuconf
made = gpuconf.lease("{LENDS}", name="itself")
made.__enter__()
def again():
    global made
    made.release()
    assert made.gpus == []
    made = gpuconf.lease("{LENDS}", name="again")
    return made.__enter__().memory >> 20
"""


class Leasing(Job):
    """A program that leases itself."""

    def __init__(self, environment: dict[str, str], memory: str = LENDS, code: str = PROGRAM) -> None:
        assert memory == LENDS
        super().__init__(environment, code=ITSELF + code, command=[sys.executable])


@pytest.mark.parametrize("prepared", [True, False])
def test_a_program_leases_for_itself(environment: dict[str, str], prepared: bool) -> None:
    of_a_job = () if prepared else ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")
    own = {name: value for name, value in environment.items() if name not in of_a_job}
    with Leasing(own) as borrower:
        until(lambda: all_is_lent(environment))
        assert agents(borrower.pid)
        its_owner_gets_it_at_once(environment, borrower)
        assert borrower.end() == ""
    until(lambda: states(environment) == [], 10)


def test_a_program_that_leases_for_itself_is_suspended_and_goes_on(environment: dict[str, str]) -> None:
    with Leasing(environment) as borrower:
        until(lambda: all_is_lent(environment))
        assert borrower.ask("begin(7, 250)") == 0
        before = borrower.ask("values()")
        with Job(environment, memory="200MiB") as owner:
            assert owner.ask("begin(9, 140)") == 0
            assert leased(environment) == [100, 200]
            (agent,) = agents(borrower.pid)
            os.kill(agent, signal.SIGKILL)
            until(lambda: set(agents(borrower.pid)) - {agent})
            borrower.say("values()")
            time.sleep(3)
            assert owner.ask("values()")[0] == [9]
            check(environment)
            owner.end()
        assert borrower.hear() == before
        until(lambda: all_is_lent(environment))
        assert "gpuconf: waiting until 150.00MiB of the GPU are lent again" in borrower.end()
    until(lambda: states(environment) == [], 10)


def test_pools_of_a_program_that_leases_for_itself(environment: dict[str, str]) -> None:
    with Leasing(environment, code=POOL) as borrower:
        until(lambda: all_is_lent(environment))
        borrower.ask("hold(40)")
        borrower.ask("hold(200)")
        assert borrower.ask("held.pop() and None or drop()") > 150
        with Job(environment, memory="200MiB") as owner:
            assert owner.ask("begin(9, 140)") == 0
            assert borrower.ask("drop()") <= 100
            owner.end()
        (agent,) = agents(borrower.pid)
        assert borrower.ask("again()") == 300
        until(lambda: all_is_lent(environment))
        assert agents(borrower.pid) != [agent]
        assert borrower.ask("hold(200)") is None
        held = "__import__('os').path.exists(__import__('os').environ['GPUCONF_GUARD'])"
        assert borrower.ask(held)
        assert borrower.ask("held.clear() or made.release()") is None
        until(lambda: states(environment) == [] and agents(borrower.pid) == [], 10)
        assert borrower.ask("take(330)") == 0  # it has no limit any more


def test_a_program_that_ends_ends_its_lease(environment: dict[str, str]) -> None:
    with Leasing(environment) as borrower:
        until(lambda: all_is_lent(environment))
        assert borrower.ask("begin(7, 250)") == 0
        with Job(environment, memory="200MiB") as owner:
            assert owner.ask("begin(9, 140)") == 0  # and the other one is suspended
            borrower.kill()
            until(lambda: leased(environment) == [200] and agents(borrower.pid) == [], 20)


def test_a_fork_does_not_keep_the_lease(environment: dict[str, str]) -> None:
    with Leasing(environment) as borrower:
        until(lambda: all_is_lent(environment))
        child = borrower.ask("os.fork() or (os.close(1), os.close(2), __import__('time').sleep(600))")
        try:
            borrower.kill()
            until(lambda: states(environment) == [], 20)
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("import ctypes; ctypes.CDLL('libcuda.so.1')", "was called too late: this process has loaded the CUDA driver"),
        ("gpuconf.config.list_logical_devices('GPU')", "was called too late: this process has loaded the CUDA driver"),
    ],
)
def test_a_lease_of_such_sizes_that_comes_too_late(environment: dict[str, str], before: str, said: str) -> None:
    words = [sys.executable, "-c", f"import gpuconf\n{before}\n{LEASE}"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
    assert states(environment) == []


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"GPUCONF_DISABLE": "1"}, "memory MIN..MAX needs the guard, which GPUCONF_DISABLE turns off"),
        (
            {"GPUCONF_SIMULATE": "A100-40GB", "GPUCONF_SIMULATED_CARDS": ""},
            "memory MIN..MAX: the driver has no process checkpoints: they need driver 570 or newer; a simulated one is "
            "by :driver=13.0 after the model",
        ),
    ],
)
def test_a_program_to_which_nothing_can_be_lent_has_the_least(
    environment: dict[str, str], variables: dict[str, str], said: str
) -> None:
    words = [sys.executable, "-c", LEASE]
    done = subprocess.run(words, env=environment | variables, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "100\n"
    assert done.stderr == f"gpuconf.lease: {said}. The lease has 100MiB\n"
