"""The real numba-cuda on gpuconf's pools, without a GPU: over the driver of tests_go/machine/fakecuda (no_gpu.py)."""

import importlib.util
import sys
from collections.abc import Callable

import pytest

NEEDS = [name for name in ("numba_cuda", "cuda") if importlib.util.find_spec(name) is None]
# numba-cuda's .pth file imports it as Python starts, which is not so in a folder that another .pth file names.
NEEDS += [name for name in ("_numba_cuda_redirector",) if name not in sys.modules]
pytestmark = pytest.mark.skipif(bool(NEEDS), reason=f"numba-cuda is not installed: {NEEDS} missing")


def test_arrays_are_on_the_books_and_go_back(run: Callable[..., str]) -> None:
    assert run("""
        gpuconf.configure(limit="64MiB", libraries=["numba"])
        import numpy, gc
        from numba import cuda
        array = cuda.to_device(numpy.arange(1000, dtype=numpy.float32))
        print(gpuconf.memory.stats().requested_bytes_in_use, taken_beside_gpuconf(), array.copy_to_host().sum())
        print(cuda.current_context().get_memory_info() == (64 * MIB - 4096, 64 * MIB))
        empty = cuda.device_array(0)
        del array
        gc.collect()
        print(live(), driver.fakecuda_count(b"cuCtxSynchronize"))
        """).splitlines() == ["4000 0 499500.0", "True", "[0] 0"]


def test_numbas_own_module_is_not_routed(run: Callable[..., str]) -> None:
    """The one before numba-cuda's: its pointers are others, so that the first copy failed with an AttributeError."""
    out = run("""
        import sys
        sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "NumbaCudaFinder"]
        print(gpuconf.configure(limit="64MiB", libraries=["numba"]).libraries)
        from numba import cuda
        print(gpuconf.configure(limit="64MiB", libraries=["numba"]).libraries)
        print(cuda.to_device(b"123").copy_to_host().tobytes(), live())
        try:
            import gpuconf.allocators.numba
        except ImportError as error:
            print(str(error).replace(cuda.__file__, "FILE"))
        """)
    why = "not routed: this numba.cuda is Numba's own, and gpuconf routes numba-cuda's: pip install numba-cuda"
    assert out.splitlines() == [
        "{'numba': 'will use this limit once imported'}",
        str({"numba": why}),
        "b'123' [0]",
        "gpuconf.allocators.numba needs numba-cuda (FILE is Numba's own numba.cuda): pip install 'gpuconf[numba]'",
    ]


def test_by_the_environment_variable(run: Callable[..., str]) -> None:
    out = run(
        """
        from numba import cuda
        array = cuda.device_array(1000)
        print(live(), gpuconf.allocators.numba.installed())
        print(gpuconf.configure(libraries=["numba"]).libraries)
        """,
        NUMBA_CUDA_MEMORY_MANAGER="gpuconf.allocators.numba",
    )
    assert out.splitlines() == ["[1] True", "{'numba': 'routed'}"]


def test_out_of_memory_says_why(run: Callable[..., str]) -> None:
    assert run("""
        gpuconf.configure(limit="64MiB", libraries=["numba"])
        from numba import cuda
        try:
            cuda.device_array(1 << 30)
        except MemoryError as error:
            print(type(error).__name__, "larger than the limit" in str(error))
        cuda.device_array(1000)
        """).splitlines() == ["ResourceExhaustedError True"]


def test_with_streams_what_is_freed_waits_for_the_context(run: Callable[..., str]) -> None:
    """Numba does not pass streams, so memory could be reused while a kernel of another stream still reads it."""
    assert run("""
        gpuconf.configure(limit="64MiB", libraries=["numba"])
        from numba import cuda
        cuda.current_context()
        before = driver.fakecuda_count(b"cuCtxSynchronize")
        for _ in range(30):
            cuda.device_array(1000)
        print(live(), driver.fakecuda_count(b"cuCtxSynchronize") - before)
        stream = cuda.stream()
        for _ in range(10):
            cuda.device_array(1000)
        print(live(), driver.fakecuda_count(b"cuCtxSynchronize") - before)
        cuda.device_array(1000)
        print(live(), driver.fakecuda_count(b"cuCtxSynchronize") - before)
        with cuda.defer_cleanup():
            for _ in range(30):
                cuda.device_array(1000)
            print(live(), driver.fakecuda_count(b"cuCtxSynchronize") - before)
        cuda.device_array(1000)
        print(live(), driver.fakecuda_count(b"cuCtxSynchronize") - before)
        for _ in range(3):
            cuda.device_array(7 << 20)  # 56 MiB each: the second needs the memory that the first has freed
        print(live(), driver.fakecuda_count(b"cuCtxSynchronize") - before)
        """).splitlines() == ["[0] 0", "[10] 0", "[0] 1", "[30] 1", "[0] 2", "[1] 4"]


def test_a_reset_gives_all_back_and_late_finalizers_harm_nobody(run: Callable[..., str]) -> None:
    assert run("""
        gpuconf.configure(limit="64MiB", libraries=["numba"])
        from numba import cuda
        from gpuconf.allocators.numba import GpuconfMemoryManager
        context = cuda.current_context()
        context.memory_manager.reset()                     # before anything else
        first = cuda.device_array(1000)
        context.memory_manager.reset()
        print(live())
        second = cuda.device_array(1000)                   # at the same address
        print(int(second.gpu_data.device_pointer) == int(first.gpu_data.device_pointer))
        del first
        print(live())
        del second
        print(live(), GpuconfMemoryManager(context=None).interface_version)
        """).splitlines() == ["[0]", "True", "[1]", "[0] 1"]


def test_a_scope_chooses_the_budget(run: Callable[..., str]) -> None:
    assert run("""
        split(64, 32)
        gpuconf.configure(libraries=["numba"])
        from numba import cuda
        with gpuconf.device("GPU:1"):
            one = cuda.device_array(1000)
            print(live(), cuda.current_context().get_memory_info().total // MIB)
        two = cuda.device_array(1000)
        print(live())
        """).splitlines() == ["[0, 1] 32", "[1, 1]"]


def test_too_late_is_told(run: Callable[..., str]) -> None:
    out = run("""
        from numba import cuda
        cuda.current_context()
        try:
            gpuconf.configure(limit="64MiB", libraries=["numba"])
        except gpuconf.errors.FailedPreconditionError as error:
            print(error)
        """)
    assert out.startswith("gpuconf.configure() was called too late: Numba has already used the GPU.")


def test_a_buffer_is_an_array_of_numba_without_a_copy(run: Callable[..., str]) -> None:
    assert run("""
        gpuconf.configure(limit="64MiB", libraries=["numba"])
        from numba import cuda
        with gpuconf.memory.allocate(1000) as buffer:
            array = cuda.as_cuda_array(buffer)
            print(array.shape, array.dtype, int(array.gpu_data.device_pointer) == buffer.ptr)
        """).splitlines() == ["(1000,) uint8 True"]
