"""Programs that take turns on one simulated card, while they are parked, resumed, stopped, continued, and lose their
agents and commands at random: ``turns_soak.py --seconds 60 --seed 1``.

Each request is thousands of random calls of the driver: blocks are allocated, some beyond the limit, set, copied and
freed. After it, what the guard counts, what the driver counts and what the program knows to have agree. At the end each
has answered all that it was asked, with its own values at their address, and the ledger is sound.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from turning import PROGRAM, Job, agents, in_use, one_card, states, until

JOBS = 4
CALLS = 20_000  # of the driver, or a few more, in one request
WORK = """
import random
nvml, blocks, start = ctypes.CDLL("libnvidia-ml.so.1"), {}, []
class Used(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", c_uint64), ("instance", c_uint32), ("part", c_uint32)]
def figures():
    free, total, card, rows, many = c_size_t(), c_size_t(), c_void_p(), (Used * 64)(), ctypes.c_uint(64)
    assert cu.cuMemGetInfo_v2(byref(free), byref(total)) == 0
    assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(card)) == 0
    assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(card, byref(many), rows) == 0
    (driver,) = [row.used for row in rows[: many.value] if row.pid == os.getpid()]
    return total.value - free.value, driver
def step(draw):
    kind, address, word = draw.random(), c_uint64(), c_uint32()
    if not blocks or kind < 0.3:
        size, value = draw.randint(1, 8) << 21, draw.getrandbits(32)
        result = cu.cuMemAlloc_v2(byref(address), c_size_t(size))
        assert result == (2 if 4 * count + sum(n for n, _ in blocks.values()) + size > room else 0), result
        if result == 0:
            blocks[address.value] = size, value
            assert cu.cuMemsetD32_v2(address, value, c_size_t(4)) == 0
        return
    block = draw.choice(list(blocks))
    assert cu.cuMemcpyDtoH_v2(byref(word), c_uint64(block + 12), c_size_t(4)) == 0 and word.value == blocks[block][1]
    if kind < 0.6:
        assert cu.cuMemFree_v2(c_uint64(block)) == 0
        del blocks[block]
def work(seed, calls):
    global room
    if not start:
        start.extend(figures())
        room = 250 << 20  # of the lease
    draw = random.Random(seed)
    for _ in range(calls):
        step(draw)
    own = sum(size for size, _ in blocks.values())
    assert figures() == (start[0] + own, start[1] + own), (figures(), start, own)
    return values()
"""
AGENTS = 5  # that each may lose: ten that do not last for a minute end its turns

CODE = PROGRAM.replace("for line in", f"{WORK}\nfor line in")


class Program:
    """One of the programs, and what it still has to answer."""

    def __init__(self, environment: dict[str, str], job: Job, number: int) -> None:
        self.environment, self.job, self.number = environment, job, number
        assert job.ask(f"begin({number}, 200)") == 0
        self.pid, self.values = job.ask("os.getpid()"), job.ask("values()")
        assert self.values[0] == [number]
        self.asked, self.calls, self.agents, self.said = 0, 0, AGENTS, b""
        self.has_command = True

    def command(self, word: str) -> None:
        """Park or resume it; whether that is possible now is not the question."""
        subprocess.Popen(
            [sys.executable, "-m", "gpuconf", word, str(self.pid)],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def ask(self) -> None:
        self.job.say(f"work({self.calls}, {CALLS})")
        self.asked += 1
        self.calls += CALLS

    def hear(self, seconds: float = 0) -> None:
        """Compare what it has answered."""
        end = time.monotonic() + seconds
        while self.asked and select.select([self.job.stdout], [], [], max(0, end - time.monotonic()))[0]:
            said = os.read(self.job.stdout.fileno(), 1 << 16)  # there may be several lines
            assert said, f"program {self.number} has ended"
            *lines, self.said = (self.said + said).split(b"\n")
            assert all(json.loads(line) == self.values for line in lines), (self.number, lines)
            self.asked -= len(lines)

    def stop(self, pid: int, seconds: float) -> None:
        """Stop one of its processes for a time, as a debugger or a terminal would."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(pid, signal.SIGCONT)
        if self.has_command and pid == self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.job.pid, signal.SIGCONT)  # which stops with its program

    def lose(self, draw: random.Random) -> None:
        """Kill its agent, or rarely its command too: only gpuconf resume starts another agent then."""
        if not self.agents or not self.has_command:
            return
        self.agents -= 1
        for agent in agents(self.job.pid):
            with suppress(ProcessLookupError):
                os.kill(agent, signal.SIGKILL)
        if draw.random() < 0.2:
            self.has_command = False
            os.kill(self.job.pid, signal.SIGKILL)


def act(draw: random.Random, program: Program) -> None:
    """Do one thing to a program."""
    kind = draw.choices(["ask", "park", "resume", "stop", "stop agent", "lose"], [8, 3, 3, 2, 2, 1])[0]
    if kind == "ask":
        if program.asked < 3:
            program.ask()
    elif kind == "stop":
        program.stop(program.pid, draw.uniform(0.1, 3))
    elif kind == "stop agent":
        for agent in agents(program.job.pid):
            program.stop(agent, draw.uniform(0.1, 3))
    elif kind == "lose":
        program.lose(draw)
    else:
        program.command(kind)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    draw, done = random.Random(given.seed), 0
    with tempfile.TemporaryDirectory() as folder, one_card(Path(folder)) as environment, ExitStack() as jobs:
        programs = []
        for number in range(1, JOBS + 1):
            job = jobs.enter_context(Job(environment, "--turns", "--name", f"job{number}", code=CODE))
            programs.append(Program(environment, job, number))
            if number < JOBS:
                until(lambda j=job: agents(j.pid))  # type: ignore[misc]
                words = [sys.executable, "-m", "gpuconf", "park", f"job{number}"]
                subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
        end = time.monotonic() + given.seconds
        while time.monotonic() < end:
            act(draw, draw.choice(programs))
            done += 1
            for program in programs:
                program.hear()
            in_use(environment)  # it is never more than there is
            time.sleep(draw.uniform(0, 0.5))
        for program in programs:
            program.command("resume")
            if not program.asked:
                program.ask()
        end = time.monotonic() + 400  # a turn of each, and who has lost all
        while any(program.asked for program in programs):
            assert time.monotonic() < end, [(one.number, one.asked) for one in programs]
            for program in programs:
                program.hear(4)
                if program.asked:
                    program.command("resume")
        words = [sys.executable, "-m", "gpuconf", "ledger", "check"]
        subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
        for program in programs:
            os.kill(program.pid, signal.SIGKILL)
        until(lambda: states(environment) == [], 90)
        assert in_use(environment) == 0
    calls = sum(one.calls for one in programs)
    print(f"seed {given.seed}: {done} actions on {JOBS} programs, which called the driver {calls:,} times")


if __name__ == "__main__":
    main()
