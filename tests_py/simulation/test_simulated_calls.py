"""Functions of the simulated CUDA driver that programs call and gpuconf does not: each by ctypes, in its own
process.
"""

import functools
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import script

FAKECUDA = Path(__file__).resolve().parents[2] / "tests_go" / "machine" / "fakecuda"

PRELUDE = """
import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_ubyte, c_void_p
cu = ctypes.CDLL("libcuda.so.1")
def ok(result):
    assert result == 0, result
def u64(value):
    return c_uint64(value)
context, gpu = c_void_p(), c_uint64()
NULL = None
assert cu.cuMemHostUnregister(u64(4096)) == 3  # not initialized
ok(cu.cuInit(0))
ok(cu.cuDevicePrimaryCtxRetain(byref(context), 0))
ok(cu.cuCtxSetCurrent(context))
def allocate(bytes):
    at = c_uint64()
    ok(cu.cuMemAlloc_v2(byref(at), c_size_t(bytes)))
    return at.value
def host(bytes):
    at = c_uint64()
    ok(cu.cuMemHostAlloc(byref(at), c_size_t(bytes), 2))
    return at.value
def attribute(number, address, kind=c_uint64):
    value = kind()
    result = cu.cuPointerGetAttribute(byref(value), number, u64(address))
    return value.value if result == 0 else f"error {result}"
def stream():
    made = c_void_p()
    ok(cu.cuStreamCreateWithPriority(byref(made), 1, 0))
    return made
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("calls")
    runpy.run_path(str(FAKECUDA / "build.py"))["build"](place, 13000)  # some of the functions are newer than 12.4
    return place


@pytest.fixture
def run(folder: Path) -> Callable[..., None]:
    return functools.partial(run_in, folder)


def run_in(folder: Path, program: str, **environment: str) -> None:
    done = script.completed(
        [sys.executable, "-c", PRELUDE + program],
        env=script.plain() | {"LD_LIBRARY_PATH": str(folder), "FAKECUDA_GPUS": "2"} | environment,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_address_tells_its_memory(run: Callable[..., None]) -> None:
    run("""
a, b, h = allocate(1000), allocate(1 << 21), host(4096)
managed = c_uint64()
ok(cu.cuMemAllocManaged(byref(managed), c_size_t(5000), 1))
v = managed.value
assert attribute(1, a + 5) == context.value
assert [attribute(2, x, c_uint) for x in (a, h, v)] == [2, 1, 2]
assert attribute(3, a + 5) == a + 5 and attribute(3, h) == h
assert [attribute(4, x) for x in (a, h, v)] == ["error 1", h, v]
assert [attribute(8, x, c_ubyte) for x in (a, h, v)] == [0, 0, 1]
assert [attribute(9, x, c_int) for x in (a, h, v)] == [0, 0, 0]
assert (attribute(11, a + 5), attribute(12, a + 5)) == (a, 1000)
assert attribute(7, a) == attribute(7, a + 9) != attribute(7, b)
assert attribute(17, a) == 0
assert attribute(6, a, c_uint) & 255 == 0
ok(cu.cuPointerSetAttribute(byref(c_uint(1)), 6, u64(a)))
assert attribute(6, a, c_ubyte) == 1
assert attribute(6, v, c_ubyte) == 1  # managed memory has it before
for value in 0, 1:  # as NVIDIA's own tests of cuda-python do
    ok(cu.cuPointerSetAttribute(byref(c_uint(value)), 6, u64(v)))
    assert attribute(6, v, c_ubyte) == value
assert cu.cuPointerSetAttribute(byref(c_uint(1)), 6, u64(h)) == 1
assert cu.cuPointerSetAttribute(NULL, 6, u64(a)) == cu.cuPointerGetAttribute(NULL, 2, u64(a)) == 1
assert attribute(2, 4096) == attribute(0, a) == attribute(99, a) == "error 1"
kind, ordinal, start = c_uint(7), c_int(7), c_uint64(7)
def many(address):
    out = (c_void_p * 3)(*[ctypes.addressof(x) for x in (kind, ordinal, start)])
    ok(cu.cuPointerGetAttributes(3, (c_int * 3)(2, 9, 11), out, u64(address)))
    return kind.value, ordinal.value, start.value
