"""If the system refuses a thread, Go ends the process. gpuconf keeps some in reserve, and raises an error in time.

If no more files can be opened, Go ends the process when it needs its poller. gpuconf lets it open that while there is
room.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from script import environment, execute, run, run_well

# RLIMIT_NPROC counts a user's threads, and does not apply to root. So this process becomes the only one of an unused
# user, and keeps none of root's privileges except reading files.
BEGIN = """
import ctypes, os, resource
import gpuconf
from gpuconf.errors import UnavailableError

_UNUSED_USER, _LINUX_CAPABILITY_VERSION_3, _CAP_DAC_OVERRIDE = 54321, 0x20080522, 1
_library = ctypes.CDLL(None)

def become_one_user():
    assert _library.setresuid(_UNUSED_USER, 0, 0) == 0
    header = (ctypes.c_uint32 * 2)(_LINUX_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)(1 << _CAP_DAC_OVERRIDE, 1 << _CAP_DAC_OVERRIDE, 0, 0, 0, 0)
    assert _library.capset(header, sets) == 0

def limit(threads):
    resource.setrlimit(resource.RLIMIT_NPROC, (threads, resource.getrlimit(resource.RLIMIT_NPROC)[1]))

def threads():
    return len(os.listdir("/proc/self/task"))

def use():
    gpuconf.simulate("T4")
    held = [gpuconf.memory.allocate(100) for _ in range(2000)]
    for _ in range(20):
        gpuconf.memory.memory_map()
    product = gpuconf.matmul([[1.0] * 400] * 400, [[1.0] * 400] * 400)
    for buffer in held:
        buffer.free()
    return product.shape

most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
"""


@pytest.fixture(scope="module", autouse=True)
def limits_hold() -> None:
    """Skip if the limit cannot be tested: without root, or in a container that forbids changing users or does not
    count.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can become a user that has no other threads")
    done = run(
        BEGIN
        + """
import _thread, time
become_one_user()
limit(2)
started = [_thread.start_new_thread(time.sleep, (0.1,)) for _ in range(2)]
"""
    )
    if "can't start new thread" not in done.stderr:
        pytest.skip(f"RLIMIT_NPROC doesn't hold here for a user of one process: {done.stderr or 'no error'}")


def test_a_process_that_may_start_no_threads_gets_an_error_and_can_go_on_later() -> None:
    """It was ended by "runtime/cgo: pthread_create failed: Resource temporarily unavailable"."""
    out = run_well(
        BEGIN
        + """
become_one_user()
limit(1)
for attempt in range(2):
    try:
        gpuconf.simulate("T4")
    except UnavailableError as error:
        print(isinstance(error, RuntimeError), threads(), error)
limit(most)
print(use())
"""
    )
    first, second, then = out.splitlines()
    assert first == second
    assert first.startswith("True 1 gpuconf's core needs ")
    assert "RLIMIT_NPROC is 1," in first
    assert "ulimit -u" in first
    assert then == "(400, 400)"


