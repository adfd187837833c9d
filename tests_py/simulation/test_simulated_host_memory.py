"""A simulated GPU's memory is host memory: a program that would use up the host's ends with one line, before the kernel
ends it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import script

BUILD = Path(__file__).resolve().parents[2] / "tests_go" / "machine" / "fakecuda" / "build.py"

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
    result = driver.cuMemsetD8_v2(ctypes.c_uint64(address.value + at), 1, ctypes.c_size_t(step))
    result = result or driver.cuCtxSynchronize()
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
    more = {"LD_LIBRARY_PATH": str(folder), "FAKECUDA_MEMORY": str(64 << 30)}
    return script.completed([sys.executable, "-c", program], env=script.plain() | more | environment, timeout=120)


def test_it_ends_with_one_line_before_the_host_is_full(folder: Path) -> None:
    """The margin leaves 512 MiB to write, so that the test itself does not fill the host."""
    done = run(folder, WRITES_ALL, FAKECUDA_HOST_MARGIN=str(available() - (512 << 20)))
    assert (done.returncode, done.stdout) == (71, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("gpuconf: the simulated GPU's memory is host memory, and ")
    assert "not a CUDA out-of-memory error" in done.stderr


def test_freed_memory_is_the_hosts_again(folder: Path) -> None:
    """Two gibibytes are written, 256 MiB at a time, and each is freed: the process never holds much more than one of
    them.
    """
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
    """Make a control group with a limit, of version 2 or 1, below this process's own.

    None where that is not permitted.
    """
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


START = """
import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
cu = ctypes.CDLL("libcuda.so.1")
context, address = c_void_p(), c_uint64()
def ok(result): assert result == 0, result
ok(cu.cuInit(0)), ok(cu.cuDevicePrimaryCtxRetain(byref(context), 0)), ok(cu.cuCtxSetCurrent(context))
def resident(): return int(open("/proc/self/status").read().partition("VmRSS:")[2].split()[0])
"""


@pytest.mark.parametrize(
    "call", ["cuMemsetD8_v2(address, 0, c_size_t(total))", "cuMemsetD32_v2(address, 0, c_size_t(total // 4))"]
)
def test_clearing_takes_no_host_memory(folder: Path, call: str) -> None:
    program = f"""{START}
total = 60 << 30
ok(cu.cuMemAlloc_v2(byref(address), c_size_t(total)))
before = resident()
ok(cu.{call}), ok(cu.cuCtxSynchronize())
print(resident() - before < 10 << 10)
"""
    done = run(folder, program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


KINDS = {
    "linear": "ok(cu.cuMemAlloc_v2(byref(address), c_size_t(total)))",
    "managed": "ok(cu.cuMemAllocManaged(byref(address), c_size_t(total), 1))",
    "of a pool": "ok(cu.cuMemAllocAsync(byref(address), c_size_t(total), None))",
    "page-locked": "ok(cu.cuMemHostAlloc(byref(address), c_size_t(total), 0))",
    "mapped": """
class Property(ctypes.Structure):
    _fields_ = [("kind", c_int), ("handles", c_int), ("location", c_int), ("device", c_int), ("more", c_uint64 * 2)]
class Access(ctypes.Structure):
    _fields_ = [("location", c_int), ("device", c_int), ("flags", c_int)]
ok(cu.cuMemAddressReserve(byref(address), c_size_t(total), c_size_t(0), c_uint64(0), c_uint64(0)))
for at in range(0, total, total // 4):  # mapped in pieces, as PyTorch's expandable segments are
    handle, part = c_uint64(), c_size_t(total // 4)
    ok(cu.cuMemCreate(byref(handle), part, byref(Property(1, 0, 1, 0)), c_uint64(0)))
    ok(cu.cuMemMap(c_uint64(address.value + at), part, c_size_t(0), handle, c_uint64(0)))
ok(cu.cuMemSetAccess(address, c_size_t(total), byref(Access(1, 0, 3)), c_size_t(1)))
""",
    "registered, of a file": """
import mmap, tempfile
file = tempfile.TemporaryFile()
file.write(b"7" * total), file.flush()
memory = mmap.mmap(file.fileno(), total, flags=mmap.MAP_PRIVATE)
address.value = ctypes.addressof(ctypes.c_char.from_buffer(memory))
ok(cu.cuMemHostRegister_v2(address, c_size_t(total), 0))
""",
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_cleared_reads_as_zero_and_its_neighbours_stay(folder: Path, kind: str) -> None:
    """Above and below the size from which pages go back to the host, whatever backs the memory."""
    program = f"""{START}
total = 16 << 20
{KINDS[kind]}
for first, end in ((0, total), (3, total - 5), (1 << 20, 9 << 20), (5000, 15 << 20), (100, 70000)):
    ok(cu.cuMemsetD8_v2(address, 7, c_size_t(total)))
    ok(cu.cuMemsetD8_v2(c_uint64(address.value + first), 0, c_size_t(end - first))), ok(cu.cuCtxSynchronize())
    found = ctypes.create_string_buffer(total)
    ok(cu.cuMemcpyDtoH_v2(found, address, c_size_t(total)))
    assert found.raw == bytes([7]) * first + bytes(end - first) + bytes([7]) * (total - end), (first, end)
print("as expected")
"""
    done = run(folder, program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "as expected\n", "")
