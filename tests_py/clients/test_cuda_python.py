# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's cuda-bindings and cuda-core on the simulated driver.

Neither package has its own tests in it, and there is no sdist: these use the public interfaces. What compiles or runs
kernels is left out. Calls of the CUDA runtime, such as Device.pci_bus_id, do not work: NVIDIA's runtime asks the driver
for tables without a name.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import simulation

missing = [
    name
    for name in ("cuda.bindings", "cuda.core")
    if importlib.util.find_spec("cuda") is None or not importlib.util.find_spec(name)
]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"{missing} missing; make test-clients installs them")

PRELUDE = """
import cuda.core as cc
from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions
device = Device(0)
device.set_current()
stream = device.create_stream()
"""


def printed(program: str) -> list[str]:
    return simulation.printed(PRELUDE + program)


def test_the_bindings_of_the_driver_and_of_nvml() -> None:
    program = """
from cuda.bindings import driver, nvml
def must(answer):
    assert int(answer[0]) == 0, answer
    return answer[1] if len(answer) == 2 else answer[1:]
must(driver.cuInit(0))
name = must(driver.cuDeviceGetName(96, 0)).split(bytes(1))[0].decode()
print(must(driver.cuDeviceGetCount()), name, must(driver.cuDriverGetVersion()))
must(driver.cuCtxSetCurrent(must(driver.cuDevicePrimaryCtxRetain(0))))
at = must(driver.cuMemAlloc(1 << 30))
free, total = must(driver.cuMemGetInfo())
print((total - free) >> 20, int(driver.cuMemAlloc(40 << 30)[0]),
      must(driver.cuGetErrorName(driver.CUresult(2))).decode())
nvml.init_v2()
print(nvml.device_get_count_v2(), nvml.device_get_name(nvml.device_get_handle_by_index_v2(1)))
"""
    assert simulation.printed(program) == [
        "2 NVIDIA A100-SXM4-40GB 13000",
        "1024 2 CUDA_ERROR_OUT_OF_MEMORY",
        "2 NVIDIA A100-SXM4-40GB",
    ]


def test_devices() -> None:
    program = """
print(cc.system.get_num_devices(), device.name, tuple(device.compute_capability),
      device.properties.multiprocessor_count)
properties = [name for name in dir(device.properties) if getattr(device.properties, name) is not None]
print(device.can_access_peer(Device(1)), len(properties) > 100)
"""
    assert printed(program) == ["2 NVIDIA A100-SXM4-40GB (8, 0) 108", "True True"]


def test_memory_copies_events_and_the_end_of_memory() -> None:
    program = """
import ctypes
host, other = (cc.LegacyPinnedMemoryResource().allocate(4096, stream=stream) for _ in range(2))
ctypes.memset(int(host.handle), 7, 4096)
buffer = device.allocate(4096, stream=stream)
buffer.copy_from(host, stream=stream)
other.copy_from(buffer, stream=stream)
event = stream.record()
event.sync()
print(ctypes.string_at(int(other.handle), 3), event.is_done)
buffer.fill(9, stream=stream)
other.copy_from(buffer, stream=stream)
stream.sync()
print(ctypes.string_at(int(other.handle), 3))
try:
    device.allocate(50 << 30, stream=stream)
except Exception as error:
    print(type(error).__name__, str(error).split(":")[0])
"""
    assert printed(program) == [r"b'\x07\x07\x07' True", r"b'\t\t\t'", "CUDAError CUDA_ERROR_OUT_OF_MEMORY"]


