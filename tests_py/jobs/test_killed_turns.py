"""A program that is parked and comes back, while its agent, the command or itself is killed before each step
of that, or a call of the driver fails in each way: the others are served, the ledger is sound, and the program runs on
or says what helps.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from turning import PAIR, PROGRAM, Job, agents, in_use, one_card, rows, states, until

ALL = bool(os.environ.get("TURN_FAULTS"))  # make soak WHAT=faults: all kills and codes, so many at a time
AT_A_TIME = int(os.environ.get("TURN_FAULTS") or 2)
FAILURES = {  # what the driver's header lists for each call, and what was seen
    "Lock": (1, 3, 304, 401, 600, 801),
    "Checkpoint": (1, 2, 3, 304, 401, 801),
    "Restore": (1, 2, 3, 304, 401, 801),
    "Unlock": (1, 3, 304, 401, 801),
    "GetState": (1, 3, 304, 801),
    "Lock+GetState": (3,),  # a program of which the driver knows nothing
    "GetRestoreThreadId": (),  # it is not called
}
STUCK = "its memory could not be brought back (cuCheckpointProcess"


def gpuconf(environment: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuconf", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)


def sound(environment: dict[str, str]) -> None:
    done = gpuconf(environment, "ledger", "check")
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def swapping(folder: Path, steps: str, pair: bool = False) -> Iterator[tuple[dict[str, str], Job, int, list[object]]]:
    """A program, its PID and its values, whose agent keeps to the steps, ready to be parked. A pair is two processes,
    and the PID that of the first.
    """
    folder.mkdir()
    with one_card(folder) as environment:
        given = f"file={folder / 'steps'}" + (f",{steps}" if steps else "")
        words, memory, code = (["--contexts", "2"], "200MiB", PAIR) if pair else ([], "250MiB", PROGRAM)
        with Job(environment, "--turns", "--name", "mine", *words, memory=memory, code=code, steps=given) as job:
            assert job.ask("begin(7, 80)" if pair else "begin(7)") in (0, [0, 0])
            values, pids = job.ask("values()"), job.ask("os.getpid()")
            pids = pids if pair else [pids]
            until(lambda: agents(job.pid))
            try:
                yield environment, job, pids[0], values
            finally:
                for program in pids:
                    with suppress(ProcessLookupError):
                        os.kill(program, signal.SIGKILL)
        until(lambda: states(environment) == [], 90)
        assert in_use(environment) == 0


def failures(function: str, rows_of_words: list[tuple[object, ...]], folder: Path) -> dict[tuple[object, ...], str]:
    """Call a function of this file with a folder and each row of words, each in a process of its own, some at a time.

    Return what went wrong, by row.
    """

    def alone(number: int, words: tuple[object, ...]) -> str:
        folders = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
        code = f"import sys; sys.path[:0] = {folders}; from pathlib import Path; import test_killed_turns as tests; "
        code += f"tests.{function}(Path({str(folder / str(number))!r}), *{words!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
        return done.stderr[-1000:] if done.returncode else ""

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        said = dict(zip(rows_of_words, pool.map(alone, range(len(rows_of_words)), rows_of_words), strict=True))
    return {words: text for words, text in said.items() if text}


def others_are_served(environment: dict[str, str]) -> None:
    """Another program has what the first one leaves: 100 MiB, of which 50 are for its context."""
    with Job(environment, memory="40MiB") as other:
        assert other.ask("begin(9, 30)") == 0
        assert other.ask("values()")[0] == [9]
        sound(environment)
        other.end()


def go_on(environment: dict[str, str], job: Job, values: list[object]) -> None:
    """Wait until the program has its turn again; by hand, as often as it takes."""
    job.say("values()")
    end = time.monotonic() + 120
    while "goes on" not in (said := gpuconf(environment, "resume", "mine")).stdout:
        assert time.monotonic() < end, said.stdout + said.stderr
        time.sleep(0.5)
    assert job.hear() == values


def killed(folder: Path, number: int, victim: str, pair: bool = False) -> None:
    with swapping(folder, f"number={number},victim={victim}", pair) as (environment, job, program, values):
        gpuconf(environment, "park", "mine")
        lives = Path(f"/proc/{program}/stat")
        resumed = gpuconf(environment, "resume", "mine")
        if victim == "target":
            until(lambda: not lives.exists() or ") Z" in lives.read_text())
            until(lambda: states(environment) == [], 90)
            others_are_served(environment)
            return
        others_are_served(environment)
        if "goes on" not in resumed.stdout or states(environment) != ["granted"]:
            go_on(environment, job, values)
        else:
            assert job.ask("values()") == values
        sound(environment)
        assert (folder / "steps").read_text().count("\n") > number  # it came so far


def steps_of(folder: Path, pair: bool = False) -> list[str]:
    """Return the steps of an agent that parks a program and lets it go on."""
    with swapping(folder, "", pair) as (environment, job, _, values):
        assert "in the host's memory" in gpuconf(environment, "park", "mine").stdout
        assert "goes on" in gpuconf(environment, "resume", "mine").stdout
        assert job.ask("values()") == values
        return (folder / "steps").read_text().split()


def test_who_is_killed_before_a_step_keeps_nobody_waiting(tmp_path: Path) -> None:
    steps = steps_of(tmp_path / "all")
    assert len(steps) >= 10, steps
    assert {"Claim.reserve", "Gate.close", "Driver.checkpoint", "Claim.park", "Claim.return_to", "Gate.open"} <= {
        *steps
    }
    victims = ("agent", "command", "target")
    runs = [(number, victim) for number in range(len(steps)) for victim in victims]
    third = [(number, victims[number // 3 % 3]) for number in range(1, len(steps), 3)]
    assert not failures("killed", runs if ALL else third, tmp_path)


def test_an_agent_that_is_killed_between_two_processes_leaves_none_behind(tmp_path: Path) -> None:
    steps = steps_of(tmp_path / "all", pair=True)
    calls = [step for step in steps if step.startswith("Driver.")]
    assert calls == [f"Driver.{name}" for name in ("lock", "checkpoint", "restore", "unlock") for _ in range(2)]
    between = [number for number, step in enumerate(steps) if number and step == steps[number - 1]]
    runs = [(number, "agent", True) for number in (range(len(steps)) if ALL else between)]
    assert not failures("killed", runs, tmp_path)


def fails(folder: Path, call: str, code: int, late: int, first: int = 0) -> None:
    """``first`` is the call that fails first: for 1, that of the second process."""
    steps = f"call={call},code={code},late={late},first={first}"
    with swapping(folder, steps, pair=first > 0) as (environment, job, _, values):
        parked = gpuconf(environment, "park", "mine")
        resumed = gpuconf(environment, "resume", "mine")
        keeps = rows(environment)[0]["keeps"]
        if call.startswith(("Lock", "Checkpoint")):
            assert parked.returncode == 3
            assert f"keeps its memory: cuCheckpointProcess{call.partition('+')[0]}: " in parked.stderr
            assert job.ask("values()") == values
        else:
            assert STUCK in str(keeps) + resumed.stderr, (keeps, parked, resumed)
            job.say("values()")  # and gets no answer
        others_are_served(environment)
        sound(environment)


def test_a_call_that_fails_leaves_the_program_running_or_stuck(tmp_path: Path) -> None:
    runs = [(call, code, late) for call, codes in FAILURES.items() for code in codes for late in (0, 1)[: len(codes)]]
    first = [
        (call, codes[0], number % len(codes[:2])) for number, (call, codes) in enumerate(FAILURES.items()) if codes
    ]
    second = [(call, 801, 0, 1) for call in ("Lock", "Checkpoint")]
    assert not failures("fails", (runs if ALL else first) + second, tmp_path)


def test_nothing_is_parked_if_the_host_is_short_of_a_mebibyte(tmp_path: Path) -> None:
    with swapping(tmp_path / "short", "short=1") as (environment, job, _, values):
        said = gpuconf(environment, "park", "mine")
        assert f"PID {job.pid} keeps its memory: the host's memory has no room for it" in said.stderr
        assert (tmp_path / "short" / "steps").read_text().split() == ["Claim.reserve"]
        assert states(environment) == ["granted"]
        assert job.ask("values()") == values
