"""CuPy, Numba, and several libraries at once."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import gpuconf
from checks import MIB, Missing, expect, live, need


def case_cupys_memory_is_counted() -> None:
    """Sums are correct, memory is in the accounting and is released, and out of memory is CuPy's own error."""
    cupy = need("cupy")
    gpuconf.configure(limit="256MiB", libraries=["cupy"])
    array = cupy.arange(1_000_000, dtype=cupy.float64)
    expect(float(array.sum()) == 499999500000.0, "the sum is wrong")
    expect(live() >= 1, "the array is not on the books")
    with cupy.cuda.Stream():
        del array
        other = cupy.ones(1_000_000)
        expect(float(other.sum()) == 1_000_000, "the sum on a stream is wrong")
    try:
        cupy.empty(300 * MIB, dtype=cupy.uint8)
    except cupy.cuda.memory.OutOfMemoryError as error:
        expect("limit 256.00MiB" in str(error), str(error))
    else:
        raise AssertionError("300 MiB fitted into 256")
    del other
    expect(live() == 0, "blocks are left")


def case_numbas_memory_is_counted() -> None:
    """A Numba kernel on gpuconf's memory, with streams and without."""
    need("numba_cuda")
    numpy = need("numpy")
    gpuconf.configure(limit="256MiB", libraries=["numba"])
    from numba import cuda

    @cuda.jit  # type: ignore[untyped-decorator]
    def double(array: Any) -> None:
        i = cuda.grid(1)
        if i < array.size:
            array[i] *= 2

    try:
        double[8, 128](cuda.to_device(numpy.arange(1000)))  # it compiles the kernel
    except AttributeError as error:
        if str(error) != "module 'numpy' has no attribute 'row_stack'":
            raise
        raise Missing(
            f"numba-cuda {version('numba-cuda')} uses numpy.row_stack, which NumPy {numpy.__version__} does not have"
        ) from error
    for stream in (0, cuda.stream()):
        for _ in range(50):
            array = cuda.to_device(numpy.arange(1000), stream=stream)
            double[8, 128, stream](array)
            expect(
                bool((array.copy_to_host(stream=stream) == numpy.arange(1000) * 2).all()),
                "the kernel's result is wrong",
            )
    info = cuda.current_context().get_memory_info()
    expect(info.total == 256 * MIB, f"Numba sees {info}")


def case_three_libraries_share_one_limit() -> None:
    """PyTorch, CuPy and Numba in one process on one pool: together they cannot exceed the limit."""
    torch, cupy = need("torch"), need("cupy")
    need("numba_cuda")
    gpuconf.configure(limit="256MiB")
    from numba import cuda

    mine = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    yours = cupy.empty(100 * MIB, dtype=cupy.uint8)
    try:
        cuda.device_array(100 * MIB, dtype="uint8")
    except MemoryError:
        pass
    else:
        raise AssertionError("300 MiB fitted into 256")
    del mine
    theirs = cuda.device_array(100 * MIB, dtype="uint8")
    expect(live() == 2, "the books are not of all three")
    del yours, theirs


def case_a_buffer_is_everybodys_array() -> None:
    """PyTorch, CuPy and Numba read and write one buffer without a copy."""
    gpuconf.configure(limit="256MiB")
    buffer = gpuconf.memory.allocate(1000)
    buffer.copy_from_host(b"\1" * 1000)
    readers = 0
    for name in ("torch", "cupy", "numba_cuda"):
        try:
            library = need(name)
        except Missing:
            continue
        readers += 1
        if name == "torch":
            library.from_dlpack(buffer).add_(1)
            library.cuda.synchronize()
        elif name == "cupy":
            array = library.from_dlpack(buffer)
            array += 1
            library.cuda.Device().synchronize()
        else:
            from numba import cuda

            expect(int(cuda.as_cuda_array(buffer).gpu_data.device_pointer) == buffer.ptr, "a copy was made")
            readers -= 1
    if not readers:
        raise Missing("neither PyTorch nor CuPy is installed")
    expect(bytes(buffer.copy_to_host()) == bytes([1 + readers]) * 1000, "what was written is not there")
    buffer.free()
