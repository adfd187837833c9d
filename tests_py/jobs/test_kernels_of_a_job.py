"""The kernels of one server under ``gpuconf run --turns``: they start, stop and end while the job is parked. Real
processes on a simulated card that all of them share.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpuconf.jobs.agent import Agent, DriverError, Saved
from turning import SERVER, Job, agents, in_use, rows, states, until


def gpuconf(environment: dict[str, str], *words: object) -> str:
    command = [sys.executable, "-m", "gpuconf", *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout + done.stderr


@contextmanager
def server(environment: dict[str, str], kernels: int, steps: str = "") -> Iterator[tuple[Job, list[int]]]:
    """A server whose kernels have 60 MiB each, and their PIDs. It ends with the block."""
    with Job(environment, "--turns", "--contexts", "2", memory="200MiB", code=SERVER, steps=steps) as job:
        pids = [job.ask("start()") for _ in range(kernels)]
        for number in range(kernels):
            assert job.ask(f"ask({number}, 'begin({number}, 60)')") == 0
        program = job.ask("__import__('os').getpid()")
        until(lambda: agents(job.pid))
        try:
            yield job, pids
        finally:
            for pid in (program, *pids):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    until(lambda: states(environment) == [])


def park_and_kill(environment: dict[str, str], job: Job) -> None:
    """Park a job, and kill its agent and its command."""
    assert "are in the host's memory" in gpuconf(environment, "park", job.pid)
    (agent,) = agents(job.pid)
    for pid in (job.pid, agent):
        os.kill(pid, signal.SIGKILL)


def a_new_kernel_waits_for_its_turn(environment: dict[str, str], job: Job) -> None:
    job.ask("start()")
    job.ask("say(1, 'begin(8, 60)')")
    time.sleep(2)
    assert states(environment) == ["parked"]
    assert in_use(environment) == 0


def test_the_agent_stays_while_no_kernel_does(environment: dict[str, str]) -> None:
    """Else the gate of a parked job is open, and the next kernel uses a card that is not leased."""
    with server(environment, 1) as (job, (kernel,)):
        park_and_kill(environment, job)
        assert "it has another one" in gpuconf(environment, "resume", kernel)
        gpuconf(environment, "park", kernel)
        job.ask("end(0)")
        time.sleep(2.5)  # the agent looks each second
        a_new_kernel_waits_for_its_turn(environment, job)
        assert f"PID {job.pid} goes on" in gpuconf(environment, "resume", job.pid)
        assert job.ask("hear(1)") == 0
        assert states(environment) == ["granted"]


def test_a_job_without_a_kernel_is_resumed(environment: dict[str, str]) -> None:
    with server(environment, 1) as (job, _):
        park_and_kill(environment, job)
        job.ask("end(0)")
        a_new_kernel_waits_for_its_turn(environment, job)
        assert "goes on. Its agent had ended: it has another one" in gpuconf(environment, "resume", job.pid)
        assert job.ask("hear(1)") == 0
        assert states(environment) == ["granted"]


def test_while_a_kernel_is_stopped_others_use_the_card(environment: dict[str, str]) -> None:
    """The driver would wait for it, and the agent for the driver, with the lease."""
    with server(environment, 2) as (job, (stopped, _)):
        with Job(environment, memory="250MiB") as other:
            assert other.ask("begin(9)") == 0
            job.ask("say(1, 'values()')")
            until(lambda: states(environment) == ["granted", "parked", "waiting"])
            os.kill(stopped, signal.SIGSTOP)
            until(lambda: states(environment) == ["granted", "parked"])
            other.end()
        try:
            said = gpuconf(environment, "resume", job.pid)
            assert f"PID {job.pid} goes on when PID {stopped} does, which is stopped: kill -CONT {stopped}" in said
            with Job(environment, memory="250MiB") as other:
                assert other.ask("begin(9)") == 0
                other.end()
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert job.ask("hear(1)")[0] == [1]
        assert job.ask("ask(0, 'values()')")[0] == [0]


def test_a_job_goes_on_after_the_kernel_that_is_stuck_has_ended(environment: dict[str, str]) -> None:
    steps = f"file={Path(environment['GPUCONF_LEDGER']).parent / 'steps'},call=Restore,code=2,late=0,first=1"
    with server(environment, 2, steps) as (job, pids):
        gpuconf(environment, "park", job.pid)
        for number in range(2):
            job.ask(f"say({number}, 'values()')")
        assert "its memory could not be brought back" in gpuconf(environment, "resume", job.pid)
        stuck = pids.index(max(pids))
        job.ask(f"end({stuck})")
        assert job.ask(f"hear({1 - stuck})")[0] == [1 - stuck]
        until(lambda: rows(environment)[0]["keeps"] == "")
        assert f"only ending PID {max(pids)} helps" in job.end()


@pytest.mark.parametrize("lives", [False, True])
def test_a_process_that_ends_while_the_job_is_suspended_does_not_hinder(lives: bool) -> None:
    agent = object.__new__(Agent)
    with subprocess.Popen(["sleep", "60" if lives else "0"]) as process:
        if not lives:
            process.wait()

        def refuse(pid: int) -> None:
            if pid == process.pid:
                raise DriverError("cuCheckpointProcessLock", 3)

        agent._driver = SimpleNamespace(  # type: ignore[assignment]
            lock=refuse, checkpoint=refuse, bytes_of=lambda *_: 0, memory=lambda _: (0, 0)
        )
        try:
            agent._suspend(Saved((process.pid, os.getpid()), 1, ()), [])
            refused = False
        except DriverError:
            refused = True
        process.kill()
    assert refused is lives