def test_memory_resources() -> None:
    """A pool takes segments of 32 MiB, and so much although its largest size is less, as on an H200."""
    program = """
pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=4 << 20))
buffer = pool.allocate(1 << 20, stream=stream)
says = pool.attributes
print(says.reserved_mem_current >> 20, says.reserved_mem_high >> 20, says.used_mem_high >> 20,
      says.reuse_allow_opportunistic)
try:
    pool.allocate(40 << 20, stream=stream)
except Exception as error:
    print(str(error).split(":")[0])
buffer.close(stream)
print(pool.attributes.used_mem_current, pool.attributes.used_mem_high >> 20)
for resource in cc.VirtualMemoryResource(device), cc.ManagedMemoryResource():
    one = resource.allocate(4 << 20, stream=stream)
    print(one.size >> 20, one.is_device_accessible)
    one.close()
"""
    assert printed(program) == ["32 32 1 True", "CUDA_ERROR_OUT_OF_MEMORY", "0 1", "4 True", "4 True"]


def test_memory_of_a_graph() -> None:
    """A query without the capture's number ended the process, and graphs did not release objects."""
    program = """
builder = device.create_graph_builder()
builder.begin_building()
buffer = cc.GraphMemoryResource(device).allocate(1 << 20, stream=builder)
buffer.close(builder)
graph = builder.end_building().complete()
graph.launch(stream)
stream.sync()
print("done")
"""
    assert printed(program) == ["done"]


def test_a_process_is_suspended(tmp_path: Path) -> None:
    """With cuda-core's checkpoint module, whose mapping names each card of the machine."""
    target, caller = tmp_path / "target.py", tmp_path / "caller.py"
    target.write_text("""
import sys
from cuda.core import Device
device = Device(0)
device.set_current()
buffer = device.allocate(1 << 30, stream=device.create_stream())
for line in sys.stdin:
    print(int(buffer.handle), flush=True)
""")
    caller.write_text("""
import subprocess, sys
from cuda.bindings import driver
from cuda.core import Device, checkpoint
from cuda.core._utils.cuda_utils import CUDAError
target = subprocess.Popen([sys.executable, sys.argv[1]], stdin=-1, stdout=-1, text=True)
def address():
    target.stdin.write("?\\n")
    target.stdin.flush()
    return target.stdout.readline()
def used():
    free, total = driver.cuMemGetInfo()[1:]
    return (total - free) >> 20
Device(0).set_current()
before, process = address(), checkpoint.Process(target.pid)
print(process.state, used(), process.restore_thread_id != target.pid)
process.lock(timeout_ms=10000)
try:
    process.restore()
except CUDAError as error:
    print(str(error).split(":")[0])
process.checkpoint()
print(process.state, used())
process.restore({Device(n).uuid: Device(n).uuid for n in (0, 1)})
print(process.state, used())
process.unlock()
print(process.state, address() == before)
target.kill()
""")
    done = simulation.run(sys.executable, "-W", "ignore", caller, target)
    assert done.stdout.splitlines() == [
        "running 1024 True",
        "CUDA_ERROR_ILLEGAL_STATE",
        "checkpointed 0",
        "locked 1024",
        "running True",
    ], done.stderr


def test_a_buffer_and_an_event_go_to_another_process(tmp_path: Path) -> None:
    program = tmp_path / "passing.py"
    program.write_text("""
import ctypes
import multiprocessing
import cuda.core as cc
from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions, EventOptions

def child(answers, pool, buffer, event):
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    stream.wait(event)
    host = cc.LegacyPinnedMemoryResource().allocate(64, stream=stream)
    host.copy_from(buffer, stream=stream)
    stream.sync()
    answers.put(ctypes.string_at(int(host.handle), 4))

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 30, ipc_enabled=True))
    buffer = pool.allocate(64, stream=stream)
    buffer.fill(0x41, stream=stream)
    event = stream.record(options=EventOptions(ipc_enabled=True))
    answers = multiprocessing.Queue()
    process = multiprocessing.Process(target=child, args=(answers, pool, buffer, event))
    process.start()
    print(answers.get(timeout=60))
    process.join()
    print(process.exitcode)
""")
    done = simulation.run(sys.executable, program)
    assert (done.returncode, done.stdout) == (0, "b'AAAA'\n0\n"), done.stderr
