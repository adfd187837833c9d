"""A Buffer as the result or argument of a Dask task.

A buffer returned by a task failed with 80 lines of log, and its memory stayed in use until a garbage collection. Now it
is sent as its bytes. A first version allocated when the bytes arrived: an out-of-memory error there left the task
waiting forever.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import warnings
from typing import Any

import gpuconf
import numpy as np
import pytest
from gpuconf import errors, memory
from gpuconf._core.table import make
from gpuconf.memory._arrived import ArrivedBuffer
from script import run, run_well

MIB = 1 << 20

# Two workers with two simulated GPUs each. The client has none. Their garbage collection is off.
PROGRAM = """
import json, os, time
import distributed
import gpuconf

MIB = 1 << 20

def made(nbytes=10 * MIB, nested=False):
    buffer = gpuconf.memory.allocate(nbytes)
    buffer.copy_from_host(b"mine")
    return {"first": 1, "then": [buffer]} if nested else buffer

def freed():
    buffer = made()
    buffer.free()
    return buffer

def used(buffer):
    buffer = buffer["then"][0] if isinstance(buffer, dict) else buffer
    with gpuconf.device("GPU:1"):
        return isinstance(buffer, gpuconf.memory.Buffer), buffer.device.name, bytes(buffer.copy_to_host()[:4]).decode()

def in_use():
    return [gpuconf.memory.stats(f"GPU:{n}").bytes_in_use for n in (0, 1)]

def limited():
    gpuconf.configure(limit="5MiB")

def expect_the_end():
    # A worker may be in a heartbeat when the scheduler closes, and logs that as an error.
    worker = __import__("logging").getLogger("distributed.worker")
    worker.addFilter(lambda record: "heartbeat" not in record.getMessage())

def wait_until_free(worker):
    deadline = time.monotonic() + 60
    while (left := client.run(in_use, workers=[worker])[worker]) != [0, 0] and time.monotonic() < deadline:
        time.sleep(0.05)
    return left

def outcome(future):
    try:
        return future.result(timeout=60)
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\\n")[0]

facts = {}
workers = {"env": {"GPUCONF_SIMULATE": "2xT4", "CUDA_VISIBLE_DEVICES": "0,1"}, "threads_per_worker": 1,
           "dashboard_address": None}
with distributed.Client(n_workers=2, **workers) as client:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    client.run(__import__("gc").disable)
    client.run(expect_the_end)
    a, b = client.scheduler_info()["workers"]

    result = client.submit(made, workers=[a])
    received = result.result()
    text = bytes(received.copy_to_host()[:4]).decode()
    facts["client"] = isinstance(received, gpuconf.memory.Buffer), received.nbytes, text
    facts["client initialized"] = gpuconf._core.runtime.initialized()
    facts["known size"] = client.nbytes(summary=False)[result.key]
    try:
        received.ptr
    except ValueError as error:
        facts["client's device"] = str(error)
    facts["in use"] = client.run(in_use, workers=[a])[a]
    facts["other worker"] = outcome(client.submit(used, result, workers=[b]))
    del result
    facts["after release"] = wait_until_free(a), wait_until_free(b)

    result = client.submit(made, nested=True, workers=[a])
    facts["nested"] = outcome(client.submit(used, result, workers=[b]))
    facts["nested in client"] = bytes(result.result()["then"][0].copy_to_host()[:4]).decode()
    del result
    scattered = client.scatter(received, workers=[a])
    facts["scattered"] = outcome(client.submit(used, scattered, workers=[b]))
    del scattered
    facts["after more"] = wait_until_free(a), wait_until_free(b)
print(json.dumps(facts))
"""

LITTLE = """
with distributed.Client(n_workers=2, **workers) as client:
    a, b = client.scheduler_info()["workers"]
    client.run(limited, workers=[b])
    large, small = client.submit(made, workers=[a]), client.submit(made, MIB, workers=[a])
    facts["large"] = outcome(client.submit(used, large, workers=[b]))
    facts["small"] = outcome(client.submit(used, small, workers=[b]))
    del large, small
    facts["freed"] = outcome(client.submit(used, client.submit(freed, workers=[a]), workers=[b]))
    facts["after"] = wait_until_free(a), wait_until_free(b)
print(json.dumps(facts))
"""


def arrived(nbytes: int, data: bytearray) -> ArrivedBuffer:
    """Dask's deserialization of received bytes."""
    return make(ArrivedBuffer, nbytes, data)


@pytest.fixture(scope="module")
def facts() -> Any:
    """The program's observations.

    Dask must log no error; on a busy machine it may warn of a worker that is slow to end.
    """
    done = run(PROGRAM, timeout=180)
    assert done.code == 0, done
    assert not {"ERROR", "CRITICAL", "Traceback"} & set(done.stderr.split()), done.stderr
    return json.loads(done.stdout)


def test_a_client_without_a_gpu_reads_the_bytes(facts: Any) -> None:
    assert facts["client"] == [True, 10 * MIB, "mine"]
    assert not facts["client initialized"]
    assert facts["client's device"].startswith("unknown device GPU:0: this process has no logical GPU")


def test_another_worker_uses_it_on_the_gpu_of_its_scope(facts: Any) -> None:
    assert facts["other worker"] == facts["nested"] == facts["scattered"] == [True, "/device:GPU:1", "mine"]
    assert facts["nested in client"] == "mine"


