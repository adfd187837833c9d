"""Programs that close the driver's library and open it again, as those do that only look whether there is a GPU."""

from pathlib import Path

import pytest
from conftest_guard import MIB, build_driver, job

CLOSE = """
import _ctypes, os, time
def reopen():
    global cuda
    _ctypes.dlclose(cuda._handle)
    cuda = ctypes.CDLL("libcuda.so.1")
"""


@pytest.mark.parametrize("mode", ["proxy", "preload"])
def test_a_program_that_closes_the_driver_stays_limited(driver: Path, mode: str) -> None:
    """What it holds stays charged, because the driver keeps it."""
    with job(driver, 512 * MIB, mode, prelude=CLOSE) as one:
        assert one.python("""
begin()
print(allocate(100 * MIB)[0], *(part // MIB for part in info()))

def open_files():
    # The least of some counts: a thread of the simulated driver reads /proc/meminfo now and then.
    counts = []
    for _ in range(20):
        counts.append(len(os.listdir("/proc/self/fd")))
        time.sleep(0.002)
    return min(counts)

descriptors = open_files()
for _ in range(1100):
    reopen()
    begin()
print(*(part // MIB for part in info()), open_files() - descriptors)
print(allocate(412 * MIB)[0], allocate(MIB)[0])
""").splitlines() == ["0 412 512", "412 512 0", "0 2"]
        assert (one.used(), one.budget.log()) == (0, [])


def test_a_driver_that_cannot_be_unloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays in the process under its usual name, also if the program has not yet asked it for anything."""
    monkeypatch.setenv("CC", "cc -Wl,-z,nodelete")
    with job(build_driver(tmp_path / "driver"), 512 * MIB, prelude=CLOSE) as one:
        told = one.python("reopen()\nbegin()\nprint(allocate(512 * MIB)[0], allocate(MIB)[0])")
        assert told == "0 2\n"
