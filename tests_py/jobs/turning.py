"""Programs that give way to each other on a simulated card that all of them share, and what the ledger has of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from asked_program import AskedProgram
from gpuconf.jobs import simulated_cards
from gpuconf.leases.environment import of_simulation, of_startup

# The command, whose agent stepping.py prepares.
STEPPED = f"""
import sys
import gpuconf.jobs.turns as turns
prepared = "import sys; sys.path[:0] = [{os.path.dirname(os.path.abspath(__file__))!r}]; import stepping; "
turns._CODE = prepared + turns._CODE
from gpuconf.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
SPEC = "A100-40GB:400MiB:driver=13.0"
PROGRAM = """
import ctypes, json, os, sys
import numpy
from ctypes import byref, c_uint32, c_uint64, c_void_p, c_size_t
cu = ctypes.CDLL("libcuda.so.1")
at, own, count = c_uint64(), c_void_p(), 50 << 20
def begin(value, mib=200):
    global count
    count = mib << 18
    assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(byref(own), 0) == 0 and cu.cuCtxSetCurrent(own) == 0
    result = cu.cuMemAlloc_v2(byref(at), c_size_t(4 * count))
    return result or cu.cuMemsetD32_v2(at, value, c_size_t(count))
def values():
    host = numpy.empty(count, numpy.uint32)
    assert cu.cuMemcpyDtoH_v2(c_void_p(host.ctypes.data), at, c_size_t(4 * count)) == 0
    return sorted({int(host.min()), int(host.max())}), at.value
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""

# Two such programs, which do and answer the same. With the word "ranks" they are those of a launcher.
PAIR = f"""
import os, subprocess, sys
command, pipe = [sys.executable, "-c", {PROGRAM!r}], subprocess.PIPE
ranks = [{{"RANK": str(number), "WORLD_SIZE": "2"}} if "ranks" in sys.argv else {{}} for number in range(2)]
pair = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={{**os.environ, **rank}}) for rank in ranks]
for line in sys.stdin:
    for one in pair:
        one.stdin.write(line)
        one.stdin.flush()
    print("[" + ", ".join(one.stdout.readline().strip() for one in pair) + "]", flush=True)
"""

# As the server of notebooks: it does not use the GPU, and starts such programs that do.
SERVER = f"""
import json, subprocess, sys
command, pipe = [sys.executable, "-c", {PROGRAM!r}], subprocess.PIPE
kernels = []
def start():
    kernels.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
    return kernels[-1].pid
def say(number, line):
    kernels[number].stdin.write(line + chr(10))
    kernels[number].stdin.flush()
def hear(number):
    return json.loads(kernels[number].stdout.readline())
def ask(number, line):
    say(number, line)
    return hear(number)
def end(number):
    kernels[number].kill()
    return kernels[number].wait()
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""


class Job(AskedProgram):
    """A program under ``gpuconf run``, or after another command. Its answers are those of the program; pid is that of
    the command.
    """

    def __init__(
        self,
        environment: dict[str, str],
        *options: str,
        memory: str = "250MiB",
        code: str = PROGRAM,
        steps: str = "",
        command: Sequence[str] = (),
        words: Sequence[str] = (),
    ) -> None:
        prepared = ["-c", STEPPED] if steps else ["-m", "gpuconf"]
        run = [sys.executable, *prepared, "run", "--memory", memory, *options, sys.executable]
        self.process = subprocess.Popen(
            [*(command or run), "-c", code, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "STEPS": steps},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.pid, self.stdin, self.stdout = self.process.pid, self.process.stdin, self.process.stdout

    def end(self) -> str:
        """End the program, and return what was on standard error."""
        _, said = self.process.communicate(timeout=60)
        return said


@contextmanager
def one_card(folder: Path, inherited: Mapping[str, str] = os.environ) -> Iterator[dict[str, str]]:
    """The environment of programs that share one card and one ledger."""
    spec = {"GPUCONF_SIMULATE": SPEC, "GPUCONF_LEDGER": str(folder / "ledger")}
    code = "import json, gpuconf.machine.cards as m; print(json.dumps([one.uuid for one in m.visible_devices()]))"
    listed = subprocess.run([sys.executable, "-c", code], env={**inherited, **spec}, capture_output=True, check=True)
    sizes = dict.fromkeys(json.loads(listed.stdout), 400 << 20)
    with simulated_cards.share(sizes, SPEC) as cards:
        yield {**inherited, **of_startup(), **of_simulation(), **spec, **cards.environment, "CARDS": cards.path}


def rows(environment: dict[str, str]) -> list[dict[str, object]]:
    words = [sys.executable, "-m", "gpuconf", "lease", "--list", "--json"]
    done = subprocess.run(words, env=environment, capture_output=True, check=True)
    return json.loads(done.stdout)["leases"]  # type: ignore[no-any-return]


def states(environment: dict[str, str]) -> list[str]:
    return sorted(str(row["state"]) for row in rows(environment))


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


def in_use(environment: dict[str, str]) -> int:
    (card,) = simulated_cards.SimulatedCards(environment["CARDS"]).usage().values()
    assert card.used <= card.limit
    return card.used


def agents(of: int) -> list[int]:
    pids = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if int(stat[1]) == of and "gpuconf.jobs.agent" in Path(f"/proc/{pid}/cmdline").read_text():
                pids.append(pid)
        except OSError:
            continue
    return pids
