"""The functions for PyTorch's and CuPy's plug-ins, called as they call them, from C++ threads on simulated GPUs."""

import ctypes
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import gpuconf
import pytest
from gpuconf import memory
from gpuconf._core import injected
from script import run_well

CXX = shutil.which("c++")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if CXX is None:
        pytest.skip("no C++ compiler")
    built = tmp_path_factory.mktemp("client") / "client.so"
    source = Path(__file__).with_name("plugin_client.cpp")
    subprocess.run(
        [CXX, *"-std=c++17 -Wall -Wextra -Werror -O1 -shared -fPIC -pthread".split(), source, "-o", built, "-ldl"],
        check=True,
    )
    library = ctypes.CDLL(str(built))
    library.client_take.restype = ctypes.c_void_p
    library.client_take.argtypes = (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
    library.client_give.argtypes = (ctypes.c_void_p,)
    library.client_catch.argtypes = (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
    library.client_hooks.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
    assert library.client_open(gpuconf.library_path().encode()) == 1
    return library


@pytest.fixture
def limited() -> None:
    """GPU:0 of 64 MiB and GPU:1 of 32 MiB on one card."""
    gpuconf.simulate("T4")
    card = gpuconf.config.list_physical_devices("GPU")[0]
    gpuconf.config.set_logical_device_configuration(
        card, [gpuconf.config.LogicalDeviceConfiguration(memory_limit=limit) for limit in (64, 32)]
    )
    gpuconf.config.list_logical_devices()


def live() -> list[int]:
    return [memory.stats(d.name).live_blocks for d in gpuconf.config.list_logical_devices("GPU")]


def caught(client: ctypes.CDLL, size: int, device: int = 0) -> str:
    text = ctypes.create_string_buffer(4096)
    assert client.client_catch(size, device, text, 4096) == 2, (
        "it was thrown, frames were cleaned up, no exception is counted as under way"
    )
    return text.value.decode()


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("size", [65 << 20, 1 << 40, -1])
def test_out_of_memory_is_thrown_and_caught_in_cpp(client: ctypes.CDLL, size: int) -> None:
    text = caught(client, size)
    assert text.startswith("CUDA out of memory. OOM when allocating ")
    assert " out of memory." in text, "accelerate looks for these letters"
    assert "limit 64.00MiB" in text
    assert live() == [0, 0]
    client.client_give(client.client_take(1000, 0, None))


@pytest.mark.usefixtures("limited")
def test_an_injected_failure_is_thrown_like_a_real_one(client: ctypes.CDLL) -> None:
    injected.fail_allocation(2)
    first = client.client_take(1000, 0, None)
    assert caught(client, 1000).startswith("CUDA out of memory. OOM when allocating 1000 bytes")
    injected.fail_allocation(1)
    assert " out of memory, an injected failure" in caught(client, 1000)
    client.client_give(client.client_take(1000, 0, None))
    client.client_give(first)
    assert live() == [0, 0]


@pytest.mark.usefixtures("limited")
def test_other_failures_are_thrown_with_their_own_words(client: ctypes.CDLL) -> None:
    assert caught(client, 1000, 7).startswith("CUDA device 7 has no logical GPU")


def test_before_the_devices_are_there_it_says_what_to_call(client: ctypes.CDLL) -> None:
    assert "gpuconf.config.list_logical_devices()" in caught(client, 1000)


@pytest.mark.usefixtures("limited")
def test_no_bytes_are_a_null_pointer_and_no_exception(client: ctypes.CDLL) -> None:
    assert client.client_take(0, 0, None) is None
    client.client_give(None)


@pytest.mark.usefixtures("limited")
def test_hooks_do_what_they_can_and_throw_what_they_can_not(client: ctypes.CDLL) -> None:
    block = client.client_take(1000, 0, None)
    text = ctypes.create_string_buffer(4096)
    client.client_hooks(block, text, 4096)
    told = text.value.decode().splitlines()
    assert told[0] == "nothing"
    assert "is not the address of a live block" in told[1]
    assert told[2] == "nothing"
    assert "limits cannot change once the devices are initialized" in told[3]
    assert told[4] == "nothing"
    assert "is not the address of a live block" in told[5]
    client.client_give(block)


@pytest.mark.usefixtures("limited")
def test_cpp_threads_keep_books_and_memory(client: ctypes.CDLL) -> None:
    failures: list[int] = []
    threads = [threading.Thread(target=lambda: failures.append(client.client_hammer(4, 500))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [0, 0]
    assert live() == [0, 0]


@pytest.mark.usefixtures("limited")
def test_the_stream_leads_a_thread_without_a_scope_to_its_logical_gpu(client: ctypes.CDLL) -> None:
    from gpuconf._core import abi as _abi

    stream = _abi.logical_stream(1)
    assert _abi.logical_stream(0) == 0
    assert _abi.logical_stream(1) == stream != 0
    blocks: list[Any] = []
    thread = threading.Thread(target=lambda: blocks.append(client.client_take(1000, 0, stream)))
    thread.start()
    thread.join()
    assert live() == [0, 1]
    with gpuconf.device("GPU:0"):
        blocks.append(client.client_take(1000, 0, stream))
    assert live() == [1, 1]
    for block in blocks:
        client.client_give(block)
    with pytest.raises(RuntimeError, match="unknown device GPU:2"):
        _abi.logical_stream(2)


@pytest.mark.usefixtures("limited")
def test_cupys_functions_ask_for_the_stream(client: ctypes.CDLL) -> None:
    from gpuconf._core import abi as _abi

    library = ctypes.PyDLL(gpuconf.library_path())  # CuPy holds the GIL in these calls
    library.gpuconf_cupy_malloc.restype = ctypes.c_void_p
    library.gpuconf_cupy_malloc.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    library.gpuconf_cupy_free.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    current = _abi.logical_stream(1)
    ask = ctypes.CFUNCTYPE(ctypes.c_ssize_t)(lambda: current)
    blocks = [library.gpuconf_cupy_malloc(param, 1000, 0) for param in (None, ctypes.cast(ask, ctypes.c_void_p).value)]
    assert live() == [1, 1]
    for block in blocks:
        library.gpuconf_cupy_free(None, block, 0)
    assert library.gpuconf_cupy_malloc(None, 65 << 20, 0) is None
    assert live() == [0, 0]


def test_without_a_cpp_runtime_in_the_process_nothing_is_thrown_and_nothing_crashes() -> None:
    """The caller is C, which cannot catch exceptions, and gets a null pointer."""
    assert run_well("""
        import ctypes, gpuconf
        gpuconf.simulate("T4")
        gpuconf.config.list_logical_devices()
        library = ctypes.CDLL(gpuconf.library_path())
        library.gpuconf_torch_malloc.restype = ctypes.c_void_p
        library.gpuconf_last_error.restype = ctypes.c_char_p
        assert "libstdc++" not in open("/proc/self/maps").read()
        print(library.gpuconf_torch_malloc(ctypes.c_ssize_t(1 << 50), 0, None),
              library.gpuconf_last_error().decode()[:20])
        """).splitlines() == ["None CUDA out of memory. "]
