"""How much of a job's memory is outside of gpuconf's pools: in statistics, out-of-memory reports, ``gpuconf ps`` and
notebooks.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import script
from conftest_guard import CARDS, MIB, environment
from script import without_others

GIB = 1 << 30

OUTSIDE = """
import ctypes, sys
import gpuconf
from gpuconf import memory
MIB = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")
buffer = memory.allocate(100 * MIB, "GPU:0")                         # and with it the context
context = ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
def outside(bytes):
    address = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(bytes)) == 0
    return address
def budget():
    stats = memory.stats("GPU:0")
    parts = stats.budget_pool_bytes, stats.budget_outside_bytes, stats.budget_free_bytes
    assert stats.budget_limit_bytes == sum(parts)
    return [part // MIB for part in (stats.budget_limit_bytes, *parts)]
"""


class Machine:
    """One card of 16 GiB, and what runs on it."""

    def __init__(self, folder: Path, tmp_path: Path) -> None:
        machine = tmp_path / "machine"
        machine.write_text(
            "driver 580.95.05\ncuda 13000\n"
            f"card {CARDS[0]} domain=0 bus=23 device=0 cc=9.0 mig=off total={16 * GIB} used=0 NVIDIA H100\n"
        )
        self.variables = environment(folder, GPUCONF_LEDGER=str(tmp_path / "ledger"), FAKE_NVML=str(machine))
        self.variables["FAKECUDA_MEMORY"] = str(16 * GIB)
        self._script = tmp_path / "script.py"

    def _words(self, code: str, options: tuple[str, ...]) -> list[str]:
        self._script.write_text(OUTSIDE + code)
        return [sys.executable, "-m", "gpuconf", "run", "--memory", "512MiB", "--growth", *options, str(self._script)]

    def run(self, code: str, *options: str) -> str:
        """Run code within a limit of 512 MiB. Returns what it printed."""
        done = script.completed(self._words(code, options), env=self.variables, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return without_others(done.stdout)

    @contextmanager
    def running(self, code: str) -> Iterator[None]:
        """Run code that prints a line, and ends when its standard input does."""
        words = self._words(code + "\nprint(flush=True); sys.stdin.read()", ())
        with subprocess.Popen(
            words, env=self.variables, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "\n"
            try:
                yield
            finally:
                program.communicate(timeout=60)

    def command(self, *words: str) -> str:
        """Return what a command of gpuconf prints outside of the job."""
        done = script.completed([sys.executable, "-m", "gpuconf", *words], env=self.variables, check=True, timeout=60)
        return without_others(done.stdout)


@pytest.fixture
def machine(both: Path, tmp_path: Path) -> Machine:
    """The machine."""
    return Machine(both, tmp_path)


def test_statistics(machine: Machine) -> None:
    """What a process allocates past the pools, and what another process of the job has in pools and outside of them."""
    told = machine.run(
        """
import subprocess, time
source = open(__file__).read().partition("import subprocess")[0]
pool = memory.stats("GPU:0").bytes_reserved // MIB
assert pool >= 100
assert budget() == [512, pool, 0, 512 - pool], budget()
address = outside(64 * MIB)
assert budget() == [512, pool, 64, 448 - pool], budget()
words = [sys.executable, "-c", source + "outside(16 * MIB); print(flush=True); sys.stdin.read()"]
with subprocess.Popen(words, stdin=-1, stdout=-1, text=True) as other:
    assert other.stdout.readline() == "\\n"
    assert budget() == [512, 2 * pool, 80, 432 - 2 * pool], budget()
    other.communicate()
while budget() != [512, pool, 64, 448 - pool]:       # the guard looks for ended processes every 20 ms
    time.sleep(0.02)
assert cuda.cuMemFree_v2(address) == 0
assert budget() == [512, pool, 0, 512 - pool], budget()
buffer.free()
memory.release()
print(budget()[1:3])
""",
        "--contexts",
        "2",
    )
    assert told == "[0, 0]\n"


def test_without_a_job_there_is_none(machine: Machine) -> None:
    code = (
        "from gpuconf import memory; print([size for name, size in memory.stats('GPU:0').to_dict().items() if "
        "'budget' in name])"
    )
    variables = {**machine.variables, "GPUCONF_LIMIT": "1GiB"}
    done = script.completed([sys.executable, "-c", code], env=variables, check=True)
    assert done.stdout == "[0, 0, 0, 0]\n"


def test_the_report_of_a_failed_allocation(machine: Machine) -> None:
    """The limit of the pool has room, but what other libraries took is missing: the report says how much, and what to
    do.
    """
    told = machine.run("""
outside(300 * MIB)
try:
    memory.allocate(200 * MIB, "GPU:0")
except MemoryError as error:
    print(error)
print(budget())
""")
    report, _, figures = told.rstrip("\n").rpartition("\n")
    limit, pools, outside, free = json.loads(figures)
    parts = f"pools {pools}.00MiB + outside {outside}.00MiB + free {free}.00MiB"
    assert (limit, outside) == (512, 300)
    assert "out of memory, the limit of the job is reached." in report
    assert f"memory of the job: limit 512.00MiB (536870912 bytes) = {parts}" in report
    assert "Free memory, end other processes of this job, or start it with a larger gpuconf run --memory." in report


def test_of_nested_jobs_the_one_with_the_least_left_is_shown(machine: Machine) -> None:
    told = machine.run(
        """
import subprocess
source = open(__file__).read().partition("import subprocess")[0]
inner = "print(*budget()[:3:2], memory.stats('GPU:0').bytes_limit // MIB)"
words = [sys.executable, "-m", "gpuconf", "run", "--no-wait", "--memory", "400MiB", "--growth", "-c", source + inner]
buffer.free()
memory.release()
for bytes in (50 * MIB, 150 * MIB):
    outside(bytes)
    subprocess.run(words, check=True)
""",
        "--contexts",
        "2",
    )
    assert told.splitlines() == ["400 0 400", "512 200 400"]


def test_ps_and_stats(machine: Machine) -> None:
    with machine.running("outside(64 * MIB)"):
        found = json.loads(machine.command("ps", "--json"))
        (job,) = found["jobs"]
        assert job["uuid"] == CARDS[0]
        assert job["limit"] == 512 * MIB == job["pools"] + job["outside"] + job["free"]
        assert job["outside"] == 64 * MIB
        (process,) = job["processes"]
        assert (process["pools"], process["outside"]) == (job["pools"], job["outside"])
        assert json.loads(machine.command("stats", "--json"))["jobs"] == [job]
        assert json.loads(machine.command("stats", "--json", "--pid", str(process["pid"])))["jobs"] == [job]
        pools, free = job["pools"] // MIB, job["free"] // MIB
        line = f"limit 512.00MiB = pools {pools}.00MiB + outside 64.00MiB + free {free}.00MiB"
        for command in ("ps", "stats"):
            last = machine.command(command).splitlines()[-1]
            assert last.startswith("GPU 0, job ")
            assert last.endswith(line)
    assert json.loads(machine.command("ps", "--json"))["jobs"] == []


def test_the_table_of_a_notebook(machine: Machine) -> None:
    told = machine.run("""
outside(64 * MIB)
from gpuconf.notebook._devices import Devices
print(Devices())
print("outside 64.00MiB" in Devices()._repr_html_())
""")
    assert "NVIDIA" in told
    assert "memory of the job on " in told
    assert "+ outside 64.00MiB + free" in told
    assert told.endswith("True\n")
