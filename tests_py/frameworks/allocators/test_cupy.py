"""CuPy on gpuconf's pools.

The real CuPy contains its own CUDA runtime, which asks the driver for undocumented tables (cuGetExportTable) and does
not start without them, so without a GPU it cannot return its current device. Its memory classes work, and are tested
here with replacements for the functions that return the current device and stream. The complete documented interface is
tested on
a stand-in.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

STANDIN = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "standins")!r})
import cupy_standin
cupy = cupy_standin.install()
"""

REAL = """
import types
import cupy
cupy.cuda.device = types.SimpleNamespace(get_device_id=lambda: 0)
from gpuconf.allocators import cupy as adaptor
own = adaptor._current_stream_function()
null_stream = ctypes.CFUNCTYPE(ctypes.c_ssize_t)(lambda: 0)
adaptor._current_stream_function = lambda: ctypes.cast(null_stream, ctypes.c_void_p).value
"""


def program(kind: str, rest: str) -> str:
    return {"stand-in": STANDIN, "real": REAL}[kind] + rest


@pytest.fixture(params=["stand-in", "real"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "real" and importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed")
    return str(request.param)


def test_memory_is_on_the_books_and_goes_back_with_its_last_reference(run: Callable[..., str], kind: str) -> None:
    out = run(
        program(
            kind,
            """
gpuconf.configure(limit="64MiB", libraries=["cupy"])
from gpuconf.allocators.cupy import allocate
pointer = allocate(1000)
print(live(), pointer.ptr % 256, pointer.mem.size, pointer.device_id, gpuconf.memory.stats().requested_bytes_in_use)
other = type(pointer)(pointer.mem, 100)
del pointer
print(live(), other.ptr % 256)
nothing = allocate(0)
print(nothing.ptr, live())
del other
print(live())
import threading
pointers = [allocate(1000) for _ in range(10)]
thread = threading.Thread(target=pointers.clear)
thread.start()
thread.join()
print(live(), taken_beside_gpuconf())
""",
        )
    )
    assert out.splitlines() == ["[1] 0 1000 0 1000", "[1] 100", "0 [1]", "[0]", "[0] 0"]


def test_out_of_memory_is_cupys_own_error_with_our_text(run: Callable[..., str], kind: str) -> None:
    out = run(
        program(
            kind,
            """
import pickle
gpuconf.configure(limit="64MiB", libraries=["cupy"])
from gpuconf.allocators.cupy import allocate
try:
    allocate(65 * MIB)
except cupy.cuda.memory.OutOfMemoryError as error:
    print(isinstance(error, gpuconf.errors.ResourceExhaustedError), isinstance(error, MemoryError))
    print(" out of memory" in str(error), "larger than the limit" in str(error))
    print(type(pickle.loads(pickle.dumps(error))).__name__, pickle.loads(pickle.dumps(error)).args == error.args)
allocate(1000)
""",
        )
    )
    assert out.splitlines() == ["True True", "True True", "OutOfMemoryError True"]


def test_the_real_one_is_called_without_python_in_between(run: Callable[..., str]) -> None:
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed")
    out = run(
        REAL
        + """
gpuconf.configure(limit="64MiB", libraries=["cupy"])
print(type(adaptor.allocate(1000).mem).__name__, own != 0)
library = ctypes.PyDLL(gpuconf.library_path())
library.gpuconf_cupy_malloc.restype = ctypes.c_void_p
library.gpuconf_cupy_malloc.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
try:
    taken = library.gpuconf_cupy_malloc(own, 1000, 0)   # calls CuPy for its stream
except cupy.cuda.runtime.CUDARuntimeError:              # CuPy 14 first asks the driver, which does not know its device
    taken = None
print(live() == [int(taken is not None)])
"""
    )
    assert out.splitlines() == ["CFunctionAllocatorMemory True", "True"]


def test_the_stream_and_the_device_are_cupys_current_ones(run: Callable[..., str]) -> None:
    """Two logical GPUs on the first card: the stream that represents the second one selects it.

    A second card: its own.
    """
    out = run(
        STANDIN
        + """
split(64, 32)
gpuconf.configure(libraries=["cupy"])
from gpuconf._core import abi as _abi
from gpuconf.allocators.cupy import allocate
first = allocate(1000)
print(live())
cupy.Stream.current = cupy.Stream(_abi.logical_stream(1))
second = allocate(1000)
print(live())
with cupy.cuda.Device(1):
    third = allocate(1000)
print(live())
cupy.Stream.current = cupy.Stream(0)
with gpuconf.device("GPU:2"):
    print(cupy.cuda.device.get_device_id())
    fourth = cupy.cuda.allocator(1000)
with gpuconf.device("GPU:1"):
    fifth = allocate(1000)
print(live(), cupy.cuda.device.get_device_id())
""",
        FAKECUDA_GPUS="2",
    )
    assert out.splitlines() == ["[1, 0, 0]", "[1, 1, 0]", "[1, 1, 1]", "1", "[1, 2, 2] 0"]


def test_too_late_is_told(run: Callable[..., str]) -> None:
    out = run(
        STANDIN
        + """
cupy_standin.Pool.bytes_held = 512
try:
    gpuconf.configure(limit="64MiB", libraries=["cupy"])
except gpuconf.errors.FailedPreconditionError as error:
    print(error)
"""
    )
    assert out.startswith("gpuconf.configure() was called too late: CuPy has already used the GPU.")