assert many(a + 1) == (2, 0, a)
assert many(4096) == (0, -2, a)  # of no memory, a range is not written
base, size = c_uint64(), c_size_t()
for at, bytes in ((a, 1000), (h, 4096), (v, 5000)):
    ok(cu.cuMemGetAddressRange_v2(byref(base), byref(size), u64(at + 7)))
    assert (base.value, size.value) == (at, bytes)
ok(cu.cuMemGetAddressRange_v2(byref(base), NULL, u64(a)))
assert cu.cuMemGetAddressRange_v2(byref(base), byref(size), u64(4096)) == 500
ok(cu.cuMemGetAddressRange_v2(NULL, NULL, u64(a)))  # as NVIDIA's driver answers even before cuInit
ok(cu.cuMemFree_v2(u64(a)))
assert attribute(2, a) == "error 1"
""")


def test_memory_of_pools_and_mappings_has_no_context(run: Callable[..., None]) -> None:
    run("""
pool, at = c_void_p(), c_uint64()
ok(cu.cuDeviceGetDefaultMemPool(byref(pool), 0))
ok(cu.cuMemAllocAsync(byref(at), c_size_t(3000), NULL))
assert attribute(17, at.value) == pool.value and attribute(1, at.value) == 0
class Prop(ctypes.Structure):
    _fields_ = [("type", c_int), ("types", c_int), ("where", c_int), ("id", c_int), ("meta", c_void_p), ("flags", \
c_ubyte * 8)]
prop, handle, address, said = Prop(1, 1, 1, 1), c_uint64(), c_uint64(), Prop()
ok(cu.cuMemCreate(byref(handle), c_size_t(2 << 20), byref(prop), u64(0)))
ok(cu.cuMemAddressReserve(byref(address), c_size_t(2 << 20), c_size_t(2 << 20), u64(0), u64(0)))
ok(cu.cuMemMap(address, c_size_t(2 << 20), c_size_t(0), handle, u64(0)))
assert attribute(9, address.value, c_int) == attribute(14, address.value) == 1
assert attribute(12, address.value) == 2 << 20
ok(cu.cuMemGetAllocationPropertiesFromHandle(byref(said), handle))
assert (said.type, said.types, said.where, said.id) == (1, 1, 1, 1)
assert cu.cuMemGetAllocationPropertiesFromHandle(byref(said), u64(5)) == \
cu.cuMemGetAllocationPropertiesFromHandle(NULL, handle) == 1
""")


def test_registered_memory_is_page_locked(run: Callable[..., None]) -> None:
    run("""
text = ctypes.create_string_buffer(b"from the program", 8192)
address, a, s = ctypes.addressof(text), allocate(8192), stream()
copy = lambda: cu.cuMemcpyHtoDAsync_v2(u64(a), u64(address), c_size_t(8192), s)
register = lambda at, bytes, flags=0: cu.cuMemHostRegister_v2(u64(at), c_size_t(bytes), flags)
assert copy() == 1  # not page-locked
assert cu.cuMemHostUnregister(u64(address)) == 713
ok(register(address, 8192))
ok(copy())
assert register(address, 8192) == register(address + 100, 10) == 712
assert register(0, 10) == register(1 << 40, 0) == register(1 << 40, 10, 16) == 1
assert register(host(4096), 4096) == register(a, 4096) == 1  # the driver's own
pointer = c_uint64()
ok(cu.cuMemHostGetDevicePointer_v2(byref(pointer), u64(address + 3), 0))
assert pointer.value == address + 3 and attribute(2, address, c_uint) == 1
assert cu.cuMemFreeHost(u64(address)) == 1  # it is the program's
assert cu.cuMemHostUnregister(u64(address + 1)) == 1
ok(cu.cuMemHostUnregister(u64(address)))
assert copy() == 1 and attribute(2, address) == "error 1"
assert cu.cuMemHostGetDevicePointer_v2(byref(pointer), u64(address), 0) == cu.cuMemHostGetDevicePointer_v2(NULL, \
u64(address), 0) == 1
flags, h = c_uint(), c_uint64()
ok(cu.cuMemHostGetFlags(byref(flags), u64(host(100))))
assert flags.value == 2
ok(cu.cuMemAllocHost_v2(byref(h), c_size_t(100)))
assert cu.cuMemAllocHost_v2(NULL, c_size_t(100)) == cu.cuMemHostGetFlags(byref(flags), u64(address)) == 1
ok(cu.cuMemFreeHost(h))
""")


PTX = r"""
ptx = b'''//
.version 8.0
.target sm_90
.visible .entry twice(.param .u64 a) { ret; }
.entry	_Z3addPf (.param .u64 a) { ret; }
'''
module, f, g = c_void_p(), c_void_p(), c_void_p()
ok(cu.cuModuleLoadData(byref(module), ptx))
ok(cu.cuModuleGetFunction(byref(f), module, b"twice"))
def launch(grid=(1, 1, 1), block=(32, 1, 1), shared=0, function=None, on=None):
    return cu.cuLaunchKernel(function or f, *map(c_uint, grid), *map(c_uint, block), c_uint(shared), on, NULL, NULL)
