"""Pools of unified memory, which may exceed the GPU:
``per_process_gpu_memory_fraction`` above 1, and ``use_unified_memory``.

The fraction used to raise only the limit: the pool still requested device memory, and an allocation beyond the card
failed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpuconf
import gpuconf.compat.v1 as tf1
import numpy as np
import pytest
from gpuconf import memory
from test_cuda_driver import FAKECUDA, run

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
CARD = 64 * MIB


@pytest.fixture(autouse=True)
def fresh_graph() -> Iterator[None]:
    tf1.reset_default_graph()
    yield
    tf1.reset_default_graph()


def unified(**options: Any) -> tf1.ConfigProto:
    experimental = tf1.GPUOptions.Experimental(use_unified_memory=True, **options.pop("experimental", {}))
    return tf1.ConfigProto(gpu_options=tf1.GPUOptions(experimental=experimental, **options))


def fraction(value: float, **options: Any) -> tf1.ConfigProto:
    return tf1.ConfigProto(gpu_options=tf1.GPUOptions(per_process_gpu_memory_fraction=value, **options))


def pattern(number: int, nbytes: int) -> bytes:
    return np.arange(number, number + nbytes // 4, dtype=np.uint32).tobytes()


def test_one_and_a_half_cards_are_written_and_read() -> None:
    gpuconf.simulate("T4:64MiB")
    tf1.Session(config=fraction(1.5))
    assert memory.stats().bytes_limit == CARD * 3 // 2
    buffers = [memory.allocate(8 * MIB) for _ in range(12)]
    for number, buffer in enumerate(buffers):
        buffer.copy_from_host(pattern(number, 8 * MIB))
    assert memory.stats().oversubscribed_bytes == CARD // 2
    for number, buffer in enumerate(buffers):
        assert bytes(buffer.view()) == pattern(number, 8 * MIB), number
    assert gpuconf.config.experimental.get_memory_info("GPU:0") == {"current": 96 * MIB, "peak": 96 * MIB}
    with pytest.raises(gpuconf.errors.ResourceExhaustedError) as error:
        memory.allocate(1)
    assert "the memory in use exceeds that by 32.00MiB (33554432 bytes), which is in host memory" in str(error.value)
    for number, buffer in enumerate(buffers):
        buffer.free()
        assert memory.stats().oversubscribed_bytes == max(0, CARD // 2 - (number + 1) * 8 * MIB)


def test_operations_work_beyond_the_card() -> None:
    gpuconf.simulate("T4:64MiB")
    with tf1.Session(config=fraction(1.5)) as session:
        ballast = memory.allocate(60 * MIB)
        with tf1.device("/gpu:0"):
            a = tf1.constant(np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024))
            total = tf1.add(a, a)
        assert np.array_equal(session.run(total), 2 * np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024))
        with gpuconf.device("GPU:0"):
            x = gpuconf.matmul(np.full((1024, 1024), 2.0, np.float32), np.full((1024, 1024), 0.5, np.float32))
            y = gpuconf.add(x, x)
        assert memory.stats().oversubscribed_bytes == 4 * MIB
        assert np.array_equal(y.numpy(), np.full((1024, 1024), 2048, np.float32))
        del x, y
        ballast.free()


def test_the_picture_shows_what_exceeds_the_card() -> None:
    gpuconf.simulate("T4:64MiB")
    tf1.Session(config=fraction(1.5))
    with memory.allocate(60 * MIB):
        assert str(memory.memory_map()).count("\n") == 1
        with memory.allocate(10 * MIB):
            picture = memory.memory_map()
            assert picture.oversubscribed_bytes == 6 * MIB
            assert (
                str(picture).splitlines()[1]
                == "  memory in use exceeds this GPU's memory by 6.00MiB, which is in host memory"
            )


def test_the_fraction_is_of_each_gpu() -> None:
    gpuconf.simulate("V100-16GB:64MiB,T4:32MiB")
    tf1.Session(config=fraction(1.25))
    assert [memory.stats(gpu).bytes_limit for gpu in ("GPU:0", "GPU:1")] == [80 * MIB, 40 * MIB]
    with memory.allocate(40 * MIB, "GPU:1"):
        assert [memory.stats(gpu).oversubscribed_bytes for gpu in ("GPU:0", "GPU:1")] == [0, 8 * MIB]


@pytest.mark.parametrize("grows", [False, True])
def test_a_fraction_up_to_one_may_be_unified_memory_too(grows: bool) -> None:
    gpuconf.simulate("T4:64MiB")
    tf1.Session(config=unified(per_process_gpu_memory_fraction=0.5, allow_growth=grows))
    with memory.allocate(MIB):
        stats = memory.stats()
        assert (stats.bytes_limit, stats.bytes_reserved) == (CARD // 2, 2 * MIB if grows else CARD // 2)
        assert stats.oversubscribed_bytes == 0
    with memory.allocate(20 * MIB):
        assert memory.stats().stitches == 0, "managed memory is not mapped granule by granule"


def test_logical_gpus_share_a_card_of_unified_memory() -> None:
    gpuconf.simulate("T4:64MiB")
    virtual = tf1.GPUOptions.Experimental.VirtualDevices(memory_limit_mb=[48, 48])
    with pytest.raises(
        ValueError, match="It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set"
    ):
        tf1.Session(config=unified(per_process_gpu_memory_fraction=1.5, experimental={"virtual_devices": [virtual]}))
    tf1.Session(config=unified(experimental={"virtual_devices": [virtual]}))
    with memory.allocate(48 * MIB, "GPU:0") as first, memory.allocate(48 * MIB, "GPU:1") as second:
        for number, buffer in enumerate((first, second)):
            buffer.copy_from_host(pattern(number, 48 * MIB))
        assert [memory.stats(gpu).oversubscribed_bytes for gpu in ("GPU:0", "GPU:1")] == [32 * MIB, 32 * MIB]
        assert bytes(first.view()) == pattern(0, 48 * MIB)
        assert bytes(second.view()) == pattern(1, 48 * MIB)


def test_a_fraction_shared_evenly() -> None:
    gpuconf.simulate("T4:64MiB")
    tf1.Session(config=unified(per_process_gpu_memory_fraction=1.5, experimental={"num_virtual_devices_per_gpu": 3}))
    with memory.allocate(32 * MIB, "GPU:0"), memory.allocate(32 * MIB, "GPU:1"), memory.allocate(32 * MIB, "GPU:2"):
        assert memory.stats("GPU:1").oversubscribed_bytes == 32 * MIB


def test_a_program_that_starts_with_unified_memory() -> None:
    gpuconf.simulate("T4:64MiB")
    tf1.enable_eager_execution(unified())
    gpu = gpuconf.config.list_physical_devices("GPU")[0]
    gpuconf.config.set_logical_device_configuration(gpu, [gpuconf.config.LogicalDeviceConfiguration(memory_limit=96)])
    with memory.allocate(96 * MIB) as buffer:
        buffer.copy_from_host(pattern(5, 96 * MIB))
        assert memory.stats().oversubscribed_bytes == 32 * MIB


def test_another_session_without_it_is_refused_while_memory_is_in_use() -> None:
    gpuconf.simulate("T4:64MiB")
    tf1.Session(config=fraction(1.5))
    with memory.allocate(1), pytest.raises(gpuconf.errors.FailedPreconditionError, match="GPU options differ"):
        tf1.Session(config=fraction(1.0))
    tf1.Session(config=fraction(1.0))
    with memory.allocate(CARD), pytest.raises(gpuconf.errors.ResourceExhaustedError):
        memory.allocate(1)


def test_limits_of_their_own_on_an_old_card() -> None:
    """TensorFlow checks the sizes that it computes: an explicit limit is not checked, so unified memory has to fit on
    the GPU.
    """
    gpuconf.simulate("K40:64MiB")
    virtual = tf1.GPUOptions.Experimental.VirtualDevices(memory_limit_mb=[96])
    with pytest.warns(UserWarning, match=r"GPU:0 is 96\.00MiB, and Tesla K40c has only 64\.00MiB"):
        tf1.Session(config=unified(experimental={"virtual_devices": [virtual]}))
    with memory.allocate(40 * MIB), pytest.raises(gpuconf.errors.ResourceExhaustedError, match="out of memory"):
        memory.allocate(40 * MIB)


# Over CUDA's driver interface, with the stand-in for libcuda.so.1.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fakecuda")
    subprocess.run([sys.executable, FAKECUDA / "build.py", place], check=True, capture_output=True)
    return place


def test_cudas_managed_memory(folder: Path) -> None:
    out = run(
        folder,
        f"""
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_interchange import drop, take
import gpuconf.compat.v1 as tf1
tf1.Session(config=tf1.ConfigProto(gpu_options=tf1.GPUOptions(per_process_gpu_memory_fraction=1.5)))
buffers = [tf.memory.allocate(16 * MIB) for _ in range(6)]
for number, buffer in enumerate(buffers):
    buffer.copy_from_host(bytes([number]) * 16 * MIB)