def test_dask_knows_its_size(facts: Any) -> None:
    assert facts["known size"] == 10 * MIB


def test_its_memory_is_freed_with_the_result_and_without_a_collection(facts: Any) -> None:
    assert facts["in use"] == [10 * MIB, 0]
    assert facts["after release"] == facts["after more"] == [[0, 0], [0, 0]]


def test_what_a_receiver_can_not_use_fails_its_task_only() -> None:
    done = run(PROGRAM.partition("with distributed")[0] + LITTLE, timeout=180)  # Dask logs the failed task
    assert done.code == 0, done
    facts = json.loads(done.stdout)
    assert facts["large"].startswith("ResourceExhaustedError: OOM when allocating 10.00MiB")
    assert facts["small"] == [True, "/device:GPU:1", "mine"]
    assert facts["after"] == [[0, 0], [0, 0]]
    assert facts["freed"] == f"InvalidArgumentError: this buffer of {10 * MIB} bytes was freed"


@pytest.mark.parametrize("order", ["import gpuconf, distributed", "import distributed, gpuconf"])
def test_it_is_registered_whichever_is_imported_first(order: str) -> None:
    program = f"""
    {order}
    from distributed.protocol import deserialize, serialize
    gpuconf.simulate("T4")
    with gpuconf.memory.allocate(5) as buffer:
        buffer.copy_from_host(b"mine!")
        header, frames = serialize(buffer)
    print(header["serializer"], deserialize(header, frames).copy_to_host())
    """
    assert run_well(program) == "dask bytearray(b'mine!')\n"


@pytest.mark.usefixtures("two_gpus")
def test_threads_that_use_it_first_at_once_share_one_allocation() -> None:
    buffer = arrived(1000, bytearray(1000))
    gate, addresses = threading.Barrier(8), []

    def use() -> None:
        gate.wait()
        addresses.append(buffer.ptr)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(addresses)) == 1
    assert len(addresses) == 8
    assert memory.stats().live_blocks == 1
    buffer.free()
    assert memory.stats().live_blocks == 0


@pytest.mark.usefixtures("one_gpu")
def test_it_is_a_buffer_in_all_else() -> None:
    buffer = arrived(4, bytearray(b"mine"))
    assert repr(buffer) == "<gpuconf.Buffer of 4 bytes, in host memory>"
    out = bytearray(2)
    assert buffer.copy_to_host(out, 1) is out == b"in"
    assert memory.live_buffers() == []
    for offset, size in ((0, 5), (3, 2), (5, 0), (-1, 1)):
        with pytest.raises(ValueError, match="do not fit"):
            buffer.copy_to_host(bytearray(size), offset)
    buffer.copy_from_host(b"M")
    assert repr(buffer).startswith("<gpuconf.Buffer of 4 bytes on /device:GPU:0, at 0x")
    assert len(memory.live_buffers()) == 1
    assert bytes(np.from_dlpack(buffer)) == bytes(buffer.view()) == buffer.copy_to_host() == b"Mine"
    assert buffer.copy_to_host(bytearray(2), 2) == b"ne"
    assert not hasattr(buffer, "__cuda_array_interface__")
    assert not buffer.freed
    gc.collect()  # the view
    with buffer:
        pass
    assert buffer.freed
    buffer.free()
    with pytest.raises(ValueError, match="was freed"):
        buffer.copy_to_host()


@pytest.mark.usefixtures("one_gpu")
def test_freed_before_it_is_used() -> None:
    with arrived(4, bytearray(b"mine")) as buffer:
        pass
    assert buffer.freed
    for use in (buffer.copy_to_host, lambda: buffer.ptr, lambda: buffer.copy_from_host(b"x"), lambda: buffer.view()):
        with pytest.raises(ValueError, match="this buffer of 4 bytes was freed"):
            use()


@pytest.mark.usefixtures("one_gpu")
def test_dropped_it_frees_itself_without_a_warning() -> None:
    """The program did not allocate it: Dask did, and frees what it holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer = arrived(4, bytearray(b"mine"))
        assert buffer.ptr
        del buffer
    assert memory.stats().live_blocks == 0


def test_a_failed_first_use_keeps_the_bytes() -> None:
    gpuconf.simulate("T4")
    gpuconf.configure(limit="5MiB")
    buffer = arrived(4 * MIB, bytearray(b"m") * (4 * MIB))
    with memory.allocate(4 * MIB), pytest.raises(errors.ResourceExhaustedError):
        buffer.ptr  # noqa: B018
    assert buffer.copy_to_host()[-1:] == b"m"
    assert buffer.device.name == "/device:GPU:0"
    assert buffer.copy_to_host()[-1:] == b"m"
    buffer.free()


def test_elsewhere_the_error_has_one_line_and_leaks_nothing() -> None:
    """In a process pool, whose worker fails to pickle the result."""
    program = f"""
    import gc, sys
    sys.path.insert(0, {str(sys.path[0])!r})
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context
    from gpuconf import memory

    if __name__ == "__main__":
        with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=gc.disable) as pool:
            print(pool.submit(memory.allocate, 1000).exception())
            print(pool.submit(memory.stats).result().bytes_in_use)
    """
    error, left = run_well(program, env={"GPUCONF_SIMULATE": "T4"}, timeout=60).splitlines()
    assert (
        error
        == "a Buffer owns device memory and cannot be copied or pickled: send its bytes (buffer.copy_to_host()) instead"
    )
    assert left == "0"
