"""An injected failure takes the path of a real one, and only one allocation fails.

PyTorch and Numba: see tests_py/frameworks.
"""

from __future__ import annotations

import ctypes

import gpuconf
import pytest
from gpuconf._core import injected

pytestmark = pytest.mark.usefixtures("two_gpus")

MIB = 1 << 20
LIBRARY = ctypes.CDLL(gpuconf.library_path())
LIBRARY.gpuconf_malloc.restype = LIBRARY.gpuconf_cupy_malloc.restype = ctypes.c_void_p
LIBRARY.gpuconf_last_error.restype = ctypes.c_char_p
SIZE = ctypes.c_size_t(MIB)


def test_the_nth_allocation_fails_and_no_other() -> None:
    injected.fail_allocation(3)
    with gpuconf.memory.allocate(MIB), gpuconf.memory.allocate(MIB, "GPU:1"):
        gpuconf.memory.allocate(0)  # takes no memory, and so does not count
        before = gpuconf.memory.stats()
        with pytest.raises(gpuconf.errors.ResourceExhaustedError, match="out of memory, an injected failure") as raised:
            gpuconf.memory.allocate(MIB)
        assert isinstance(raised.value, MemoryError)
        assert gpuconf.memory.stats() == before
        assert injected.counted() == 3
        for _ in range(10):
            gpuconf.memory.allocate(MIB).free()
        assert injected.counted() == 3


def test_tensors_operations_and_sessions() -> None:
    a = gpuconf.constant([[1.0]])
    injected.fail_allocation(1)
    with pytest.raises(MemoryError, match="injected"):
        gpuconf.constant([[1.0]])
    injected.fail_allocation(1)
    with pytest.raises(MemoryError, match="injected"):
        gpuconf.matmul(a, a)
    assert gpuconf.matmul(a, a).numpy() == [[1.0]]
    v1 = gpuconf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        product = v1.matmul(v1.constant([[2.0]]), v1.constant([[3.0]]))
        injected.fail_allocation(2)
        with pytest.raises(MemoryError, match="injected"):
            session.run(product)
        assert session.run(product) == [[6.0]]


def test_c_programs_and_cupy() -> None:
    gpuconf.config.list_logical_devices()
    injected.fail_allocation(2)
    kept = LIBRARY.gpuconf_malloc(SIZE, 0, None)
    assert kept
    assert LIBRARY.gpuconf_malloc(SIZE, 0, None) is None
    assert " out of memory, an injected failure" in LIBRARY.gpuconf_last_error().decode()
    injected.fail_allocation(1)
    assert LIBRARY.gpuconf_cupy_malloc(None, SIZE, 0) is None
    again = LIBRARY.gpuconf_cupy_malloc(None, SIZE, 0)
    assert again
    for ptr in (kept, again):
        LIBRARY.gpuconf_free(ctypes.c_void_p(ptr), SIZE, 0, None)


def test_reset_and_stop_end_the_counting() -> None:
    injected.fail_allocation(2)
    gpuconf.memory.allocate(MIB).free()
    assert injected.counted() == 1
    injected.stop()
    assert injected.counted() == 0
    gpuconf.memory.allocate(MIB).free()
    injected.fail_allocation(1)
    gpuconf.reset()
    gpuconf.memory.allocate(MIB).free()
    assert injected.counted() == 0


def test_the_first_allocation_of_all() -> None:
    """Counting does not initialize the devices, so they can still be configured."""
    injected.fail_allocation(1)
    gpuconf.config.set_visible_devices(gpuconf.config.list_physical_devices("GPU")[1:], "GPU")
    with pytest.raises(MemoryError, match="injected"):
        gpuconf.memory.allocate(MIB)


def test_an_allocation_that_waits_tries_again() -> None:
    injected.fail_allocation(1)
    gpuconf.memory.allocate(MIB, wait=5).free()
    assert injected.counted() == 1


def test_a_recording_has_the_failure() -> None:
    with gpuconf.memory.record(100) as recording:
        injected.fail_allocation(1)
        with pytest.raises(MemoryError):
            gpuconf.memory.allocate(MIB)
    assert [event.action for event in recording.trace] == ["allocate failure"]
