"""gpuconf on the CUDA driver, from `import gpuconf` down to libcuda.so.1, over a driver that needs no GPU.

The library is that of tests_go/machine/fakecuda: built here, found by the loader like the real one, and strict about
CUDA's rules. Each test runs its program in a new process, because a loaded driver stays loaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from script import execute

FAKECUDA = Path(__file__).resolve().parents[2] / "tests_go" / "machine" / "fakecuda"

PRELUDE = """
import ctypes, sys
import gpuconf as tf
MIB = 1 << 20
driver = ctypes.CDLL("libcuda.so.1")
driver.fakecuda_live.argtypes = [ctypes.c_char_p]
driver.fakecuda_count.argtypes = [ctypes.c_char_p]
driver.fakecuda_count.restype = ctypes.c_ulong
driver.fakecuda_fail.argtypes = [ctypes.c_char_p, ctypes.c_ulong, ctypes.c_int]
LIVE = (b"allocations", b"host", b"handles", b"mappings", b"reservations", b"streams", b"events")
def live():
    return {what.decode(): driver.fakecuda_live(what) for what in LIVE if driver.fakecuda_live(what)}
def info(device="GPU:0"):
    return tf.config.experimental.get_memory_info(device)
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fakecuda")
    subprocess.run([sys.executable, FAKECUDA / "build.py", place], check=True, capture_output=True)
    return place


