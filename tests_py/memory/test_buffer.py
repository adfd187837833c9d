"""Buffers: lifetime, copies, views, leaks, frees by others; statistics, maps and measurements of their memory."""

from __future__ import annotations

import array
import contextlib
import copy
import ctypes
import gc
import multiprocessing
import pickle
import sys
import threading
import warnings
from typing import Any

import gpuconf
import pytest
from gpuconf import memory
from gpuconf._core.native import core
from gpuconf.errors import InvalidArgumentError, InvalidTypeError


@pytest.fixture(autouse=True)
def machine(one_gpu: None) -> None:
    """What most tests need; others simulate their own."""


MIB = 1 << 20


@pytest.fixture
def c_library() -> ctypes.CDLL:
    library = ctypes.CDLL(gpuconf.library_path())
    library.gpuconf_malloc.restype = ctypes.c_void_p
    library.gpuconf_malloc.argtypes = (ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    library.gpuconf_free.restype = None
    library.gpuconf_free.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    library.gpuconf_last_error.restype = ctypes.c_char_p
    return library


@pytest.fixture
def limit_of_1_mib() -> None:
    gpuconf.simulate("T4")
    gpu = gpuconf.config.list_physical_devices("GPU")[0]
    gpuconf.config.set_logical_device_configuration(gpu, [gpuconf.config.LogicalDeviceConfiguration(memory_limit=1)])


# Lifetime


def test_says_what_it_is() -> None:
    buffer = memory.allocate(1000)
    assert buffer.ptr % 256 == 0
    assert buffer.ptr > 0
    assert buffer.nbytes == 1000
    assert buffer.device == gpuconf.config.LogicalDevice("/device:GPU:0", "GPU")
    assert not buffer.freed
    assert repr(buffer) == f"<gpuconf.Buffer of 1000 bytes on /device:GPU:0, at 0x{buffer.ptr:x}>"
    buffer.free()
    assert buffer.freed
    assert repr(buffer) == "<gpuconf.Buffer of 1000 bytes on /device:GPU:0, freed>"


@pytest.mark.parametrize("name", ["ptr", "nbytes", "device", "freed"])
def test_what_it_is_can_not_be_changed(name: str) -> None:
    """A greater nbytes let view() and DLPack reach beyond the block, into other blocks and unmapped memory."""
    with memory.allocate(1000) as buffer, memory.allocate(1000) as other:
        before = getattr(buffer, name)
        with pytest.raises(AttributeError):
            setattr(buffer, name, getattr(other, name))
        with pytest.raises(AttributeError):
            delattr(buffer, name)
        assert getattr(buffer, name) == before


def test_a_second_free_does_nothing() -> None:
    """Even if the same memory belongs to another buffer by then."""
    first = memory.allocate(1000)
    first.free()
    second = memory.allocate(1000)
    assert second.ptr == first.ptr
    first.free()
    assert memory.stats().live_blocks == 1
    second.copy_from_host(b"still mine")
    second.free()
    assert memory.stats().live_blocks == 0


def test_a_with_block_frees_also_on_error() -> None:
    with pytest.raises(ZeroDivisionError), memory.allocate(1000) as buffer:
        raise ZeroDivisionError
    assert buffer.freed
    with memory.allocate(1000) as buffer:
        buffer.free()
    assert memory.stats().live_blocks == 0


@pytest.mark.parametrize("nbytes", [1, 255, 256, 257, 10_000_000])
def test_takes_steps_of_256_bytes(nbytes: int) -> None:
    with memory.allocate(nbytes) as buffer:
        assert buffer.nbytes == nbytes
        assert memory.stats().bytes_in_use == -(-nbytes // 256) * 256
        assert memory.stats().requested_bytes_in_use == nbytes


def test_of_no_bytes_takes_nothing_and_works() -> None:
    before = memory.stats()
    with memory.allocate(0) as buffer:
        assert memory.stats() == before
        assert (buffer.ptr, buffer.nbytes, buffer.freed) == (0, 0, False)
        buffer.copy_from_host(b"")
        assert buffer.copy_to_host() == b""
        out = bytearray()
        assert buffer.copy_to_host(out) is out
        assert buffer.view().tobytes() == b""
        assert len(buffer.view()) == 0
        with pytest.raises(ValueError, match="1 bytes at offset 0 do not fit in a buffer of 0 bytes"):
            buffer.copy_from_host(b"x")
    buffer.free()
    gpuconf.reset()


@pytest.mark.parametrize("device", ["GPU:1", "/gpu:1", "/device:GPU:1", "/job:localhost/replica:0/task:0/device:GPU:1"])
def test_takes_devices_by_name(two_gpus: None, device: str) -> None:
    with memory.allocate(1, device) as buffer:
        assert buffer.device.name == "/device:GPU:1"


def test_takes_devices_by_object_and_by_scope(two_gpus: None) -> None:
    gpu = gpuconf.config.list_logical_devices("GPU")[1]
    with memory.allocate(1, gpu) as buffer:
        assert buffer.device == gpu
    with gpuconf.device(gpu), memory.allocate(1) as buffer:
        assert buffer.device == gpu
        with memory.allocate(1, "GPU:0") as other:
            assert other.device.name == "/device:GPU:0"
    with gpuconf.device("CPU:0"), memory.allocate(1) as buffer:
        assert buffer.device.name == "/device:GPU:0"
    with gpuconf.device("GPU:7"), pytest.raises(ValueError, match="scope names an unknown device") as caught:
        memory.allocate(1)
    assert caught.value.__suppress_context__, "the core's error, of which it knows less, is not shown as well"


def test_a_dropped_buffer_warns_and_gives_its_memory_back() -> None:
    held = [memory.allocate(1000)]
    with pytest.warns(
        ResourceWarning, match=r"^<gpuconf.Buffer of 1000 bytes on /device:GPU:0, at 0x[0-9a-f]+> was dropped"
    ):
        held.clear()
    assert memory.stats().live_blocks == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_dropped_buffer_gives_its_memory_back_also_where_warnings_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda unraisable: raised.append(unraisable.exc_type))
    buffer = memory.allocate(1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del buffer
        gc.collect()
    assert raised == [ResourceWarning]
    assert memory.stats().live_blocks == 0


def test_a_dropped_cycle_of_buffers_gives_its_memory_back() -> None:
    class Tree:
        def __init__(self) -> None:
            self.itself = self
            self.buffer = memory.allocate(1000)

    Tree()
    with pytest.warns(ResourceWarning):
        gc.collect()
    assert memory.stats().live_blocks == 0


def test_a_buffer_of_devices_that_were_reset_is_harmless(c_library: ctypes.CDLL) -> None:
    """Its address may be a new buffer's."""
    gpuconf.simulate("H100-80GB")
    old = memory.allocate(1000)
    c_library.gpuconf_free(old.ptr, 1000, 0, None)
    with pytest.raises(RuntimeError, match="cannot reset"):
        gpuconf.reset()  # while the buffer is registered
    with pytest.raises(ValueError, match="nothing was freed"):
        old.free()
    gpuconf.reset()
    new = memory.allocate(1000)
    assert new.ptr == old.ptr
    old.free()
    assert old.freed
    with pytest.raises(ValueError, match="was freed"):
        old.copy_from_host(b"x")
    assert memory.stats().live_blocks == 1
    new.free()


def test_a_free_after_a_foreign_free_never_frees_somebody_elses_block(c_library: ctypes.CDLL) -> None:
    buffer = memory.allocate(1000)
    c_library.gpuconf_free(buffer.ptr, 0, 0, None)
    assert c_library.gpuconf_last_error() == b""
    assert memory.stats().live_blocks == 0
    somebody_elses = memory.allocate(1000)
    assert somebody_elses.ptr == buffer.ptr
    with pytest.raises(ValueError, match="nothing was freed"):
        buffer.free()
    assert memory.stats().live_blocks == 1
    assert buffer.freed
    buffer.free()
    somebody_elses.copy_from_host(b"still here")
    assert somebody_elses.copy_to_host()[:10] == b"still here"
    somebody_elses.free()


def test_a_buffer_that_was_freed_by_its_address_can_be_dropped(c_library: ctypes.CDLL) -> None:
    buffer = memory.allocate(1000)
    c_library.gpuconf_free(buffer.ptr, 0, 0, None)
    del buffer
    gc.collect()
    assert memory.stats().live_blocks == 0


WAYS_TO_COPY = {
    "copy": copy.copy,
    "deepcopy": lambda buffer: copy.deepcopy({"weights": [buffer]}),
    "pickle": pickle.dumps,
    "old pickle": lambda buffer: pickle.dumps(buffer, protocol=0),
    "argument of a spawned process": lambda buffer: (
        multiprocessing.get_context("spawn").Process(target=print, args=(buffer,)).start()
    ),
}


@pytest.mark.parametrize("way", WAYS_TO_COPY)
def test_a_buffer_can_not_be_copied(way: str) -> None:
    """A second object of the same memory would free it when it is dropped, and leave the first with another buffer's
    memory.
    """
    with memory.allocate(1000) as buffer:
        buffer.copy_from_host(b"mine")
        with pytest.raises(TypeError, match="owns device memory") as caught:
            WAYS_TO_COPY[way](buffer)
        assert str(caught.value).endswith("send its bytes (buffer.copy_to_host()) instead")
        assert isinstance(caught.value, InvalidTypeError)
        gc.collect()
        assert memory.stats().live_blocks == 1
        assert buffer.copy_to_host()[:4] == b"mine"


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_buffer_is_not_made_by_hand() -> None:
    for arguments in ((), (1, 2, 3, 4)):
        with pytest.raises(TypeError, match=r"cannot be created directly: use gpuconf.memory.allocate\(\)"):
            memory.Buffer(*arguments)
        gc.collect()


def test_what_nobody_holds_by_name_can_be_found_and_freed(two_gpus: None) -> None:
    """A kept traceback or a notebook's Out holds buffers that prevent a reset."""
    assert memory.live_buffers() == []
    forgotten = [[memory.allocate(1000), memory.allocate(2000, "GPU:1")], memory.allocate(0), memory.allocate(3000)]
    assert [b.nbytes for b in memory.live_buffers()] == [1000, 2000, 3000]
    with pytest.raises(RuntimeError, match=r"\nfree them: for b in gpuconf.memory.live_buffers\(\): b.free\(\)$"):
        gpuconf.reset()
    for b in memory.live_buffers():
        b.free()
    assert memory.live_buffers() == []
    gpuconf.reset()
    assert memory.live_buffers() == []
    assert len(forgotten) == 3


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_buffers_that_come_and_go_leave_nothing_behind() -> None:
    class Tree:
        def __init__(self) -> None:
            self.itself = self
            self.buffer = memory.allocate(1000)

    def come_and_go(rounds: int) -> int:
        for _ in range(rounds):
            memory.allocate(1000).free()
            memory.allocate(0)
            with pytest.raises(MemoryError):
                memory.allocate(1 << 50)
            Tree()
        gc.collect()
        return sys.getallocatedblocks()

    come_and_go(1000)
    before = come_and_go(10)
    assert come_and_go(1000) - before < 500  # Python keeps about a hundred dropped objects for reuse
    assert memory.stats().live_blocks == 0


# Copies


@pytest.mark.parametrize("direction", ["CopyFromHost", "CopyToHost"])
def test_a_free_beside_a_copy_comes_after_it(monkeypatch: pytest.MonkeyPatch, direction: str) -> None:
    """The memory must not be reused while it is copied."""
    function = getattr(core, f"pybind_{direction}")
    buffer = memory.allocate(1000)
    during: list[Any] = []

    def copy_slowly(*arguments: int) -> bool:
        thread = threading.Thread(target=buffer.free)
        thread.start()
        thread.join()
        during.append((buffer.freed, memory.stats().live_blocks))
        return bool(function(*arguments))

    monkeypatch.setattr(core, f"pybind_{direction}", copy_slowly)
    if direction == "CopyFromHost":
        buffer.copy_from_host(b"late")
    else:
        buffer.copy_to_host()
    assert during == [(True, 1)]
    assert memory.stats().live_blocks == 0
    with pytest.raises(ValueError, match="was freed"):
        buffer.copy_to_host()


def test_copies_beside_frees_never_write_into_the_next_owners_memory() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            buffer = memory.allocate(4096)
            heirs: list[memory.Buffer] = []

            def free_and_allocate(buffer: memory.Buffer = buffer, heirs: list[memory.Buffer] = heirs) -> None:
                buffer.free()
                heirs.append(memory.allocate(4096))
                heirs[0].copy_from_host(bytes(4096))

            def write(buffer: memory.Buffer = buffer) -> None:
                with contextlib.suppress(ValueError):
                    buffer.copy_from_host(b"\xff" * 4096)

            threads = [threading.Thread(target=write), threading.Thread(target=free_and_allocate)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with heirs[0]:
                assert heirs[0].copy_to_host() == bytes(4096)
    finally:
        sys.setswitchinterval(before)


def test_a_copy_into_memory_that_was_freed_by_its_address_is_refused(c_library: ctypes.CDLL) -> None:
    buffer = memory.allocate(1000)
    c_library.gpuconf_free(buffer.ptr, 0, 0, None)
    with memory.allocate(1000) as heir:
        assert heir.ptr == buffer.ptr
        heir.copy_from_host(b"mine")
        for copy_it in (lambda: buffer.copy_from_host(b"evil"), buffer.copy_to_host):
            with pytest.raises(ValueError, match="not the address of a live block: it was already freed"):
                copy_it()
        assert heir.copy_to_host()[:4] == b"mine"
    with pytest.raises(ValueError, match="nothing was freed"):
        buffer.free()


def numpy_array() -> Any:
    return pytest.importorskip("numpy").arange(100, dtype="uint8")


SOURCES = {
    "bytes": lambda: bytes(range(100)),
    "bytearray": lambda: bytearray(range(100)),
    "memoryview": lambda: memoryview(bytes(range(100))),
    "slice of a memoryview": lambda: memoryview(bytes(range(200)))[:100],
    "memoryview of ints": lambda: memoryview(bytes(range(100))).cast("I"),
    "memoryview of two dimensions": lambda: memoryview(bytes(range(100))).cast("B", (10, 10)),
    "array of ints": lambda: array.array("i", range(25)),
    "array of doubles": lambda: array.array("d", [1.5] * 12),
    "ctypes array": lambda: (ctypes.c_ubyte * 100)(*range(100)),
    "numpy array": numpy_array,
}


@pytest.mark.parametrize("source", SOURCES)
def test_copies_from_anything_with_bytes(source: str) -> None:
    data = SOURCES[source]()
    expected = memoryview(data).tobytes()
    with memory.allocate(1000) as buffer:
        buffer.copy_from_host(data, offset=7)
        assert buffer.copy_to_host(offset=7)[: len(expected)] == expected


TARGETS = {
    "bytearray": lambda: bytearray(100),
    "memoryview": lambda: memoryview(bytearray(100)),
    "slice of a memoryview": lambda: memoryview(bytearray(200))[50:150],
    "array of ints": lambda: array.array("i", [0] * 25),
    "ctypes array": lambda: (ctypes.c_ubyte * 100)(),
    "numpy array": numpy_array,
}


@pytest.mark.parametrize("target", TARGETS)
def test_copies_to_anything_with_bytes_to_write(target: str) -> None:
    out = TARGETS[target]()
    with memory.allocate(107) as buffer:
        buffer.copy_from_host(bytes(range(100, 200)), offset=7)
        assert buffer.copy_to_host(out, offset=7) is out
    assert memoryview(out).tobytes() == bytes(range(100, 200))


def test_copies_all_that_is_left_into_a_new_bytearray() -> None:
    with memory.allocate(10) as buffer:
        buffer.copy_from_host(b"0123456789")
        assert buffer.copy_to_host() == bytearray(b"0123456789")
        assert buffer.copy_to_host(offset=4) == bytearray(b"456789")
        assert buffer.copy_to_host(offset=10) == bytearray()
        assert buffer.copy_to_host(offset=True) == bytearray(b"123456789")  # a bool is an int


class Odd:
    """An index type like NumPy's integers."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __index__(self) -> Any:
        return self.value


BAD_COPIES = {
    "one byte too many": (
        b"12345678901",
        0,
        InvalidArgumentError,
        "11 bytes at offset 0 do not fit in a buffer of 10 bytes",
    ),
    "one byte too far": (b"x", 10, InvalidArgumentError, "1 bytes at offset 10 do not fit in a buffer of 10 bytes"),
    "nothing, too far": (b"", 11, InvalidArgumentError, "0 bytes at offset 11 do not fit"),
    "negative offset": (b"x", -1, InvalidArgumentError, "1 bytes at offset -1 do not fit"),
    "offset beyond 64 bits": (b"x", 1 << 64, InvalidArgumentError, "at offset 18446744073709551616 do not fit"),
    "offset that wraps around": (b"x", (1 << 64) - 1, InvalidArgumentError, "do not fit"),
    "offset of 5000 digits": (b"x", 10**5000, InvalidArgumentError, "at offset a number of 16610 bits do not fit"),
    "fractional offset": (b"x", 1.0, InvalidTypeError, "offset must be an int, but got float: 1.0"),
    "offset None": (b"x", None, InvalidTypeError, "offset must be an int, but got NoneType"),
    "offset text": (b"x", "1", InvalidTypeError, "offset must be an int, but got str: '1'"),
    "offset with a wrong index": (b"x", Odd("1"), InvalidTypeError, "offset must be an int, but got Odd"),
    "text": ("text", 0, InvalidTypeError, "str has no bytes to copy"),
    "number": (5, 0, InvalidTypeError, "int has no bytes to copy"),
    "None": (None, 0, InvalidTypeError, "NoneType has no bytes to copy"),
    "list": ([1, 2], 0, InvalidTypeError, "list has no bytes to copy"),
    "every other byte": (memoryview(b"123456")[::2], 0, InvalidArgumentError, "cannot access the bytes of memoryview"),
    "backwards": (memoryview(b"123456")[::-1], 0, InvalidArgumentError, "cannot access the bytes of memoryview"),
}


@pytest.mark.parametrize("case", BAD_COPIES)
def test_a_bad_copy_is_refused_and_changes_nothing(case: str) -> None:
    data, offset, kind, text = BAD_COPIES[case]
    with memory.allocate(10) as buffer:
        buffer.copy_from_host(b"0123456789")
        with pytest.raises(kind, match=text.replace("(", r"\(")):
            buffer.copy_from_host(data, offset)
        if data is not None:  # None means to create one
            out = bytearray(data) if isinstance(data, bytes) else data
            with pytest.raises(kind, match=text.replace("(", r"\(").replace("bytes to copy", "bytes")):
                buffer.copy_to_host(out, offset)
        assert buffer.copy_to_host() == b"0123456789"


@pytest.mark.parametrize("out", [b"read only", memoryview(b"read only")], ids=["bytes", "memoryview"])
def test_what_can_only_be_read_is_not_written(out: Any) -> None:
    with memory.allocate(100) as buffer, pytest.raises(ValueError, match="cannot access the bytes"):
        buffer.copy_to_host(out)
    assert bytes(out) == b"read only"


def test_a_memoryview_that_was_released_is_refused() -> None:
    data = memoryview(b"123")
    data.release()
    with memory.allocate(10) as buffer, pytest.raises(ValueError, match="cannot access the bytes"):
        buffer.copy_from_host(data)


def test_a_copy_locks_the_object_only_while_it_runs() -> None:
    data = bytearray(b"123")
    with memory.allocate(10) as buffer:
        buffer.copy_from_host(data)
        buffer.copy_to_host(data)
        with pytest.raises(ValueError, match="do not fit"):
            buffer.copy_from_host(data, 9)
    data.extend(b"a bytearray that is exported can't be resized")


@pytest.mark.parametrize("call", [lambda b: b.copy_from_host(b""), lambda b: b.copy_to_host(), lambda b: b.view()])
def test_a_freed_buffer_can_not_be_used(call: Any) -> None:
    buffer = memory.allocate(10)
    buffer.free()
    with pytest.raises(ValueError, match="this buffer of 10 bytes on /device:GPU:0 was freed"):
        call(buffer)


def test_copies_leave_the_prototypes_of_others_alone() -> None:
    """ctypes.pythonapi is shared by the whole process."""
    with memory.allocate(10) as buffer:
        buffer.copy_from_host(b"x")
        shared = ctypes.pythonapi.PyObject_GetBuffer
        assert shared.argtypes is None
        shared.argtypes = (ctypes.c_int,)
        try:
            buffer.copy_from_host(b"x")
        finally:
            shared.argtypes = None


def test_a_large_copy_is_exact() -> None:
    data = bytes(range(251)) * 40_000
    with memory.allocate(len(data)) as buffer, memory.allocate(len(data)) as neighbor:
        buffer.copy_from_host(data)
        assert neighbor.copy_to_host() == bytes(len(data))
        assert buffer.copy_to_host() == data


# Views


def test_a_view_is_the_memory_itself() -> None:
    with memory.allocate(10) as buffer:
        view = buffer.view()
        assert (view.format, view.itemsize, view.nbytes, view.readonly) == ("B", 1, 10, False)
        view[:5] = b"hello"
        assert buffer.copy_to_host()[:5] == b"hello"
        buffer.copy_from_host(b"J")
        assert view[:5].tobytes() == b"Jello"
        assert buffer.view()[:5] == b"Jello"
        with pytest.raises(IndexError):
            view[10]


def test_a_view_keeps_the_devices_until_it_is_gone() -> None:
    buffer = memory.allocate(10)
    view = buffer.view()[2:5]
    buffer.free()
    assert len(view.tobytes()) == 3  # stale, but harmless
    refusal = (
        r"^cannot (reset|change the simulation) while device memory is in use; free it first:\n  1 view of "
        r"device memory$"
    )
    for call in (gpuconf.reset, lambda: gpuconf.simulate("T4"), lambda: gpuconf.simulate(None)):
        with pytest.raises(RuntimeError, match=refusal):
            call()
    again = memory.allocate(10)
    again.view()[2:5] = b"new"
    again.free()
    view.release()
    gpuconf.reset()


def test_a_refused_reset_names_what_is_in_use() -> None:
    buffers = [memory.allocate(1000 + i) for i in range(12)]
    views = [buffers[0].view(), buffers[1].view()]
    with pytest.raises(RuntimeError, match="cannot reset") as caught:
        gpuconf.reset()
    lines = str(caught.value).splitlines()
    assert lines[-2:] == ["  and 3 more", "free them: for b in gpuconf.memory.live_buffers(): b.free()"]
    assert "  2 views of device memory" in lines
    assert sum("<gpuconf.Buffer of 10" in line for line in lines) == 9
    del views
    for buffer in buffers:
        buffer.free()
    gpuconf.reset()


# Statistics and maps


def test_statistics_count_what_happened(two_gpus: None) -> None:
    a, b = memory.allocate(1000), memory.allocate(MIB)
    b.free()
    c = memory.allocate(300, "GPU:1")
    stats = memory.stats("GPU:0")
    assert stats == memory.stats() == memory.stats(a.device) == memory.stats("/gpu:0")
    assert (stats.num_allocs, stats.live_blocks) == (2, 1)
    assert (stats.bytes_in_use, stats.requested_bytes_in_use) == (1024, 1000)
    assert (stats.peak_bytes_in_use, stats.largest_alloc_size) == (1024 + MIB, MIB)
    assert stats.bytes_reserved == stats.peak_bytes_reserved == stats.bytes_limit
    assert stats.largest_free_block_bytes == stats.bytes_limit - 1024
    assert memory.stats("GPU:1").bytes_in_use == 512
    a.free()
    c.free()


def test_free_memory_that_lies_apart_is_moved_together_and_the_blocks_beside_it_keep_their_bytes() -> None:
    gpuconf.simulate("T4")
    gpuconf.configure(limit=16 * MIB, growth=True, libraries=[])
    buffers = [memory.allocate(2 * MIB) for _ in range(8)]
    for i, buffer in enumerate(buffers):
        buffer.copy_from_host(bytes([i]) * buffer.nbytes)
    for buffer in buffers[::2]:
        buffer.free()
    large = memory.allocate(8 * MIB)
    large.copy_from_host(bytes([99]) * large.nbytes)
    for i, buffer in enumerate(buffers):
        if i % 2:
            assert bytes(buffer.copy_to_host()) == bytes([i]) * buffer.nbytes
            buffer.free()
    stats = memory.stats()
    assert (stats.bytes_in_use, stats.bytes_reserved, stats.bytes_limit) == (8 * MIB, 16 * MIB, 16 * MIB)
    assert (stats.stitches, stats.stitched_bytes) == (1, 8 * MIB)
    large.free()


@pytest.mark.parametrize(
    "call", [memory.stats, memory.memory_map, memory.usage, memory.measure], ids=lambda f: f.__name__
)
@pytest.mark.parametrize(
    ("device", "kind"),
    [
        ("GPU", ValueError),
        ("GPU:7", ValueError),
        ("CPU:0", ValueError),
        ("gPU:0", ValueError),
        ("", ValueError),
        ("GPU:0\0", ValueError),
        ("\udcff", ValueError),
        (0, TypeError),
        (b"GPU:0", TypeError),
        (gpuconf.config.LogicalDevice(5, "GPU"), TypeError),
        (gpuconf.config.LogicalDevice("/device:GPU:5", "GPU"), ValueError),
        (gpuconf.config.PhysicalDevice("/physical_device:CPU:0", "CPU"), ValueError),
    ],
    ids=repr,
)
def test_bad_devices_are_refused(two_gpus: None, call: Any, device: Any, kind: Any) -> None:
    with pytest.raises(kind) as caught:
        call(device).__enter__()
    assert isinstance(caught.value, gpuconf.errors.GpuconfError)


class RepresentationPrinter:
    """IPython's printer, as far as objects use it."""

    text_so_far = ""

    def text(self, text: str) -> None:
        self.text_so_far += text

    def pretty(self, thing: Any) -> None:
        thing._repr_pretty_(self, False)


def test_a_map_is_drawn_exactly(limit_of_1_mib: None) -> None:
    assert str(memory.memory_map()) == "GPU:0: 0B in use of 0B reserved, limit 1.00MiB\n  nothing reserved yet"
    blocks = [memory.allocate(MIB // 8) for _ in range(6)]
    blocks[1].free()
    blocks[4].free()
    small = memory.allocate(100)
    base = blocks[0].ptr
    picture = memory.memory_map()
    assert picture == memory.MemoryMap(
        "GPU:0",
        MIB,
        (
            memory.Region(
                base,
                MIB,
                (
                    memory.Chunk(base, 131072, 131072, True, "gpuconf", ""),
                    memory.Chunk(base + 131072, 256, 100, True, "gpuconf", ""),
                    memory.Chunk(base + 131328, 130816, 0, False, "", ""),
                    memory.Chunk(base + 262144, 131072, 131072, True, "gpuconf", ""),
                    memory.Chunk(base + 393216, 131072, 131072, True, "gpuconf", ""),
                    memory.Chunk(base + 524288, 131072, 0, False, "", ""),
                    memory.Chunk(base + 655360, 131072, 131072, True, "gpuconf", ""),
                    memory.Chunk(base + 786432, 262144, 0, False, "", ""),
                ),
            ),
        ),
        0,
    )
    with_ipython = RepresentationPrinter()
    with_ipython.pretty(picture)
    assert with_ipython.text_so_far == str(picture)
    assert picture.draw(16).splitlines()[1] == f"  {base:#014x} ▕██▒·████··██····▏ 1.00MiB, 5 in use"
    assert str(picture) == (
        "GPU:0: 512.2KiB in use of 1.00MiB reserved, limit 1.00MiB\n"
        f"  {base:#014x} ▕████████▒·······████████████████········████████················▏ 1.00MiB, 5 in use"
    )
    for buffer in (*blocks, small):
        buffer.free()
    assert "▕" + "·" * 64 + "▏ 1.00MiB, 0 in use" in str(memory.memory_map())


# Measurements


def test_measures_before_peak_and_after() -> None:
    with memory.allocate(1000):
        measurement = memory.measure()
        assert repr(measurement) == "<gpuconf.Measurement, not finished>"
        with measurement as m:
            assert m is measurement
            memory.allocate(10 * 1024).free()
            kept = memory.allocate(2048)
        memory.allocate(MIB).free()  # afterwards: not measured
        assert (m.before, m.peak, m.after) == (1024, 1024 + 10 * 1024, 3072)
        assert (m.increase, m.peak_increase) == (2048, 10 * 1024)
        assert repr(m) == "<gpuconf.Measurement: before 1024, peak 11264, after 3072 bytes>"
        kept.free()


def test_a_measurement_prints_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    measured = memory.measure()
    print(measured)
    with measured, memory.tag("weights"):
        kept = memory.allocate(2 * MIB)
        with memory.tag("activations"):
            memory.allocate(3 * MIB).free()
    print(measured)
    kept.free()
    assert capsys.readouterr().out.splitlines() == [
        "<gpuconf.Measurement, not finished>",
        "library  tag          before     peak    after",
        "all                       0B  5.00MiB  2.00MiB",
        "gpuconf  activations      0B  3.00MiB       0B",
        "gpuconf  weights          0B  2.00MiB  2.00MiB",
    ]


def test_measurements_nest_and_overlap() -> None:
    outer, inner, crossing = memory.measure(), memory.measure(), memory.measure()
    with outer:
        memory.allocate(4096).free()
        with inner:
            memory.allocate(1024).free()
        crossing.__enter__()
        memory.allocate(2048).free()
    memory.allocate(8192).free()
    crossing.__exit__(None, None, None)
    assert [m.peak for m in (outer, inner, crossing)] == [4096, 1024, 8192]


def test_a_measurement_and_the_peak_leave_each_other_alone() -> None:
    info = gpuconf.config.experimental.get_memory_info
    memory.allocate(10 * 1024).free()
    with memory.measure() as m:
        memory.allocate(4096).free()
        gpuconf.config.experimental.reset_memory_stats("GPU:0")
        memory.allocate(1024).free()
    assert m.peak == 4096
    assert info("GPU:0") == {"current": 0, "peak": 1024}


def test_a_measurement_is_of_one_gpu_and_of_all_its_threads(two_gpus: None) -> None:
    with memory.measure("GPU:1") as m, memory.measure() as other:
        threads = [threading.Thread(target=lambda: memory.allocate(4096, "GPU:1").free()) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 4096 <= m.peak <= 4 * 4096
    assert m.after == other.peak == 0
    with gpuconf.device("GPU:1"), memory.measure() as scoped:
        memory.allocate(256, "GPU:0").free()
        memory.allocate(512).free()
    assert scoped.peak == 512


def test_a_measurement_may_end_in_another_thread_and_be_used_again() -> None:
    m = memory.measure()
    m.__enter__()
    memory.allocate(4096).free()
    thread = threading.Thread(target=m.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    assert m.peak == 4096
    with m:
        memory.allocate(256).free()
    assert m.peak == 256


def test_a_measurement_can_not_run_twice_at_once() -> None:
    with memory.measure() as m:
        with pytest.raises(RuntimeError, match="this measurement is running"):
            m.__enter__()
        memory.allocate(256).free()
    assert m.peak == 256
    with pytest.raises(RuntimeError):
        m.__exit__(None, None, None)


def test_a_reset_during_a_measurement_is_told() -> None:
    with pytest.raises(RuntimeError, match="the runtime was reset during the measurement"), memory.measure():
        gpuconf.reset()

    def fail() -> None:
        gpuconf.reset()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), memory.measure():
        fail()  # the block's own error takes precedence


def test_a_measurement_of_devices_that_are_gone_ends_none_of_the_new_ones() -> None:
    """Each pool counts its measurements from 1."""
    old, new = memory.measure(), memory.measure()
    old.__enter__()
    gpuconf.reset()
    with new:
        with pytest.raises(RuntimeError, match="was reset during the measurement"):
            old.__exit__(None, None, None)
        memory.allocate(4096).free()
    assert new.peak == 4096


def test_an_error_in_a_measured_block_still_measures() -> None:
    m = memory.measure()

    def fail() -> None:
        memory.allocate(4096).free()
        memory.allocate(1 << 50)

    with pytest.raises(MemoryError), m:
        fail()
    assert m.peak == 4096
