"""The adaptors for PyTorch and Numba without these libraries: on stand-ins for their documented interface.

test_torch.py and test_numba.py test the real libraries if they are installed. gpuconf itself runs on its real driver
code here.
"""

from collections.abc import Callable
from pathlib import Path

import no_gpu
import pytest

STANDINS = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "standins")!r})
"""
TORCH = STANDINS + "import torch_standin\ntorch = torch_standin.install()\n"
NUMBA = STANDINS + "import numba_standin\nnumba = numba_standin.install()\nfrom numba import cuda\n"


@pytest.fixture
def torch(run: Callable[..., str]) -> Callable[..., str]:
    return lambda program, **environment: run(TORCH + program, **environment)


@pytest.fixture
def numba(run: Callable[..., str]) -> Callable[..., str]:
    return lambda program: run(NUMBA + program)


def test_torch_is_plugged_with_all_hooks_and_initialized_by_its_first_use(torch: Callable[..., str]) -> None:
    assert torch("""
print(gpuconf.configure(limit="64MiB", libraries=["torch"]).libraries)
print(torch_standin.plugged.names, sorted(torch_standin.HOOKS))
print(gpuconf._core.runtime.initialized())
pointer = torch_standin.plugged.raw_alloc(1000)
print(gpuconf._core.runtime.initialized(), live())
torch_standin.plugged.raw_delete(pointer)
print(live(), torch_standin.plugged.raw_alloc(0))
from gpuconf._core import abi as _abi
print([address == _abi.address(f"gpuconf_torch_{name}") for name, address in zip(
    ("begin_pool", "base_alloc", "memory_fraction", "record_stream", "reset"),
    (torch_standin.HOOKS[hook] for hook in ("set_begin_allocate_to_pool", "set_base_alloc_fn", "set_memory_fraction_fn",
                                            "set_record_stream_fn", "set_reset_fn")))])
gpuconf.configure(limit="64MiB", libraries=["torch"])
""").splitlines() == [
        "{'torch': \"routed, in mode 'whole'\"}",
        "('gpuconf_torch_malloc', 'gpuconf_torch_free') ['set_base_alloc_fn', 'set_begin_allocate_to_pool', "
        "'set_memory_fraction_fn', 'set_record_stream_fn', 'set_reset_fn']",
        "False",
        "True [1]",
        "[0] 0",
        "[True, True, True, True, True]",
    ]


def test_torchs_functions_answer_with_the_books_of_the_threads_logical_gpu(torch: Callable[..., str]) -> None:
    assert torch("""
split(64, 32)
gpuconf.configure(libraries=["torch"])
pointer = torch_standin.plugged.raw_alloc(1000)
stats = torch._C._cuda_memoryStats(0)
print(stats["allocated_bytes"]["all"], stats["requested_bytes"]["all"]["current"],
      stats["allocation"]["all"]["current"])