"""


def test_modules_have_the_functions_of_their_image(run: Callable[..., None], tmp_path: Path) -> None:
    run(
        PTX
        + f"path = {str(tmp_path / 'k.ptx')!r}.encode()"
        + """
assert cu.cuModuleGetFunction(byref(g), module, b"thrice") == 500
ok(cu.cuModuleGetFunction(byref(g), module, b"_Z3addPf"))
name, of, value = c_char_p(), c_void_p(), c_int()
ok(cu.cuFuncGetName(byref(name), g)); ok(cu.cuFuncGetModule(byref(of), g))
assert (name.value, of.value) == (b"_Z3addPf", module.value)
ok(cu.cuFuncGetAttribute(byref(value), 0, f)); assert value.value == 1024
ok(cu.cuFuncGetAttribute(byref(value), 6, f)); assert value.value == 90
ok(cu.cuFuncSetAttribute(f, 8, 100 << 10))
ok(cu.cuFuncGetAttribute(byref(value), 8, f)); assert value.value == 100 << 10
assert cu.cuFuncSetAttribute(f, 8, 1 << 20) == cu.cuFuncGetAttribute(NULL, 0, f) == 1
assert cu.cuModuleLoadData(byref(module), NULL) == cu.cuModuleLoadData(NULL, ptx) == cu.cuModuleGetFunction(NULL, \
module, b"twice") == 1
assert cu.cuModuleLoad(byref(of), path) == 301
open(path, "wb").write(ptx)
ok(cu.cuModuleLoad(byref(of), path)); ok(cu.cuModuleGetFunction(byref(g), of, b"twice"))
ok(cu.cuModuleUnload(of))
assert cu.cuModuleUnload(of) == cu.cuModuleGetFunction(byref(f), of, b"twice") == launch(function=g) == 400
any = c_void_p()
ok(cu.cuModuleLoadData(byref(any), bytes([1, 2, 3, 4, 0, 0, 0, 0])))
ok(cu.cuModuleGetFunction(byref(g), any, b"whatever"))
library, kernel, function = c_void_p(), c_void_p(), c_void_p()
ok(cu.cuLibraryLoadData(byref(library), ptx, NULL, NULL, 0, NULL, NULL, 0))
ok(cu.cuLibraryGetKernel(byref(kernel), library, b"twice")); ok(cu.cuKernelGetFunction(byref(function), kernel))
ok(launch(function=kernel)); ok(launch(function=function))
ok(cu.cuLibraryGetModule(byref(of), library)); ok(cu.cuModuleGetFunction(byref(g), of, b"twice"))
assert cu.cuModuleUnload(library) == 400
ok(cu.cuLibraryUnload(library)); assert launch(function=kernel) == 400
"""
    )


def test_a_launch_is_checked_and_a_node_of_a_graph(run: Callable[..., None]) -> None:
    run(
        PTX
        + """
ok(launch())
assert [launch(grid=(0, 1, 1)), launch(grid=(1, 65536, 1)), launch(block=(1025, 1, 1)), launch(block=(1, 1, 65)), \
launch(block=(64, 32, 1))] == [1] * 5
assert launch(shared=49 << 10) == 1
ok(cu.cuFuncSetAttribute(f, 8, 100 << 10)); ok(launch(shared=49 << 10))
assert launch(on=c_void_p(12345)) == 400 and launch(function=c_void_p(12345)) == 400
s, graph = stream(), c_void_p()
ok(cu.cuStreamBeginCapture_v2(s, 0))
ok(launch(on=s))
ok(cu.cuStreamEndCapture(s, byref(graph)))
nodes = c_size_t()
blocks, grid, block, shared = c_int(), c_int(), c_int(), c_size_t()
ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(byref(blocks), f, 256, c_size_t(0))); assert blocks.value == 8
ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(byref(blocks), f, 128, c_size_t(100 << 10), 0)); assert \
blocks.value == 2
ok(cu.cuOccupancyMaxPotentialBlockSize(byref(grid), byref(block), f, NULL, c_size_t(0), 0)); assert (grid.value, \
block.value) == (264, 1024)
ok(cu.cuOccupancyAvailableDynamicSMemPerBlock(byref(shared), f, 2, 128)); assert shared.value == 113 << 10
assert cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, f, 256, c_size_t(0)) == \
cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(byref(blocks), f, 0, c_size_t(0)) == 1
"""
    )


def test_host_functions_run_in_order(run: Callable[..., None]) -> None:
    run("""
