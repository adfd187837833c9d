"""A buffer's memory in other libraries: DLPack on simulated GPUs, whose memory is host memory."""

from __future__ import annotations

import ctypes
import gc
import threading
from typing import Any

import gpuconf
import pytest
from gpuconf import memory

NAME = ctypes.pythonapi["PyCapsule_GetName"]
NAME.argtypes, NAME.restype = (ctypes.py_object,), ctypes.c_char_p
POINTER = ctypes.pythonapi["PyCapsule_GetPointer"]
POINTER.argtypes, POINTER.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
RENAME = ctypes.pythonapi["PyCapsule_SetName"]
RENAME.argtypes = (ctypes.py_object, ctypes.c_char_p)


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


def take(capsule: Any) -> Any:
    """A consumer's part: it reads the tensor, renames the capsule, and owns it from then on."""
    name = NAME(capsule)
    kind = Versioned if name == b"dltensor_versioned" else Managed
    managed = kind.from_address(POINTER(capsule, name))
    used = b"used_" + name
    RENAME(capsule, used)
    managed.kept_name = used  # a capsule does not copy its name
    return managed


def drop(managed: Any) -> None:
    """Call the deleter, without the GIL, like a library's destructor."""
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(ctypes.addressof(managed))


def live() -> int:
    return int(memory.stats().live_blocks)


@pytest.fixture(autouse=True)
def machine(clean_runtime: None) -> None:
    gpuconf.simulate("T4")


@pytest.mark.parametrize(
    ("max_version", "kind"),
    [(None, Managed), ((0, 8), Managed), ((1, 0), Versioned), ((1, 1), Versioned), ((2, 0), Versioned)],
)
def test_a_capsule_describes_the_bytes(max_version: Any, kind: type) -> None:
    with memory.allocate(1000) as buffer:
        managed = take(buffer.__dlpack__(max_version=max_version))
        assert isinstance(managed, kind)
        tensor = managed.tensor
        assert (tensor.data, tensor.device_type, tensor.device_id) == (buffer.ptr, 1, 0)
        assert (tensor.ndim, tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (1, 1, 8, 1, 0)
        assert (tensor.shape[0], tensor.strides[0]) == (1000, 1)
        if isinstance(managed, Versioned):
            assert (managed.major, managed.minor, managed.flags) == (1, 0, 0)
        drop(managed)
    assert live() == 0


def test_a_simulated_buffer_is_the_cpus_and_no_gpus() -> None:
    with memory.allocate(1000) as buffer:
        assert buffer.__dlpack_device__() == (1, 0)
        assert not hasattr(buffer, "__cuda_array_interface__")
        with pytest.raises(AttributeError, match="host memory"):
            buffer.__cuda_array_interface__  # noqa: B018


def test_a_capsule_that_nobody_takes_ends_its_loan() -> None:
    buffer = memory.allocate(1000)
    for version in (None, (1, 0)):
        capsule = buffer.__dlpack__(max_version=version)
        del capsule
    buffer.free()
    assert live() == 0


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_freed_buffer_stays_until_the_last_consumer_lets_go(version: Any) -> None:
    buffer = memory.allocate(1000)
    first, second = (take(buffer.__dlpack__(max_version=version)) for _ in range(2))
    buffer.free()
    buffer.free()
    assert buffer.freed
    assert "freed, still in use" in repr(buffer)
    with pytest.raises(RuntimeError, match="freed, still in use"):
        gpuconf.reset()
    with pytest.raises(ValueError, match="was freed"):
        buffer.copy_to_host()
    with pytest.raises(ValueError, match="was freed"):
        buffer.__dlpack__()
    assert live() == 1
    drop(first)
    assert live() == 1
    drop(second)
    assert live() == 0
    assert "freed, but" not in repr(buffer)


def test_a_consumer_keeps_a_buffer_that_nobody_else_has() -> None:
    buffer = memory.allocate(1000)
    buffer.copy_from_host(b"kept")
    managed = take(buffer.__dlpack__())
    buffer.free()
    del buffer
    gc.collect()
    assert live() == 1
    assert ctypes.string_at(managed.tensor.data, 4) == b"kept"
    drop(managed)
    assert live() == 0


def test_a_buffer_that_was_only_dropped_warns_when_its_consumer_has_gone() -> None:
    managed = take(memory.allocate(1000).__dlpack__())
    gc.collect()
    assert live() == 1
    with pytest.warns(ResourceWarning, match="was dropped without free"):
        drop(managed)
    assert live() == 0


def test_loans_end_on_any_thread() -> None:
    buffer = memory.allocate(1000)
    loans = [take(buffer.__dlpack__()) for _ in range(400)]
    threads = [threading.Thread(target=lambda part=loans[i::4]: [drop(each) for each in part]) for i in range(4)]
    buffer.free()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert live() == 0


def test_no_bytes_are_lent_too() -> None:
    with memory.allocate(0) as buffer:
        managed = take(buffer.__dlpack__())
        assert (managed.tensor.shape[0], managed.tensor.data) == (0, None)
        drop(managed)


@pytest.mark.parametrize(
    ("wish", "error", "text"),
    [
        ({"stream": 1}, ValueError, "stream must be None"),
        ({"dl_device": (2, 0)}, BufferError, r"cannot be moved to \(2, 0\)"),
        ({"copy": True}, BufferError, "can only be exported without a copy"),
    ],
    ids=["a stream", "another device", "a copy"],
)
def test_wishes_that_can_not_be_are_refused(wish: dict[str, Any], error: type[Exception], text: str) -> None:
    with memory.allocate(1000) as buffer:
        with pytest.raises(error, match=text):
            buffer.__dlpack__(**wish)
        take_back = buffer.__dlpack__(dl_device=(1, 0), copy=False, stream=None)
        del take_back
    assert live() == 0


def test_numpy_reads_and_writes_it() -> None:
    numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
    buffer = memory.allocate(1000)
    array = numpy.from_dlpack(buffer)
    assert (array.shape, array.dtype) == ((1000,), numpy.uint8)
    array[:] = 7
    assert buffer.copy_to_host() == b"\7" * 1000
    buffer.free()
    assert int(array.sum()) == 7000
    del array
    assert live() == 0