def run(folder: Path | None, program: str, **environment: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUCONF_", "TF_", "CUDA_", "FAKECUDA_"))}
    if folder is not None:
        clean["LD_LIBRARY_PATH"] = str(folder)
    done = execute(
        [sys.executable, "-X", "dev", "-W", "error", "-c", (PRELUDE if folder else "") + program],
        env=clean | environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_listing_devices_makes_no_context(folder: Path) -> None:
    out = run(
        folder,
        """
gpus = tf.config.list_physical_devices("GPU")
print(len(gpus), tf.config.experimental.get_device_details(gpus[1]), repr(tf.simulated()))
print(driver.fakecuda_count(b"cuDevicePrimaryCtxRetain"), live())
""",
        FAKECUDA_GPUS="2",
    )
    assert "2 {'compute_capability': " in out
    assert "'compute_capability': (9, 0), 'device_name': " in out
    assert out.endswith("0 {}\n")


def test_memory_is_taken_used_and_given_back(folder: Path) -> None:
    out = run(
        folder,
        """
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("GPU")[0],
    [tf.config.LogicalDeviceConfiguration(memory_limit=100), tf.config.LogicalDeviceConfiguration(memory_limit=50)])
tf.config.list_logical_devices()
print(live())
with tf.device("GPU:1"):
    buffer = tf.memory.allocate(10 * MIB)
print(buffer.device.name, info("GPU:1"), live())
buffer.copy_from_host(b"over the driver", 5)
print(bytes(buffer.copy_to_host()[5:20]), driver.fakecuda_depth())
try:
    buffer.view()
except NotImplementedError as error:
    print(error)
try:
    tf.memory.allocate(45 * MIB, "GPU:1")
except MemoryError as error:
    print(error)
buffer.free()
tf.reset()
print(live())
""",
    )
    lines = out.splitlines()
    assert lines[0] == "{}"  # no pool memory before the first allocation
    assert lines[1] == "/device:GPU:1 {'current': 10485760, 'peak': 10485760} {'allocations': 1}"
    assert lines[2] == "b'over the driver' 0"
    assert "needs a simulated GPU" in lines[3]
    assert "GPU:1: out of memory, the limit is reached." in lines[4]
    assert lines[-1] == "{}"


def test_growth_maps_granules_in_place(folder: Path) -> None:
    out = run(
        folder,
        """
tf.config.experimental.set_memory_growth(tf.config.list_physical_devices("GPU")[0], True)
a = tf.memory.allocate(MIB)
print(tf.memory.stats().bytes_reserved // MIB, live())
b = tf.memory.allocate(20 * MIB)
print(tf.memory.stats().bytes_reserved // MIB, len(tf.memory.memory_map().regions))
calls = driver.fakecuda_count(b"*")
for _ in range(100):
    tf.memory.allocate(MIB // 2).free()
print(driver.fakecuda_count(b"*") - calls)
a.free(); b.free()
tf.reset()
print(live())
""",
    )
    assert out.splitlines() == [
        "2 {'handles': 1, 'mappings': 1, 'reservations': 1}",
        "22 1",
        "0",  # a program with one stream makes no driver call for what the pool has
        "{}",
    ]


def test_growth_without_virtual_memory_doubles(folder: Path) -> None:
    out = run(
        folder,
        """
tf.config.experimental.set_memory_growth(tf.config.list_physical_devices("GPU")[0], True)
buffers = [tf.memory.allocate(2 * MIB) for _ in range(4)]
print(tf.memory.stats().bytes_reserved // MIB, live())
for buffer in buffers:
    buffer.free()
""",
        FAKECUDA_WITHOUT="vmm",
    )
    assert out.splitlines() == ["14 {'allocations': 3}"]


def test_a_full_gpu_says_so(folder: Path) -> None:
    out = run(
        folder,
        """
import warnings
warnings.simplefilter("ignore")  # of a limit above the card's memory
limit = tf.config.LogicalDeviceConfiguration(memory_limit=2000)
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("GPU")[0], [limit])
try:
    tf.memory.allocate(1500 * MIB)
except MemoryError as error:
    print(error)
print(info(), live())
""",
    )
    assert "the limit was not reached, but the GPU refused (CUDA_ERROR_OUT_OF_MEMORY (2))" in out
    assert out.endswith("{'current': 0, 'peak': 0} {}\n")


WALK = """
def session():
    if not tf.config.list_physical_devices("GPU"):
        raise RuntimeError("a driver that does not start is a machine without GPUs")
    gpu = tf.config.list_physical_devices("GPU")[0]
    tf.config.experimental.set_memory_growth(gpu, True)
    with tf.memory.allocate(5 * MIB) as buffer:
        buffer.copy_from_host(b"abc")
        assert bytes(buffer.copy_to_host()[:3]) == b"abc"
failures, kinds, n = 0, set(), 0
while True:
    driver.fakecuda_fail(b"*", n + 1, 999)
    fired = driver.fakecuda_fired()
    try:
        session()
        tf.reset()
    except (RuntimeError, MemoryError) as error:
        kinds.add(type(error).__name__)
    if driver.fakecuda_fired() == fired:
        break
    driver.fakecuda_clear()
    tf.reset()
    assert not live(), (n, live())
    n += 1
driver.fakecuda_clear()
session()
tf.reset()
print(n > 20, sorted(kinds), live())
"""


def test_every_driver_call_may_fail_and_nothing_leaks(folder: Path) -> None:
    out = run(folder, "driver.fakecuda_fired.restype = ctypes.c_ulong\n" + WALK)
    assert out.startswith("True [")
    assert out.endswith("{}\n")


def test_cuda_visible_devices_is_the_drivers(folder: Path) -> None:
    out = run(
        folder, "print(len(tf.config.list_physical_devices('GPU')))", FAKECUDA_GPUS="4", CUDA_VISIBLE_DEVICES="2,0"
    )
    assert out == "2\n"


def test_a_driver_without_gpus_is_a_machine_without_gpus(folder: Path) -> None:
    assert run(folder, "print(tf.config.list_physical_devices('GPU'))", CUDA_VISIBLE_DEVICES="") == "[]\n"


def test_without_a_driver_there_are_no_gpus_and_the_log_says_why() -> None:
    out = run(
        None,
        """
import logging, sys
logging.basicConfig(stream=sys.stdout)
logging.getLogger("gpuconf").setLevel(logging.INFO)
import gpuconf
print(gpuconf.config.list_physical_devices("GPU"))
""",
    )
    assert "INFO:gpuconf:no GPUs: " in out
    assert "libcuda.so.1" in out
    assert out.endswith("[]\n")


def test_a_process_has_one_driver(folder: Path) -> None:
    """Here it is loaded before: simulating names it, and does not call it."""
    out = run(
        folder,
        """
try:
    tf.simulate('T4')
    tf.config.list_physical_devices('GPU')
except tf.errors.FailedPreconditionError as error:
    print(error, driver.fakecuda_count(b'*'))
""",
    )
    assert f"this process has loaded {folder / 'libcuda.so.1'}, and a process has one driver" in out
    assert out.endswith(" 0\n")


def test_the_simulators_threads_take_no_signal(folder: Path) -> None:
    """One that the program blocks waits for sigwait; otherwise it would end the process."""
    out = run(
        folder,
        """
import os, signal
tf.memory.allocate(1000).free()
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    for _ in range(20):
        os.kill(os.getpid(), number)
        assert signal.sigwait({number}) == number
print("all came")
""",
    )
    assert out == "all came\n"


def test_the_import_binds_all_symbols_at_once(folder: Path) -> None:
    assert run(folder, "print(len(tf.config.list_physical_devices('GPU')))", LD_BIND_NOW="1") == "1\n"


CAPTURE = """
import contextlib
library = ctypes.CDLL(tf.library_path())
library.gpuconf_malloc.restype = ctypes.c_void_p
library.gpuconf_malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
library.gpuconf_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
library.gpuconf_last_error.restype = ctypes.c_char_p
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("GPU")[0], [tf.config.LogicalDeviceConfiguration(memory_limit=8)])
tf.config.list_logical_devices()
context = ctypes.c_void_p()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and driver.cuCtxSetCurrent(context) == 0
def made(function, *args):
    handle = ctypes.c_void_p()
    assert function(ctypes.byref(handle), *args) == 0
    return handle
def stream():
    return made(driver.cuStreamCreateWithPriority, 1, 0)
def take(nbytes, stream=None):
    block = library.gpuconf_malloc(nbytes, 0, stream)
    if block is None:
        raise MemoryError(library.gpuconf_last_error().decode())
    return block
def give(block, stream=None):
    library.gpuconf_free(block, 0, 0, stream)
    assert library.gpuconf_last_error() == b""
def fill(block, value, nbytes, stream):
    assert driver.cuMemsetD8Async(ctypes.c_uint64(block), value, ctypes.c_size_t(nbytes), stream) == 0
def begin(stream):
    assert driver.cuStreamBeginCapture_v2(stream, 0) == 0
def end(stream):
    graph = ctypes.c_void_p()
    result = driver.cuStreamEndCapture(stream, ctypes.byref(graph))
    if result:
        return result
    execute = made(driver.cuGraphInstantiateWithFlags, graph, ctypes.c_ulonglong(0))
    assert driver.cuGraphDestroy(graph) == 0
    return execute
def launch(execute, stream):
    assert driver.cuGraphLaunch(execute, stream) == 0 and driver.cuStreamSynchronize(stream) == 0
def first_byte(block):
    return ctypes.c_uint8.from_address(block).value
def captured():
    return tf.memory.stats().captured_bytes // MIB
"""


def test_a_captured_graph_keeps_its_memory(folder: Path) -> None:
    """CuPy's or PyTorch's capture calls the C symbols like this; the capture is in CUDA's strictest mode."""
    out = run(
        folder,
        CAPTURE
        + """
side, other = stream(), stream()
begin(side)
a = take(2 * MIB, side)
fill(a, 1, 2 * MIB, side)
give(a)
b = take(2 * MIB, side)
fill(b, 2, 2 * MIB, side)
give(b, side)
graph = end(side)
print(a == b, captured())
mine = take(6 * MIB, other)
fill(mine, 9, 6 * MIB, other)
launch(graph, other)
print(first_byte(mine), first_byte(a))
try:
    take(1, side)
except MemoryError as error:
    print(error.args[0].partition("out of memory, ")[2].partition(".\\n")[0])
try:
    tf.reset()
except RuntimeError as error:
    print(error)
give(mine)
try:
    tf.reset()
except RuntimeError as error:
    print(error)
assert driver.cuGraphExecDestroy(graph) == 0
print(captured(), take(8 * MIB, side) == a)
""",
    )
    assert out.splitlines() == [
        "True 2",
        "9 2",
        "the limit is reached, and 2.00MiB (2097152 bytes) of free memory are kept for captured graphs",
        "memory is still in use: 1 block on GPU:0 (6.00MiB), 1 captured graph with memory on GPU:0 (2.00MiB freed). "
        "Free it first",
        "memory is still in use: 1 captured graph with memory on GPU:0 (2.00MiB freed). Free it first",
        "0 True",
    ]


def test_an_allocation_for_a_stream_asks_the_driver_once_whether_it_is_captured(folder: Path) -> None:
    """In the caller's context. It also entered the context for this; once is left, for the stream's id."""
    out = run(
        folder,
        CAPTURE
        + """
driver.fakecuda_count.argtypes = [ctypes.c_char_p]
driver.fakecuda_count.restype = ctypes.c_ulong
names = [b"cuStreamGetCaptureInfo", b"cuCtxGetCurrent"]
side = stream()
give(take(256, side))
before = [driver.fakecuda_count(name) for name in names]
for _ in range(100):
    give(take(256, side))
print([driver.fakecuda_count(name) - count for name, count in zip(names, before)])
""",
    )
    assert out == "[100, 100]\n"


def test_a_capture_that_fails_gives_its_memory_back(folder: Path) -> None:
    out = run(
        folder,
        CAPTURE
        + """
side = stream()
begin(side)
kept, freed = take(MIB, side), take(MIB, side)
give(freed)
print(captured(), driver.cuStreamQuery(side), end(side), captured())
give(kept, side)
give(take(8 * MIB, side))
tf.reset()
""",
    )
    assert out == "1 900 901 0\n"


def test_the_end_of_a_program_with_captured_graphs_is_quiet(folder: Path) -> None:
    run(
        folder,
        CAPTURE
        + "side = stream(); begin(side); give(take(MIB, side)); graph = end(side); begin(side); take(MIB, side)",
    )


LEASE = """
from gpuconf.leases.lease import cuda_started
for _ in range(2):
    with tf.lease(memory="64MiB", timeout=5) as leased:
        print(len(leased.gpus), cuda_started(), tf.memory.stats().bytes_limit // MIB, len(tf.visible_devices()),
              cuda_started())
"""
LATE = """
tf.config.list_physical_devices()
try:
    with tf.lease(memory="64MiB"):
        pass
except RuntimeError as error:
    print(error)
with tf.lease(memory="64MiB", gpus=2):
    print(len(tf.visible_devices()))
"""


def test_a_lease_chooses_the_gpus_before_cuda_starts(folder: Path, tmp_path: Path) -> None:
    """CUDA reads CUDA_VISIBLE_DEVICES once. So a second lease gets the same GPU."""
    out = run(folder, LEASE, FAKECUDA_GPUS="2", GPUCONF_LEDGER=str(tmp_path / "ledger"))
    assert out == "1 False 64 1 True\n1 True 64 1 True\n"


def test_a_lease_of_some_gpus_comes_too_late_when_cuda_has_started(folder: Path, tmp_path: Path) -> None:
    out = run(folder, LATE, FAKECUDA_GPUS="2", GPUCONF_LEDGER=str(tmp_path / "ledger")).splitlines()
    assert out[0].startswith(
        "gpuconf.lease(gpus=1) was called too late: CUDA has already started in this process, which sees 2 GPUs."
    )
    assert out[1:] == ["2"]