import threading
seen, s, gate = [], stream(), threading.Event()
Function = ctypes.CFUNCTYPE(None, c_void_p)
Callback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)
first = Function(lambda data: (gate.wait(60), seen.append(data)))
last = Callback(lambda stream, status, data: seen.append((stream == s.value, status, data)))
ok(cu.cuLaunchHostFunc(s, first, c_void_p(7)))
ok(cu.cuStreamAddCallback(s, last, c_void_p(8), 0))
assert cu.cuStreamQuery(s) == 600 and seen == []  # other calls go on while it runs
gate.set()
ok(cu.cuStreamSynchronize(s))
assert seen == [7, (True, 0, 8)], seen
assert cu.cuLaunchHostFunc(s, NULL, NULL) == cu.cuStreamAddCallback(s, last, NULL, 1) == 1
graph, run = c_void_p(), c_void_p()
ok(cu.cuStreamBeginCapture_v2(s, 0))
ok(cu.cuLaunchHostFunc(s, first, c_void_p(9)))
ok(cu.cuStreamEndCapture(s, byref(graph)))
assert len(seen) == 2
ok(cu.cuGraphInstantiateWithFlags(byref(run), graph, u64(0)))
ok(cu.cuGraphLaunch(run, s)); ok(cu.cuGraphLaunch(run, s)); ok(cu.cuStreamSynchronize(s))
assert seen[2:] == [9, 9]
""")


def test_copies_of_lines_rectangles_and_boxes(run: Callable[..., None]) -> None:
    run("""
text = ctypes.create_string_buffer(bytes(range(64)), 64)
back = ctypes.create_string_buffer(64)
src, dst, a, s = ctypes.addressof(text), ctypes.addressof(back), allocate(4096), stream()
copy = lambda to, at, bytes=64: cu.cuMemcpy(u64(to), u64(at), c_size_t(bytes))
ok(copy(a, src)); ok(copy(a + 64, a)); ok(copy(dst, a + 64))
assert back.raw == bytes(range(64))
assert copy(a + 4090, src) == copy(0, src) == copy(a, 0) == 1
assert cu.cuMemcpyAsync(u64(a), u64(src), c_size_t(64), s) == 1  # not page-locked
ok(cu.cuMemcpyAsync(u64(a + 128), u64(a), c_size_t(64), s)); ok(cu.cuStreamSynchronize(s))
class End(ctypes.Structure):
    _fields_ = [("x", c_size_t), ("y", c_size_t), ("type", c_int), ("host", c_void_p), ("device", c_uint64), ("array", \
c_void_p), ("pitch", c_size_t)]
class Copy(ctypes.Structure):
    _fields_ = [("a", End), ("b", End), ("width", c_size_t), ("height", c_size_t)]
# two rows of three bytes, from column 1 and row 1 of rows of 8
ctypes.memset(dst, 0, 64)
box = Copy(End(1, 1, 2, None, a, None, 8), End(0, 0, 1, dst, 0, None, 4), 3, 2)
ok(cu.cuMemcpy2D_v2(byref(box)))
assert back.raw[:8] == bytes([9, 10, 11, 0, 17, 18, 19, 0])
assert cu.cuMemcpy2DAsync_v2(byref(box), s) == 1 and cu.cuMemcpy2D_v2(NULL) == 1
box.a.pitch = 3
assert cu.cuMemcpy2D_v2(byref(box)) == 1
box.a.type = 3
assert cu.cuMemcpy2D_v2(byref(box)) == 801
box.a.type, box.a.pitch, box.height = 2, 8, 1 << 20
assert cu.cuMemcpy2DUnaligned_v2(byref(box)) == 1
class End3(ctypes.Structure):
    _fields_ = [(n, c_size_t) for n in ("x", "y", "z", "level")] + [("type", c_int), ("host", c_void_p), ("device", \
c_uint64), ("array", c_void_p), ("none", c_void_p), ("pitch", c_size_t), ("height", c_size_t)]
class Copy3(ctypes.Structure):
    _fields_ = [("a", End3), ("b", End3), ("width", c_size_t), ("height", c_size_t), ("depth", c_size_t)]
