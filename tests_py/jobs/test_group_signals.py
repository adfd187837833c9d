"""Each signal reaches a program under ``gpuconf run`` as often as without it, also if it is sent to the group."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import COMMAND
from script import environment, run_well, start_in_a_terminal

RUN = (COMMAND, "run", "--memory=1GiB", "--")
COUNT = """
import signal, sys
signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP, signal.SIGCONT}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
print("ready", flush=True)
while True:
    taken = signal.sigwaitinfo(signals)
    if taken.si_signo == signal.SIGUSR2:
        break
    print(signal.Signals(taken.si_signo).name, flush=True)
"""
LONG_ENOUGH = 0.5  # seconds after which no signal comes any more


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCONF_LEDGER", str(tmp_path / "ledger"))


def variables() -> dict[str, str]:
    return environment({"GPUCONF_LEDGER": os.environ["GPUCONF_LEDGER"], "GPUCONF_SIMULATE": "T4"})


class Counting:
    """A program that prints each signal, under ``gpuconf run`` or bare, in a process group of its own."""

    def __init__(self, *before: str, code: str = COUNT) -> None:
        words = [*before, sys.executable, "-c", code]
        self.process = subprocess.Popen(
            words, env=variables(), stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        time.sleep(0.1)

    def group(self) -> list[int]:
        """The processes of its group, the command first."""
        found = set()
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    if os.getpgid(int(name)) == self.process.pid:
                        found.add(int(name))
                except ProcessLookupError:
                    pass
        return sorted(found, key=lambda pid: (pid != self.process.pid, pid))

    def witness(self) -> int:
        """The process of the group that only blocks signals, once it has its name: the program does not wait for it."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for pid in self.group():
                if Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0") == b"signal-witness":
                    return pid
            time.sleep(0.01)
        raise AssertionError("no process of the group is the witness")

    def next(self) -> str:
        """Wait for a signal."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], 20)[0]
        return self.process.stdout.readline().strip()

    def end(self) -> list[str]:
        """End the program and return the signals that it got since ``next``."""
        time.sleep(LONG_ENOUGH)
        self.process.send_signal(signal.SIGUSR2)
        assert self.process.stdout is not None
        found = self.process.stdout.read().split()
        assert self.process.wait(20) == 0
        return found


@pytest.fixture
def started() -> Iterator[list[Counting]]:
    """Programs that are killed at the end, if they live."""
    programs: list[Counting] = []
    yield programs
    for program in programs:
        for pid in program.group():
            os.kill(pid, signal.SIGKILL)
        program.process.communicate()


@pytest.fixture
def under_run(started: list[Counting]) -> Counting:
    started.append(Counting(*RUN))
    return started[0]


@pytest.fixture(params=[RUN, ()], ids=["run", "bare"])
def counting(request: pytest.FixtureRequest, started: list[Counting]) -> Counting:
    started.append(Counting(*request.param))
    return started[0]


def test_one_to_the_command(counting: Counting) -> None:
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
        counting.process.send_signal(number)
        assert counting.next() == number.name
    assert counting.end() == []


def test_one_to_the_group(counting: Counting) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        os.killpg(counting.process.pid, number)
        assert counting.next() == number.name
    time.sleep(LONG_ENOUGH)
    os.killpg(counting.process.pid, signal.SIGTERM)
    assert counting.end() == ["SIGTERM"]


# As where the witness answers late, on a busy machine: each signal is due as soon as it is taken.
AT_ONCE = "import runpy, gpuconf.jobs.supervise as it; it._MOMENT = 0; runpy.run_module('gpuconf', run_name='__main__')"


# As where it is slow at the start.
SLOW = """
import runpy, time
import gpuconf.jobs.supervise as it
answers, calls = it.Witness.taken, []
def taken(witness):
    calls.append(len(calls) < 2 and time.sleep(0.4))
    return answers(witness)
