"""A simulated GPU's memory is host memory: a program that would use up the host's ends with one line, before the kernel ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parent.parent / "tests_go" / "fakecuda" / "build.py"

WRITES_ALL = """
import ctypes, os, sys
driver = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and driver.cuCtxSetCurrent(context) == 0
total = 64 << 30
assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(total)) == 0
step = 16 << 20
for at in range(0, total, step):
    result = driver.cuMemsetD8_v2(ctypes.c_uint64(address.value + at), 1, ctypes.c_size_t(step)) or driver.cuCtxSynchronize()
    if result:
        print("CUDA error", result)
        sys.exit(1)
print("all written")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("simulator")
    subprocess.run([sys.executable, BUILD, place], check=True, capture_output=True)
    return place


def available() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def run(folder: Path, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUCONF_", "CUDA_", "FAKECUDA_"))}
    more = {"LD_LIBRARY_PATH": str(folder), "FAKECUDA_MEMORY": str(64 << 30)}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=clean | more | environment, timeout=120
    )


def test_it_ends_with_one_line_before_the_host_is_full(folder: Path) -> None:
    """The margin leaves 512 MiB to write, so that the test itself does not fill the host."""
    done = run(folder, WRITES_ALL, FAKECUDA_HOST_MARGIN=str(available() - (512 << 20)))
    assert (done.returncode, done.stdout) == (71, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("gpuconf: the simulated GPU's memory is host memory, and ")
    assert "not a CUDA out-of-memory error" in done.stderr


def test_freed_memory_is_the_hosts_again(folder: Path) -> None:
    """Two gibibytes are written, 256 MiB at a time, and each is freed: the process never holds much more than one of them."""
    program = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and driver.cuCtxSetCurrent(context) == 0
bytes = ctypes.c_size_t(256 << 20)
for _ in range(8):
    assert driver.cuMemAlloc_v2(ctypes.byref(address), bytes) == 0
    assert driver.cuMemsetD8_v2(address, 1, bytes) == 0 and driver.cuCtxSynchronize() == 0
    assert driver.cuMemFree_v2(address) == 0
peak = int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0])
print(peak < 600 << 10)  # not ru_maxrss: that is at least the parent's
"""
    done = run(folder, program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def memory_group(name: str, limit: int) -> Path | None:
    """Make a control group with a limit, of version 2 or 1, below this process's own; None where that is not permitted."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, group = line.split(":", 2)
        version2 = number == "0" and not controllers
        if not version2 and "memory" not in controllers.split(","):
            continue
        root = Path("/sys/fs/cgroup" if version2 else "/sys/fs/cgroup/memory")
        place, most = root / group.lstrip("/") / name, "memory.max" if version2 else "memory.limit_in_bytes"
        try:
            place.mkdir()
        except OSError:
            continue
        try:
            (place / most).write_text(str(limit))
        except OSError:
            place.rmdir()
            continue
        return place
    return None


def test_the_limit_of_a_control_group_counts(folder: Path) -> None:
    group = memory_group(f"gpuconf-test-{os.getpid()}", 1 << 30)
    if group is None:
        pytest.skip("this user may not make a control group with a memory limit")
    try:
        done = run(folder, f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')\n" + WRITES_ALL)
    finally:
        group.rmdir()
    assert (done.returncode, done.stdout) == (71, "")
    assert "its control group may use 1024 MiB" in done.stderr