ctypes.memset(dst, 0, 64)
ok(cu.cuMemcpy3D_v2(byref(Copy3(
    End3(0, 0, 0, 0, 4, None, a, None, None, 8, 4), End3(0, 0, 0, 0, 1, dst, 0, None, None, 2, 1), 2, 1, 2))))
assert back.raw[:4] == bytes([0, 1, 32, 33])
assert cu.cuMemcpy3D_v2(NULL) == cu.cuMemcpy3DAsync_v2(NULL, s) == 1
""")


def test_fills_with_wider_values(run: Callable[..., None]) -> None:
    run("""
back = ctypes.create_string_buffer(16)
a, s = allocate(4096), stream()
def read():
    ok(cu.cuMemcpy(u64(ctypes.addressof(back)), u64(a), c_size_t(16)))
    return back.raw.hex()
ok(cu.cuMemsetD32_v2(u64(a), c_uint(0x04030201), c_size_t(4)))
assert read() == "01020304" * 4
ok(cu.cuMemsetD16Async(u64(a + 2), ctypes.c_ushort(0xbbaa), c_size_t(3), s)); ok(cu.cuStreamSynchronize(s))
assert read() == "0102aabbaabbaabb" + "01020304" * 2
ok(cu.cuMemsetD2D8_v2(u64(a), c_size_t(8), c_ubyte(9), c_size_t(1), c_size_t(2)))
assert read() == "0902aabbaabbaabb0902030401020304"
assert cu.cuMemsetD32_v2(u64(a + 1), c_uint(1), c_size_t(1)) == 1
assert cu.cuMemsetD32_v2(u64(a), c_uint(1), c_size_t(1025)) == 1
assert cu.cuMemsetD2D32Async(u64(a), c_size_t(4), c_uint(1), c_size_t(2), c_size_t(2), s) == 1
graph, run = c_void_p(), c_void_p()
ok(cu.cuStreamBeginCapture_v2(s, 0))
ok(cu.cuMemsetD32Async(u64(a), c_uint(0), c_size_t(4), s))
ok(cu.cuStreamEndCapture(s, byref(graph)))
assert read().startswith("0902aabb")
ok(cu.cuGraphInstantiateWithFlags(byref(run), graph, u64(0)))
ok(cu.cuGraphLaunch(run, s))
ok(cu.cuStreamSynchronize(s))
assert read() == "00" * 16
""")


def test_more_questions(run: Callable[..., None]) -> None:
    run("""
major, minor, device, value, flags, size, id = c_int(), c_int(), c_int(), c_int(), c_uint(), c_size_t(), c_uint64()
ok(cu.cuDeviceComputeCapability(byref(major), byref(minor), 1)); assert (major.value, minor.value) == (9, 0)
text = ctypes.create_string_buffer(32)
ok(cu.cuDeviceGetPCIBusId(text, 32, 1)); ok(cu.cuDeviceGetByPCIBusId(byref(device), text)); assert device.value == 1
assert cu.cuDeviceGetByPCIBusId(byref(device), b"0000:FF:00.0") == 101 and cu.cuDeviceGetByPCIBusId(NULL, text) == 1
assert cu.cuDeviceGetLuid(text, byref(flags), 0) == 801
assert cu.cuDeviceComputeCapability(byref(major), byref(minor), 7) == 101
s, t, event = c_void_p(), c_void_p(), c_void_p()
ok(cu.cuStreamCreate(byref(s), 1)); ok(cu.cuStreamCreate(byref(t), 0))
for one, wanted in ((s, 1), (t, 0), (NULL, 0)):
    ok(cu.cuStreamGetFlags(one, byref(flags))); assert flags.value == wanted