it.Witness.taken = taken
runpy.run_module("gpuconf", run_name="__main__")
"""


@pytest.mark.parametrize(
    "before",
    [(), RUN, (sys.executable, "-c", AT_ONCE, *RUN[1:]), (sys.executable, "-c", SLOW, *RUN[1:])],
    ids=["bare", "run", "at once", "slow"],
)
def test_a_thousand_real_time_signals_to_the_group(started: list[Counting], before: tuple[str, ...]) -> None:
    """They do not merge, and the program's own to its group are not the command's end."""
    number = signal.SIGRTMAX
    code = COUNT.replace("signals = {", "signals = {signal.SIGRTMAX, ")
    started.append(Counting(*before, code=code))
    for _ in range(1000):
        os.killpg(started[0].process.pid, number)
    output = started[0].process.stdout
    assert output is not None
    assert [output.readline() for _ in range(1000)] == ["SIGRTMAX\n"] * 1000
    assert started[0].end() == []


@pytest.mark.parametrize("order", [1, -1])
def test_one_to_each_process_as_systemd_does(counting: Counting, order: int) -> None:
    for pid in counting.group()[::order]:
        os.kill(pid, signal.SIGTERM)
        time.sleep(0.002)
    assert counting.end() == ["SIGTERM"]


def test_one_to_the_group_and_one_to_the_command(counting: Counting) -> None:
    """A signal that still waits in a process is not sent to it a second time, so there is time between them."""
    for _ in range(2):
        os.killpg(counting.process.pid, signal.SIGTERM)
        assert counting.next() == "SIGTERM"
        time.sleep(LONG_ENOUGH)
        counting.process.send_signal(signal.SIGTERM)
        assert counting.next() == "SIGTERM"
    assert counting.end() == []


def test_a_program_that_left_the_group_still_gets_it(started: list[Counting]) -> None:
    started.append(Counting(*RUN, code="import os; os.setpgid(0, 0)\n" + COUNT))
    os.killpg(started[0].process.pid, signal.SIGTERM)
    assert started[0].next() == "SIGTERM"
    assert started[0].end() == []


def test_one_to_a_stopped_group(under_run: Counting) -> None:
    group = under_run.process.pid
    os.killpg(group, signal.SIGSTOP)
    os.waitpid(group, os.WUNTRACED)
    os.killpg(group, signal.SIGTERM)
    time.sleep(0.2)
    os.killpg(group, signal.SIGCONT)
    assert sorted(under_run.end()) == ["SIGCONT", "SIGTERM"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_signals_arrive_without_the_witness(under_run: Counting, number: signal.Signals) -> None:
    """It ends, or does not answer any more."""
    witness = under_run.witness()
    assert Path(f"/proc/{witness}/cmdline").read_bytes().rstrip(b"\0") == b"signal-witness"
    os.kill(witness, number)
    under_run.process.send_signal(signal.SIGTERM)
    assert under_run.next() == "SIGTERM"
    assert under_run.end() == []
    assert not Path(f"/proc/{witness}").exists()


def test_a_witness_that_is_slow_is_waited_for() -> None:
    """On a busy machine it was taken for a stopped one, and a signal to the group reached the program twice."""
    program = """
    import os, time
    from gpuconf.jobs import supervise
    def slow(asked, answers):
        os.read(asked, 1), time.sleep(2.5), os.write(answers, b"15:42\\n."), os._exit(0)
    supervise._witness = slow
    print(supervise.Witness().taken())
    """
    assert run_well(program) == "[(15, 42)]\n"


def test_a_witness_that_does_not_answer_is_given_up() -> None:
    program = """
    import time
    from gpuconf.jobs import supervise
    supervise._PATIENCE_MS, supervise._LOOKS = 20, 3
    supervise._witness = lambda asked, answers: time.sleep(60)
    begin = time.monotonic()
    silent = supervise.Witness()
    print(silent.taken(), silent.taken(), time.monotonic() - begin < 20)
    """
    assert run_well(program) == "[] [] True\n"


def test_the_witness_ends_with_the_command(under_run: Counting) -> None:
    witness = under_run.witness()
    assert len(os.listdir(f"/proc/{witness}/fd")) == 2  # it holds no file of the program
    under_run.process.kill()
    under_run.process.wait(20)
    deadline = time.monotonic() + 20
    while witness in under_run.group():
        assert time.monotonic() < deadline, "the witness goes on"
        time.sleep(0.01)


def test_the_witness_is_not_reported_as_a_python_without_a_limit(started: list[Counting]) -> None:
    """A Python that lives for three seconds and did not run the startup code is."""
    done = subprocess.run(
        [*RUN, "sleep", "4"],
        env=variables(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        start_new_session=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("before", [(), RUN], ids=["bare", "run"])
def test_ctrl_c_and_a_resized_terminal(before: tuple[str, ...]) -> None:
    words = [*before, sys.executable, "-c", COUNT.replace("signal.SIGCONT}", "signal.SIGWINCH}")]
    pid, terminal = start_in_a_terminal(words, variables())

    def read_until(text: bytes) -> bytes:
        seen = b""
        while text not in seen:
            assert select.select([terminal], [], [], 30)[0], seen
            seen += os.read(terminal, 4096)
        return seen

    read_until(b"ready\r\n")
    time.sleep(0.1)
    os.write(terminal, b"\x03")
    read_until(b"SIGINT\r\n")
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    time.sleep(0.1)
    os.kill(-pid, signal.SIGINT)
    time.sleep(0.1)
    os.kill(pid, signal.SIGINT)
    time.sleep(LONG_ENOUGH)
    os.kill(pid, signal.SIGUSR2)
    seen = b""
    try:
        while more := os.read(terminal, 4096):
            seen += more
    except OSError:  # it has ended
        pass
    os.close(terminal)
    assert seen.replace(b"^C", b"").split() == [b"SIGWINCH", b"SIGINT", b"SIGINT"]
    assert os.waitpid(pid, 0)[1] == 0