@pytest.mark.parametrize("processors", [2, 64])
@pytest.mark.parametrize("allowed", [5, 9, 10, 12, 16, 24])
def test_a_limit_of_threads_is_an_error_or_enough(processors: int, allowed: int) -> None:
    """Go starts up to one thread for each processor for a single matrix product: more at once than the reserve has."""
    out = run_well(
        BEGIN
        + f"""
become_one_user()
limit({allowed})
try:
    print(use(), threads() <= {allowed})
except UnavailableError as error:
    print("refused")
""",
        env={"GOMAXPROCS": str(processors), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert out == "(400, 400) True\n" if allowed >= 16 else out in ("(400, 400) True\n", "refused\n")


def test_a_limit_that_comes_later_is_an_error_or_enough() -> None:
    run_well(
        BEGIN
        + """
become_one_user()
gpuconf.simulate("T4")
kept = gpuconf.memory.allocate(1000)
kept.free()
limit(1)
refused = 0
for _ in range(5):
    try:
        use()
    except UnavailableError:
        refused += 1
        limit(most)
        gpuconf.memory.stats()  # completes the reserve
        for buffer in gpuconf.memory.live_buffers():
            buffer.free()
        limit(1)
limit(most)
assert use() == (400, 400)
""",
        env={"GOMAXPROCS": "4", "OPENBLAS_NUM_THREADS": "1"},
    )


def test_c_callers_get_an_error_too() -> None:
    run_well(
        BEGIN
        + """
become_one_user()
limit(1)
library = ctypes.CDLL(gpuconf.library_path())
library.gpuconf_malloc.restype = ctypes.c_void_p
library.gpuconf_last_error.restype = ctypes.c_char_p
assert library.gpuconf_malloc(ctypes.c_size_t(1000), 0, None) is None
assert b"needs up to" in library.gpuconf_last_error(), library.gpuconf_last_error()
limit(most)
assert library.gpuconf_malloc(ctypes.c_size_t(1000), 0, None) is None
assert b"needs up to" not in library.gpuconf_last_error(), library.gpuconf_last_error()
"""
    )


@pytest.mark.parametrize("command", [["devices"], ["run", "--memory", "1GiB", "true"]], ids=" ".join)
def test_too_little_address_space_is_one_line(command: list[str]) -> None:
    """As batch systems set it from a limit of memory. It was a traceback of Go."""
    words = ["sh", "-c", 'ulimit -v 800000; exec "$@"', "sh", str(Path(sys.executable).with_name("gpuconf")), *command]
    done = execute(words, env=environment())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"gpuconf {command[0]}: the address space of this process is limited to 781 MiB (ulimit -v; "
    )
    assert done.stderr.count("\n") == 1


BEGIN_WITH_FEW_FILES = """
import os, resource
import gpuconf, gpuconf.config, gpuconf.simulation.simulate, gpuconf.memory, json

def exhaust(left):
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for _ in range(left):
        os.close(held.pop())
    return held

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
"""


@pytest.mark.parametrize("left", range(1, 12))
def test_the_first_call_with_few_files_left(left: int) -> None:
    out = run_well(
        BEGIN_WITH_FEW_FILES
        + f"""
held = exhaust({left})
try:
    gpuconf.simulate("T4")
    buffer = gpuconf.memory.allocate(5)
except gpuconf.errors.UnavailableError as error:
    text = str(error)
    assert "more open files to start" in text and "RLIMIT_NOFILE is 64" in text, text
    print("refused")
else:
    buffer.free()
for file in held:
    os.close(file)
gpuconf.simulate("T4")
buffer = gpuconf.memory.allocate(5)
print("works")
"""
    )
    assert out.split() == (["refused", "works"] if left < 8 else ["works"])


def test_later_calls_need_no_more_files() -> None:
    run_well(
        BEGIN_WITH_FEW_FILES
        + """
gpuconf.simulate("T4")
gpuconf.config.list_physical_devices()
held = exhaust(0)
buffer = gpuconf.memory.allocate("10GiB")
try:
    gpuconf.memory.allocate("10GiB", wait=0.01)
except MemoryError:
    pass
"""
    )


def test_the_first_call_on_simulated_gpus_with_no_files_left() -> None:
    """The simulated driver is a library that must be opened. Nothing is changed: the next call with room works."""
    run_well(
        BEGIN_WITH_FEW_FILES
        + """
gpuconf.config.list_physical_devices()
gpuconf.simulate("T4")
held = exhaust(0)
try:
    gpuconf.memory.allocate(5)
except gpuconf.errors.UnavailableError as error:
    text = str(error)
    assert "libcuda.so.1: too many open files" in text and "raise the limit of open files (ulimit -n)" in text, text
else:
    raise AssertionError("no error")
for file in held:
    os.close(file)
gpuconf.memory.allocate(5).free()
"""
    )
