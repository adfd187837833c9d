"""The library that stands in for the CUDA runtime and the libraries above it."""

from pathlib import Path

import pytest
from gpuconf._core import elf
from simulated_libraries import SHIPPED, run


def test_memory_is_the_drivers_and_runs_out() -> None:
    assert run("""
    count, address, free, total, there = c_int(), c_void_p(), c_size_t(), c_size_t(), (c_int * 4)(1, 2, 3, 4)
    back = (c_int * 4)()
    cuda.cudaGetErrorString.restype = cuda.cudaGetErrorName.restype = c_char_p
    print(cuda.cudaGetDeviceCount(byref(count)), count.value)
    print(cuda.cudaMalloc(byref(address), c_size_t(16 << 20)), cuda.cudaMemGetInfo(byref(free), byref(total)),
          total.value >> 30)
    print(cuda.cudaMemcpy(address, there, c_size_t(16), 1), cuda.cudaMemcpy(back, address, c_size_t(16), 2), list(back))
    print(cuda.cudaMalloc(byref(c_void_p()), c_size_t(50 << 30)), cuda.cudaGetLastError(), cuda.cudaGetLastError())
    print(cuda.cudaGetErrorName(2).decode(), cuda.cudaGetErrorString(2).decode(), cuda.cudaFree(address),
          cuda.cudaSetDevice(2))
    """) == [
        "0 2",
        "0 0 39",
        "0 0 [1, 2, 3, 4]",
        "2 2 0",
        "cudaErrorMemoryAllocation out of memory 0 101",
    ]


@pytest.mark.parametrize(("cuda", "function", "multiprocessors"), [(12080, "_v2", 388), (13000, "", 384)])
def test_properties_have_the_layout_of_the_version(cuda: int, function: str, multiprocessors: int) -> None:
    program = f"""
    room = create_string_buffer(1032)
    cuda.gpuconf_runtime_versions({cuda}, 0, 0, 0)
    print(cuda.cudaGetDeviceProperties{function}(room, 1), room.value.decode())
    print(*(c_int.from_buffer(room, offset).value for offset in (308, 360, 364, {multiprocessors})))
    print(c_uint64.from_buffer(room, 288).value >> 30)
    """
    values = ["32 8 0 108", "39"]
    assert run(program) == ["0 NVIDIA A100-SXM4-40GB (simulated)", *values]
    assert run(program, GPUCONF_SIMULATE_PLAIN_NAMES="1") == ["0 NVIDIA A100-SXM4-40GB", *values]


def test_what_is_not_written_is_refused_and_noted_once() -> None:
    assert run("""
    cuda.gpuconf_runtime_noted.restype = c_char_p
    print(cuda.nvshmem_init(None), cuda.nvshmem_init(None), cuda.ncclPutSignal(None),
          cuda.cuptiEventGroupSetsCreate(None))
    print(*map(cuda.gpuconf_runtime_noted, range(4)))
    """) == ["3 3 3 27", "b'nvshmem_init' b'ncclPutSignal' b'cuptiEventGroupSetsCreate' None"]


def test_an_empty_library_is_the_one_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "any").write_bytes(elf.library("libcudart.so.12", ["libgpuconf-runtime.so"]))
    assert run(f"""
    ctypes.CDLL({str(tmp_path / "any")!r})
    version = c_int()
    print(ctypes.CDLL("libcudart.so.12").cudaRuntimeGetVersion(byref(version)), version.value)
    """) == ["0 12080"]


def test_what_a_library_needs_is_read_from_its_file(tmp_path: Path) -> None:
    libraries, symbols = elf.needs(str(SHIPPED / "libgpuconf-runtime.so"))
    assert any(name.startswith("libc.so") for name in libraries)
    assert {"cuMemAlloc_v2", "cuInit"} <= symbols
    content = (SHIPPED / "libgpuconf-runtime.so").read_bytes()
    for garbage in (b"garbage", content[:50], content[: len(content) // 2], content[:40] + b"\xff" * 8 + content[48:]):
        (tmp_path / "broken.so").write_bytes(garbage)
        with pytest.raises(ValueError, match=r"broken\.so is not a 64-bit ELF library"):
            elf.needs(str(tmp_path / "broken.so"))


def test_what_extensions_of_pytorch_call_beside_it() -> None:
    """Rectangles that are copied, host memory's address on the card, managed memory, symbols, graphs that change."""
    assert run("""
    there, back, pitched = (c_int * 4)(1, 2, 3, 4), (c_int * 4)(), (c_int * 8)()
    address, host, seen, managed, graph, executable = (c_void_p() for _ in range(6))
    print(cuda.cudaMalloc(byref(address), c_size_t(64)))
    rows = (c_size_t(16), there, c_size_t(8), c_size_t(8), c_size_t(2))
    print(cuda.cudaMemcpy2DAsync(address, *rows, 1, None), cuda.cudaMemcpy(pitched, address, c_size_t(24), 2),
          list(pitched))
    print(cuda.cudaMemcpy2D(back, c_size_t(8), address, c_size_t(16), c_size_t(8), c_size_t(2), 2), list(back))
    print(cuda.cudaMemcpy2D(back, c_size_t(4), address, c_size_t(16), c_size_t(8), c_size_t(2), 2),
          cuda.cudaGetLastError())
    print(cuda.cudaMallocHost(byref(host), c_size_t(64)), cuda.cudaHostGetDevicePointer(byref(seen), host, 0))
    print(seen.value == host.value)
    print(cuda.cudaMallocManaged(byref(managed), c_size_t(64), 1), cuda.cudaFree(managed), cuda.cudaFreeHost(host))
    print(cuda.cudaMemcpyToSymbol(c_void_p(1), there, c_size_t(16), c_size_t(0), 1), cuda.cudaSetDeviceFlags(4))
    information = (c_uint64 * 3)(9, 9, 9)
    print(cuda.cudaGraphExecUpdate(c_void_p(1), c_void_p(1), information), [int(n) & 0xffffffff for n in information])
    print(cuda.cudaDeviceEnablePeerAccess(1, 0), cuda.cudaDeviceDisablePeerAccess(1),
          cuda.cudaDeviceDisablePeerAccess(1) != 0)
    """) == [
        "0",
        "0 0 [1, 2, 0, 0, 3, 4, 0, 0]",
        "0 [1, 2, 3, 4]",
        "1 1",
        "0 0",
        "True",
        "0 0 0",
        "0 0",
        "910 [6, 0, 0]",
        "0 0 True",
    ]