ok(cu.cuStreamGetDevice(s, byref(device))); assert device.value == 0
ok(cu.cuEventCreate(byref(event), 0)); assert cu.cuEventRecordWithFlags(event, s, 1) == 401 and \
cu.cuEventRecordWithFlags(event, s, 2) == 1
ok(cu.cuCtxGetLimit(byref(size), 2)); assert size.value == 8 << 20 and cu.cuCtxGetLimit(byref(size), 99) == 1
ok(cu.cuCtxGetFlags(byref(flags))); ok(cu.cuCtxGetCacheConfig(byref(value))); ok(cu.cuCtxSetCacheConfig(1)); assert \
cu.cuCtxSetCacheConfig(9) == 1
ok(cu.cuCtxGetId(NULL, byref(id))); one = id.value; ok(cu.cuCtxGetId(context, byref(id))); assert id.value == one > 0
assert cu.cuCtxGetId(c_void_p(77), byref(id)) == 201
""")


def test_the_time_between_events(run: Callable[..., None]) -> None:
    run("""
def event(flags):
    made = c_void_p()
    ok(cu.cuEventCreate(byref(made), flags))
    return made
ms, one, two, untimed, queue = ctypes.c_float(-1), event(0), event(0), event(2), stream()
assert cu.cuEventElapsedTime(byref(ms), one, two) == 400  # not recorded
for each in (one, untimed):
    ok(cu.cuEventRecord(each, queue))
called = ctypes.CFUNCTYPE(None, c_void_p)(lambda data: __import__("time").sleep(0.02))
ok(cu.cuLaunchHostFunc(queue, called, NULL))
ok(cu.cuEventRecord(two, queue))
assert cu.cuEventElapsedTime(NULL, one, two) == 400
assert cu.cuEventElapsedTime(byref(ms), one, two) in (0, 600)
ok(cu.cuStreamSynchronize(queue))
for form in (cu.cuEventElapsedTime, cu.cuEventElapsedTime_v2):
    ok(form(byref(ms), one, two))
    assert ms.value >= 20, ms.value
    ok(form(byref(ms), two, one))
    assert ms.value <= -20, ms.value
assert cu.cuEventElapsedTime(byref(ms), one, untimed) == 400
ok(cu.cuEventDestroy(two))
assert cu.cuEventElapsedTime(byref(ms), one, two) == 400
other = c_void_p()
ok(cu.cuDevicePrimaryCtxRetain(byref(other), 1))
ok(cu.cuCtxSetCurrent(other))
elsewhere = event(0)
ok(cu.cuEventRecord(elsewhere, NULL))
ok(cu.cuEventSynchronize(elsewhere))
assert cu.cuEventElapsedTime(byref(ms), one, elsewhere) == 400  # of two GPUs
""")


def test_hints_about_managed_memory_are_checked(run: Callable[..., None]) -> None:
    run("""
def at(type, id):
    return u64(type | id << 32)  # a CUmemLocation, by value
memory, plain = c_uint64(), allocate(4096)
ok(cu.cuMemAllocManaged(byref(memory), c_size_t(1 << 20), 1))
cu.cuMemPrefetchAsync.argtypes = cu.cuMemPrefetchAsync_ptsz.argtypes = [c_uint64, c_size_t, c_int, c_void_p]
cu.cuMemPrefetchAsync_v2.argtypes = [c_uint64, c_size_t, c_uint64, c_uint, c_void_p]
cu.cuMemAdvise.argtypes = [c_uint64, c_size_t, c_int, c_int]
cu.cuMemAdvise_v2.argtypes = [c_uint64, c_size_t, c_int, c_uint64]
for device in (-1, 0):
    ok(cu.cuMemPrefetchAsync(memory, 1 << 20, device, NULL))
    ok(cu.cuMemPrefetchAsync_ptsz(memory.value + 4096, 4096, device, NULL))
    for advice in range(1, 7):
        ok(cu.cuMemAdvise(memory, 4096, advice, device))
ok(cu.cuMemPrefetchAsync_v2(memory, 4096, at(1, 0), 0, NULL))
ok(cu.cuMemAdvise_v2(memory, 4096, 3, at(2, 0)))
for address, bytes in ((plain, 4096), (memory.value, 0), (memory.value, (1 << 20) + 1), (4096, 4096)):
    assert cu.cuMemPrefetchAsync(address, bytes, 0, NULL) == 1
    assert cu.cuMemAdvise(address, bytes, 1, 0) == 1