print(torch.cuda.mem_get_info(), torch._C._cuda_getMemoryFraction(0) == 64 * MIB / (1 << 30))
with gpuconf.device("GPU:1"):
    print(torch.cuda.mem_get_info()[1] // MIB, torch._C._cuda_memoryStats(0)["allocation"]["all"]["current"])
torch_standin.plugged.raw_delete(pointer)
print(torch._C._cuda_memoryStats(0)["allocated_bytes"]["all"]["peak"])
torch._C._cuda_resetPeakMemoryStats(0)
torch._C._cuda_resetAccumulatedMemoryStats(0)
print(torch._C._cuda_memoryStats(0)["allocated_bytes"]["all"]["peak"])
print([(s["device"], s["total_size"] // MIB, len(s["blocks"]))
       for s in torch._C._cuda_memorySnapshot((0, 0))["segments"]])
""").splitlines() == [
        "{'current': 1024, 'peak': 1024, 'allocated': 1024, 'freed': 0} 1000 1",
        "(67107840, 67108864) True",
        "32 0",
        "1024",
        "0",
        "[(0, 64, 1)]",
    ]


def test_torchs_generic_functions_and_totals_are_right_or_refused(torch: Callable[..., str]) -> None:
    """`torch.accelerator` returned 0 bytes and no statistics, because it regarded a foreign allocator as not in use."""
    out = torch("""
gpuconf.configure(limit="64MiB", libraries=["torch"])
print(torch._C._accelerator_isAllocatorInitialized())
pointer = torch_standin.plugged.raw_alloc(1000)
torch_standin.plugged.raw_delete(torch_standin.plugged.raw_alloc(5000))
for _ in range(3):
    torch_standin.plugged.raw_alloc(65 * MIB)
print(torch._C._accelerator_isAllocatorInitialized())
def show():
    stats = torch._C._accelerator_getDeviceStats(0)
    assert stats == torch._C._cuda_memoryStats(0)
    sizes, counts = stats["allocated_bytes"]["all"], stats["allocation"]["all"]
    print(*sizes.values(), *counts.values(), stats["num_ooms"], stats["segment"]["all"])
    print(sorted(key for key, value in stats.items()
                 if isinstance(value, dict) and "all" in value and "peak" not in value["all"]))
show()
torch._C._accelerator_resetAccumulatedStats(0)
torch._C._accelerator_resetPeakStats(0)
show()
print(torch._C._accelerator_getMemoryInfo(0) == torch.cuda.mem_get_info())
print(torch.cuda.memory_summary().splitlines()[1].strip(), "num_alloc_retries" in torch._C._cuda_memoryStats(0))
torch._C._cuda_cudaCachingAllocator_enable(True)
try:
    torch._C._cuda_cudaCachingAllocator_enable(False)
except NotImplementedError as error:
    print("mode 'whole'" in str(error))
print(torch._C._cuda_memorySnapshot((0, 7))["segments"])
""")
    missing = "['active', 'allocation', 'requested_bytes', 'segment']"
    assert out.splitlines() == [
        "False",
        "True",
        "1024 6144 6144 5120 1 2 1 3 {'current': 1}",
        missing,
        "1024 1024 0 0 1 0 0 0 {'current': 1}",
        missing,
        "True",
        "PyTorch on gpuconf: memory of /device:GPU:0 on CUDA device 0 False",
        "True",
        "[]",
    ]


def test_a_scope_switches_torchs_device_and_stream_and_back(torch: Callable[..., str]) -> None:
    out = torch(
        """
split(64, 32)
gpuconf.configure(libraries=["torch"])
def where():
    return torch_standin.device, bool(torch_standin.Stream.current.cuda_stream)
with gpuconf.device("GPU:1"):
    print(where())
    inner = torch_standin.plugged.raw_alloc(1000)
    with gpuconf.device("GPU:0"):
        print(where())
    with gpuconf.device("GPU:2"):
        print(where())
    stream = torch_standin.Stream.current
print(where(), live(), torch_standin.STREAMS)
torch_standin.Stream.current = stream            # like a thread of autograd's: the stream of the scope, and no scope
import threading
thread = threading.Thread(target=torch_standin.plugged.raw_alloc, args=(1000,))
thread.start()
thread.join()
print(live())
""",
        FAKECUDA_GPUS="2",
    )
    waits = ["True waits for False", "False waits for True", "True waits for False", "False waits for True"]
    assert out.splitlines() == ["(0, True)", "(0, False)", "(1, True)", f"(0, False) [0, 1, 0] {waits}", "[0, 2, 0]"]


def test_a_version_outside_the_tested_sets_is_warned_of_when_it_is_routed(torch: Callable[..., str]) -> None:
    assert torch("""
import logging
logging.basicConfig(stream=sys.stdout, format="%(message).60s")
torch.__version__ = "2.10.0"
gpuconf.configure(limit="64MiB", libraries=["torch"])
gpuconf.configure(limit="64MiB", libraries=["torch"])
""").splitlines() == ["PyTorch 2.10.0 is routed, but gpuconf is not tested with this ve"[:60]]


def test_torch_too_late(torch: Callable[..., str]) -> None:
    out = torch("""
torch_standin.init()
for call in (gpuconf.configure, gpuconf.allocators.torch.install):
    try:
        call()
    except gpuconf.errors.FailedPreconditionError as error:
        print(error)
""")
    assert all("PyTorch has already used the GPU" in line for line in out.splitlines())
    assert len(out.splitlines()) == 2


def test_numbas_manager_keeps_the_books_and_waits_once_there_are_streams(numba: Callable[..., str]) -> None:
    assert numba("""
print(gpuconf.configure(limit="64MiB", libraries=["numba"]).libraries)
context = numba_standin.Context()
manager = context.memory_manager
manager.initialize()
pointer = manager.memalloc(1000)
print(live(), pointer.handle % 256, manager.get_memory_info())
del pointer
print(live(), numba_standin.waits)
context.create_stream()
for _ in range(10):
    manager.memalloc(1000)
print(live(), numba_standin.waits)
manager.memalloc(1000)
print(live(), numba_standin.waits)
try:
    manager.memalloc(65 * MIB)
except MemoryError as error:
    print(" out of memory" in str(error))
from gpuconf._core import injected
injected.fail_allocation(1)
try:
    manager.memalloc(1000)
except MemoryError as error:
    print(" out of memory, an injected failure" in str(error), injected.counted())
kept = manager.memalloc(1000)
try:
    manager.get_ipc_handle(kept)
except NotImplementedError as error:
    print("growth=False" in str(error))
manager.reset()
del kept
print(live())
""").splitlines() == [
        "{'numba': 'routed'}",
        "[1] 0 MemoryInfo(free=67107840, total=67108864)",
        "[0] 0",
        "[10] 0",
        "[0] 1",
        "True",
        "True 1",
        "True",
        "[0]",
    ]


def test_a_scope_that_is_open_at_exit_switches_nothing_back(driver: Path) -> None:
    """PyTorch's stream and device were restored by a generator, which Python finished after PyTorch was torn down."""
    done = no_gpu.completed(
        driver,
        TORCH
        + """
split(32, 16)
gpuconf.configure(libraries=["torch"])
torch_standin.init()
sys.scope = gpuconf.device("GPU:1")
sys.scope.__enter__()

def suspended():
    with gpuconf.device("GPU:0"), gpuconf.device("GPU:1"):
        yield

sys.suspended = suspended()
next(sys.suspended)
print(torch_standin.STREAMS)
import os
torch_standin.Stream.wait_stream = lambda self, other, write=os.write: write(2, b"switched back\\n")
""",
    )
    entered = "['True waits for False', 'False waits for True', 'True waits for False']\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, entered, "")