print([set(buffer.copy_to_host()) for buffer in buffers], tf.memory.stats().oversubscribed_bytes // MIB)
print(driver.fakecuda_count(b"cuMemAllocManaged"), driver.fakecuda_count(b"cuMemAlloc"), live())
buffer = buffers[0]
print(buffer.__dlpack_device__(), buffer.__cuda_array_interface__["data"][0] == buffer.ptr)
for asked in (None, (13, 0), (2, 0)):
    for version in (None, (1, 0)):
        managed = take(buffer.__dlpack__(dl_device=asked, max_version=version, stream=2))
        print((managed.tensor.device_type, managed.tensor.device_id), managed.tensor.data == buffer.ptr, end=" ")
        drop(managed)
print()
for refused in ((2, 1), (13, 1), (1, 0), (3, 0)):
    try:
        buffer.__dlpack__(dl_device=refused)
    except BufferError as error:
        print(error)
for buffer in buffers:
    buffer.free()
tf.reset()
print(live())
""",
        FAKECUDA_MEMORY=str(CARD),
    )
    lines = out.splitlines()
    assert lines[0] == "[{0}, {1}, {2}, {3}, {4}, {5}] 32"
    assert lines[1].startswith("1 0 {'allocations': 1")
    assert lines[2] == "(13, 0) True"
    assert lines[3] == "(13, 0) True (13, 0) True (13, 0) True (13, 0) True (2, 0) True (2, 0) True "
    assert lines[4] == "this buffer is on DLPack device (13, 0) and cannot be moved to (2, 1): copy it"
    assert len(lines) == 9
    assert lines[-1] == "{}"


def test_memory_without_it_stays_device_memory(folder: Path) -> None:
    out = run(
        folder,
        """
with tf.memory.allocate(MIB) as buffer:
    print(buffer.__dlpack_device__(), driver.fakecuda_count(b"cuMemAllocManaged"))
""",
    )
    assert out == "(2, 0) 0\n"


def test_a_gpu_without_managed_memory(folder: Path) -> None:
    """A vGPU has none. TensorFlow creates the device, but every allocation on it fails."""
    out = run(
        folder,
        """
import gpuconf.compat.v1 as tf1
try:
    tf1.Session(config=tf1.ConfigProto(gpu_options=tf1.GPUOptions(per_process_gpu_memory_fraction=1.5)))
except NotImplementedError as error:
    print(type(error).__name__, error, live())
tf.memory.allocate(MIB).free()
""",
        FAKECUDA_WITHOUT="managed",
    )
    assert out == (
        "UnimplementedError GPU:0 cannot use unified memory: NVIDIA Fake 1GB (GPU 0) does not support managed memory. "
        "Do not set "
        "use_unified_memory, and keep per_process_gpu_memory_fraction at 1 or below {}\n"
    )


def test_the_driver_refuses_the_whole_limit(folder: Path) -> None:
    """Without concurrent access, as under WSL, managed memory must fit: the pool shrinks to what is available, with a
    warning.
    """
    out = run(
        folder,
        """
import logging
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s", level=logging.WARNING)
import gpuconf.compat.v1 as tf1
tf1.Session(config=tf1.ConfigProto(gpu_options=tf1.GPUOptions(per_process_gpu_memory_fraction=1.5)))
with tf.memory.allocate(60 * MIB):
    try:
        tf.memory.allocate(20 * MIB)
    except tf.errors.ResourceExhaustedError as error:
        print("the limit was not reached, but the GPU refused" in str(error), tf.memory.stats().oversubscribed_bytes)
""",
        FAKECUDA_MEMORY=str(CARD),
        FAKECUDA_WITHOUT="concurrent",
    )
    assert out == (
        "WARNING the limit of GPU:0 is 96.00MiB, and NVIDIA Fake 0GB has only 64.00MiB: the excess is not "
        "available\nTrue 0\n"
    )