assert cu.cuMemPrefetchAsync(memory, 4096, 7, NULL) == 101
assert cu.cuMemAdvise(memory, 4096, 3, 7) == 101
ok(cu.cuMemAdvise(memory, 4096, 1, 7))  # this advice is about no device
assert cu.cuMemAdvise(memory, 4096, 7, 0) == 1
assert cu.cuMemPrefetchAsync_v2(memory, 4096, at(0, 0), 0, NULL) == 1
assert cu.cuMemPrefetchAsync_v2(memory, 4096, at(1, 0), 1, NULL) == 1
assert cu.cuMemPrefetchAsync_v2(memory, 4096, at(1, 9), 0, NULL) == 101
assert cu.cuMemAdvise_v2(memory, 4096, 3, at(5, 0)) == 1
""")


def test_boxes_are_copied_between_contexts(run: Callable[..., None]) -> None:
    run(
        """
class End(ctypes.Structure):
    _fields_ = [(name, c_size_t) for name in ("x", "y", "z", "level")] + [("type", c_int)] + [
        (name, c_uint64) for name in ("host", "device", "array", "context", "pitch", "height")]
class Copy(ctypes.Structure):
    _fields_ = [("src", End), ("dst", End), ("width", c_size_t), ("height", c_size_t), ("depth", c_size_t)]
other, source = c_void_p(), allocate(256)
ok(cu.cuMemcpyHtoD_v2(u64(source), bytes(range(256)), c_size_t(256)))
ok(cu.cuDevicePrimaryCtxRetain(byref(other), 1))
ok(cu.cuCtxSetCurrent(other))
target = allocate(64)
ok(cu.cuMemsetD8_v2(u64(target), 0, c_size_t(64)))
ok(cu.cuCtxSynchronize())
ok(cu.cuCtxSetCurrent(context))
copy = Copy(End(2, 1, 0, 0, 2, 0, source, 0, context.value, 16, 4), End(0, 0, 0, 0, 2, 0, target, 0, other.value, 8, 2),
            8, 2, 2)
expected = b"".join(bytes(range(16 * row + 2, 16 * row + 10)) for row in (1, 2, 5, 6))
back = (c_ubyte * 32)()
for form, more in (("", ()), ("_ptds", ()), ("Async", (NULL,)), ("Async_ptsz", (NULL,))):
    ok(getattr(cu, "cuMemcpy3DPeer" + form)(byref(copy), *more))
    ok(cu.cuCtxSynchronize())
    ok(cu.cuCtxSetCurrent(other))
    ok(cu.cuMemcpyDtoH_v2(back, u64(target), c_size_t(32)))
    ok(cu.cuMemsetD8_v2(u64(target), 0, c_size_t(64)))
    ok(cu.cuCtxSynchronize())  # nothing else orders the contexts' streams
    ok(cu.cuCtxSetCurrent(context))
    assert bytes(back) == expected, form
assert cu.cuMemcpy3DPeer(NULL) == 1
copy.dst.context = 4096
assert cu.cuMemcpy3DPeer(byref(copy)) == 201
""",
        FAKECUDA_GPUS="2",
    )


def test_forms_with_the_default_stream_of_the_thread(run: Callable[..., None]) -> None:
    run("""
at, pinned, made, graph, value = allocate(64), host(64), c_void_p(), c_void_p(), c_int(9)
ok(cu.cuMemsetD8Async_ptsz(u64(at), 7, c_size_t(64), NULL))
ok(cu.cuMemcpyDtoHAsync_v2_ptsz(c_void_p(pinned), u64(at), c_size_t(64), NULL))
ok(cu.cuEventCreate(byref(made), 0))
ok(cu.cuEventRecord_ptsz(made, NULL))
ok(cu.cuStreamWaitEvent_ptsz(NULL, made, 0))
ok(cu.cuEventSynchronize(made))
assert ctypes.string_at(pinned, 64) == bytes([7]) * 64
assert cu.cuStreamQuery_ptsz(NULL) in (0, 600)
ok(cu.cuStreamGetPriority_ptsz(NULL, byref(value)))
assert cu.cuStreamBeginCapture_v2(NULL, 0) == 900  # the legacy stream can't be captured; the thread's can
ok(cu.cuStreamBeginCapture_v2_ptsz(NULL, 2))
ok(cu.cuStreamEndCapture_ptsz(NULL, byref(graph)))
ok(cu.cuEventDestroy(made))
assert cu.cuEventDestroy(made) == 400
""")
