"""The allocator's C interface, gpuconf.h, called from C threads without Python."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import gpuconf
import pytest
from gpuconf import memory
from script import execute, run_well

CC, CXX = shutil.which("cc"), shutil.which("c++")
CLIENT = Path(__file__).with_name("c_abi_client.c")
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-I", gpuconf.get_include()]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The C library, bound to the functions of the extension module."""
    assert CC, "a C compiler is part of what gpuconf needs to be built"
    built = tmp_path_factory.mktemp("client") / "client.so"
    subprocess.run(
        [CC, "-std=gnu11", *STRICT[:3], *STRICT[4:], "-shared", "-fPIC", "-pthread", CLIENT, "-o", built, "-ldl"],
        check=True,
    )
    library = ctypes.CDLL(str(built))
    library.client_text_leak.restype = ctypes.c_longlong
    library.client_free_elsewhere.argtypes = (ctypes.c_void_p,)
    assert library.client_open(gpuconf.library_path().encode()) == 1
    return library


@pytest.fixture(scope="module")
def abi() -> Any:
    """The functions of gpuconf.h."""
    library = ctypes.CDLL(gpuconf.library_path())

    class Abi:
        def __init__(self) -> None:
            library.gpuconf_malloc.restype = ctypes.c_void_p
            library.gpuconf_malloc.argtypes = (ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
            library.gpuconf_free.restype = None
            library.gpuconf_free.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
            library.gpuconf_record_stream.restype = ctypes.c_int
            library.gpuconf_record_stream.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
            library.gpuconf_last_error.restype = ctypes.c_char_p

        def malloc(self, size: int, device: int = 0, stream: int | None = None) -> Any:
            return library.gpuconf_malloc(size, device, stream)

        def free(self, ptr: int | None, size: int = 0, device: int = 0, stream: int | None = None) -> None:
            library.gpuconf_free(ptr, size, device, stream)

        def record_stream(self, ptr: int | None, stream: int | None) -> int:
            return int(library.gpuconf_record_stream(ptr, stream))

        def error(self) -> str:
            return library.gpuconf_last_error().decode()

    return Abi()


@pytest.fixture
def three_logical_gpus() -> None:
    """GPU:0 and GPU:1 of 64 MiB on ordinal 0, GPU:2 on ordinal 1."""
    gpuconf.simulate("2xT4")
    first, _ = gpuconf.config.list_physical_devices("GPU")
    limited = gpuconf.config.LogicalDeviceConfiguration(memory_limit=64)
    gpuconf.config.set_logical_device_configuration(first, [limited, limited])
    gpuconf.config.list_logical_devices()


def live() -> list[int]:
    return [memory.stats(d.name).live_blocks for d in gpuconf.config.list_logical_devices("GPU")]


# The header


@pytest.mark.parametrize("standard", ["c99", "c11", "c17"])
def test_the_header_is_strict_c(tmp_path: Path, standard: str) -> None:
    assert CC
    source = tmp_path / "use.c"
    source.write_text(
        "#include <gpuconf.h>\n#include <gpuconf.h>\nint main(void) { return GPUCONF_ABI_VERSION - 1; }\n"
    )
    subprocess.run([CC, f"-std={standard}", *STRICT, "-c", source, "-o", tmp_path / "use.o"], check=True)


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_the_header_is_strict_cpp_with_c_linkage(tmp_path: Path, standard: str) -> None:
    if CXX is None:
        pytest.skip("no C++ compiler")
    source = tmp_path / "use.cpp"
    source.write_text("#include <gpuconf.h>\nvoid *use() { return gpuconf_malloc(1, 0, nullptr); }\n")
    subprocess.run([CXX, f"-std={standard}", *STRICT, "-c", source, "-o", tmp_path / "use.o"], check=True)
    symbols = execute(["nm", tmp_path / "use.o"], check=True).stdout
    assert re.search(r"U gpuconf_malloc$", symbols, re.M)


def test_the_header_needs_no_other_of_its_own(tmp_path: Path) -> None:
    assert [path.name for path in Path(gpuconf.get_include()).iterdir()] == ["gpuconf.h"]


# Memory


def test_sixteen_c_threads_keep_books_and_memory(three_logical_gpus: None, client: ctypes.CDLL) -> None:
    assert client.client_hammer(16, 2000, 2) == 0
    assert live() == [0, 0, 0]
    for name in ("GPU:0", "GPU:2"):
        stats = memory.stats(name)
        assert (stats.bytes_in_use, stats.requested_bytes_in_use) == (0, 0)
        assert stats.num_allocs > 1000
    gpuconf.reset()


def test_c_threads_and_python_threads_share_one_pool(three_logical_gpus: None, client: ctypes.CDLL) -> None:
    """A call through ctypes releases the GIL, so both run at once."""
    failures: list[int] = []
    threads = [threading.Thread(target=lambda: failures.append(client.client_hammer(4, 1000, 2))) for _ in range(2)]
    for thread in threads:
        thread.start()
    count = 0
    while any(thread.is_alive() for thread in threads) or count < 100:
        with memory.allocate(1000) as buffer:
            buffer.copy_from_host(b"mine")
            assert buffer.copy_to_host()[:4] == b"mine"
        count += 1
    for thread in threads:
        thread.join()
    assert failures == [0, 0]
    assert live() == [0, 0, 0]


def test_a_block_is_on_the_books_of_python(one_gpu: None, abi: Any) -> None:
    gpuconf.config.list_logical_devices()
    block = abi.malloc(1000)
    assert block % 256 == 0
    assert abi.error() == ""
    stats = memory.stats()
    assert (stats.live_blocks, stats.bytes_in_use, stats.requested_bytes_in_use) == (1, 1024, 1000)
    ctypes.memset(block, 7, 1000)
    abi.free(block, 1000, 0, None)
    assert abi.error() == ""
    assert memory.stats().live_blocks == 0


def test_the_address_alone_decides_a_free(three_logical_gpus: None, abi: Any, client: ctypes.CDLL) -> None:
    """Size and device may be any values, and the thread any thread."""
    first, second = abi.malloc(1000, 0), abi.malloc(1000, 1)
    assert live() == [1, 0, 1]
    abi.free(second, 77, -5)
    assert live() == [1, 0, 0]
    client.client_free_elsewhere(first)
    assert live() == [0, 0, 0]


def test_no_bytes_and_no_block_are_no_error(one_gpu: None, abi: Any) -> None:
    gpuconf.config.list_logical_devices()
    abi.free(0x1234)
    assert abi.error() != ""
    assert abi.malloc(0) is None
    assert abi.error() == ""
    abi.free(None)
    assert abi.error() == ""
    assert abi.malloc(0, 99) is None
    assert memory.stats().num_allocs == 0


@pytest.mark.parametrize("device", [1, 99, -1, 2**31 - 1, -(2**31)])
def test_an_unknown_device_is_told(one_gpu: None, abi: Any, device: int) -> None:
    gpuconf.config.list_logical_devices()
    assert abi.malloc(1000, device) is None
    assert f"CUDA device {device} " in abi.error()
    assert "in C gpuconf_init()" in abi.error()
    assert memory.stats().num_allocs == 0


@pytest.mark.parametrize("size", [1 << 50, 1 << 63, (1 << 63) + 1, (1 << 64) - 1, (1 << 64) - 255, (1 << 64) - 256])
def test_a_size_that_can_not_be_is_out_of_memory(one_gpu: None, abi: Any, size: int) -> None:
    gpuconf.config.list_logical_devices()
    assert abi.malloc(size) is None
    assert " out of memory" in abi.error()
    assert str(size) in abi.error()
    assert memory.stats().live_blocks == 0
    block = abi.malloc(1)
    assert block
    assert abi.error() == ""
    abi.free(block)


def test_the_limit_holds(three_logical_gpus: None, abi: Any) -> None:
    blocks = []
    while block := abi.malloc(1 << 20, 0):
        blocks.append(block)
    assert len(blocks) == len(set(blocks)) == 64
    assert "the limit is reached" in abi.error()
    for block in blocks:
        abi.free(block)
    assert live() == [0, 0, 0]


def test_foreign_and_double_frees_change_nothing(one_gpu: None, abi: Any) -> None:
    with memory.allocate(1000) as buffer:
        block = abi.malloc(1000)
        before = memory.stats()
        for ptr in (1, 0x1234, block + 1, block + 256, buffer.ptr - 256, (1 << 64) - 1, id(abi)):
            abi.free(ptr)
            assert f"{ptr:#x}" in abi.error() or str(ptr) in abi.error()
            assert memory.stats() == before
        abi.free(block)
        assert abi.error() == ""
        abi.free(block)
        assert abi.error() != ""
        assert memory.stats().live_blocks == 1


def test_a_stream_that_is_none_changes_nothing(one_gpu: None, abi: Any) -> None:
    gpuconf.config.list_logical_devices()
    block = abi.malloc(1000)
    assert block
    before = memory.stats()
    for call, args in (
        (abi.malloc, (1000, 0, 0x1234)),
        (abi.free, (block, 0, 0, 0x1234)),
        (abi.record_stream, (block, 0x1234)),
    ):
        assert not call(*args)
        assert "0x1234 is not a stream of CUDA device 0: it was destroyed, or belongs to another device" in abi.error()
        assert memory.stats() == before
    abi.free(block)
    assert abi.error() == ""


def test_a_free_after_a_reset_changes_nothing(one_gpu: None, abi: Any) -> None:
    gpuconf.config.list_logical_devices()
    block = abi.malloc(1000)
    assert block
    abi.free(block)
    gpuconf.reset()
    for stream in (0, 0x1234):
        abi.free(block, 0, 0, stream)
        assert "call gpuconf.config.list_logical_devices() first" in abi.error()
    gpuconf.config.list_logical_devices()
    before = memory.stats()
    for stream in (0, 0x1234):
        abi.free(block, 0, 0, stream)
        assert f"{block:#x} is not the address of a live block" in abi.error()
    assert memory.stats() == before


def test_an_error_belongs_to_its_thread(one_gpu: None, abi: Any, client: ctypes.CDLL) -> None:
    gpuconf.config.list_logical_devices()
    abi.free(0x1234)
    elsewhere = ctypes.create_string_buffer(b"unset", 4096)
    client.client_error_elsewhere(elsewhere)
    assert elsewhere.value == b""
    assert "0x1234" in abi.error()


def test_a_block_can_be_freed_while_its_thread_ends(one_gpu: None, client: ctypes.CDLL) -> None:
    """After the library has freed the text of that thread's last error: it must not be freed twice."""
    gpuconf.config.list_logical_devices()
    assert client.client_thread_ends(200) == 400
    assert memory.stats().live_blocks == 0


def test_threads_that_end_leave_no_text_behind(one_gpu: None, client: ctypes.CDLL) -> None:
    gpuconf.config.list_logical_devices()
    client.client_text_leak(100)
    assert 0 <= client.client_text_leak(4000) + (1 << 17) < 1 << 18  # 4000 texts are half a mebibyte


# Scopes


def test_the_threads_scope_decides_on_its_own_ordinal(three_logical_gpus: None, abi: Any, client: ctypes.CDLL) -> None:
    def served(ordinal: int) -> list[int]:
        block = abi.malloc(1000, ordinal)
        assert block, abi.error()
        where = live()
        abi.free(block)
        return where

    assert served(0) == [1, 0, 0]
    with gpuconf.device("GPU:1"):
        assert served(0) == [0, 1, 0]
        assert served(1) == [0, 0, 1], "a scope on another ordinal: that ordinal's first"
        with gpuconf.device("GPU:2"):
            assert served(0) == [1, 0, 0]
        assert served(0) == [0, 1, 0]
        with gpuconf.device("CPU:0"):
            assert served(0) == [1, 0, 0]
        with gpuconf.device(None):
            assert served(0) == [1, 0, 0]
        before = memory.stats("GPU:1").num_allocs
        assert client.client_hammer(2, 50, 1) == 0
        assert memory.stats("GPU:1").num_allocs == before, "other threads have no scope"
    assert served(0) == [1, 0, 0]


def test_a_scope_ends_with_its_devices(three_logical_gpus: None, abi: Any) -> None:
    with gpuconf.device("GPU:1"):
        gpuconf.reset()
        gpuconf.simulate("2xT4")
        gpuconf.config.list_logical_devices()
        block = abi.malloc(1000, 0)
        assert live() == [1, 0]
        abi.free(block)


# Lifetime


def test_before_it_is_initialized_the_error_says_what_to_call() -> None:
    out = run_well("""
        import ctypes, gpuconf
        library = ctypes.CDLL(gpuconf.library_path())
        library.gpuconf_malloc.restype = ctypes.c_void_p
        library.gpuconf_last_error.restype = ctypes.c_char_p
        for prepare in (lambda: None, lambda: gpuconf.simulate("T4"), gpuconf.config.list_physical_devices):
            prepare()
            assert library.gpuconf_malloc(ctypes.c_size_t(1000), 0, None) is None
            print(library.gpuconf_last_error().decode())
        gpuconf.config.list_logical_devices()
        assert library.gpuconf_malloc(ctypes.c_size_t(1000), 0, None)
        """)
    assert len(out.splitlines()) == 3
    assert all("gpuconf.config.list_logical_devices()" in line for line in out.splitlines())


@pytest.mark.parametrize("change", [gpuconf.reset, lambda: gpuconf.simulate("T4"), lambda: gpuconf.simulate(None)])
def test_blocks_of_c_keep_a_reset_away_and_are_named(three_logical_gpus: None, abi: Any, change: Any) -> None:
    blocks = [abi.malloc(1000, 0), abi.malloc(1000, 0), abi.malloc(1 << 20, 1)]
    with pytest.raises(RuntimeError, match=r"2 blocks on GPU:0 \(2\.0KiB\).*1 block on GPU:2 \(1\.00?MiB\)"):
        change()
    for block in blocks:
        abi.free(block)
    change()
    assert abi.malloc(1000, 0) is None
    abi.free(blocks[0])
    assert abi.error() != ""


def test_a_free_of_c_serves_a_wait_of_python(three_logical_gpus: None, abi: Any, client: ctypes.CDLL) -> None:
    block = abi.malloc(64 << 20, 0)
    timer = threading.Timer(0.1, client.client_free_elsewhere, (block,))
    timer.start()
    memory.allocate(1 << 20, wait=60).free()
    timer.join()


def test_the_library_is_one_under_every_name(tmp_path: Path, abi: Any) -> None:
    gpuconf.simulate("T4")
    gpuconf.config.list_logical_devices()
    link = tmp_path / "link.so"
    link.symlink_to(gpuconf.library_path())
    other = ctypes.CDLL(str(link), mode=ctypes.RTLD_GLOBAL)
    other.gpuconf_malloc.restype = ctypes.c_void_p
    block = other.gpuconf_malloc(ctypes.c_size_t(1000), 0, None)
    assert memory.stats().live_blocks == 1
    abi.free(block)
