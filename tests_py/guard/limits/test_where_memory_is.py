"""Which card is charged: memory of the host, pools and streams of another card, pools of other processes, green
contexts.
"""

from pathlib import Path

import pytest
from conftest_guard import CARDS, MIB, build_driver, job

CALLS = """
class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]
class PoolProps(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("other", c_void_p),
                ("rest", c_uint64 * 8)]
class Prop(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("other", c_void_p), ("flags", c_uint64)]
NONE, DEVICE, HOST, HOST_NUMA, HOST_NUMA_CURRENT = range(5)
PINNED, MANAGED = 1, 2
def create(where, id, mib):
    handle = c_uint64()
    return cuda.cuMemCreate(byref(handle), c_size_t(mib * MIB), byref(Prop(PINNED, 0, Location(where, id))),
                            c_uint64(0))
def make_pool(where, id, type=PINNED, handle_types=0):
    pool = c_void_p()
    assert cuda.cuMemPoolCreate(byref(pool), byref(PoolProps(type, handle_types, Location(where, id)))) == 0
    return pool
def from_pool(pool, mib):
    address = c_uint64()
    return cuda.cuMemAllocFromPoolAsync(byref(address), c_size_t(mib * MIB), pool, None), address
def ordered(stream, mib):
    address = c_uint64()
    return cuda.cuMemAllocAsync(byref(address), c_size_t(mib * MIB), stream), address
def left():
    return info()[0] // MIB
"""


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A driver of CUDA 13."""
    return build_driver(tmp_path_factory.mktemp("newest"), 13000)


def test_memory_of_the_host_is_not_counted(driver: Path) -> None:
    with job(driver, 128 * MIB, prelude=CALLS) as one:
        assert one.told("""
begin()
print(*(create(where, 0, 256) for where in (HOST, HOST_NUMA)), from_pool(make_pool(HOST, 0), 256)[0], left())
memory = c_void_p()
print(cuda.cuMemHostAlloc(byref(memory), c_size_t(256 * MIB), 0), left(), create(DEVICE, 0, 258),
      create(DEVICE, 0, 128), left())
""") == ["0 0 0 128", "0 128 2 0 0"]


def test_a_card_that_is_not_the_jobs_has_no_physical_memory(driver: Path) -> None:
    with job(driver, {CARDS[1]: 128 * MIB}, FAKECUDA_GPUS="2", prelude=CALLS) as one:
        assert (
            one.python("begin(1); print(*(create(DEVICE, card, 64) for card in (0, 1, 2)), left())") == "2 0 101 64\n"
        )


def test_a_device_without_uuid_has_no_physical_memory(tmp_path: Path) -> None:
    """It cannot be charged to a card."""
    with job(
        build_driver(tmp_path / "old", missing=("cuDeviceGetUuid", "cuDeviceGetUuid_v2")), 128 * MIB, prelude=CALLS
    ) as one:
        assert one.python("begin(); print(create(DEVICE, 0, 64), create(DEVICE, 1, 64))") == "2 101\n"


def test_pools_that_the_driver_makes_for_the_host_and_for_managed_memory(newest: Path) -> None:
    """From CUDA 13 on. Managed memory is charged wherever its pages are."""
    with job(newest, 128 * MIB, prelude=CALLS) as one:
        assert (
            one.told("""
begin()
def existing(function, where, type):
    pool = c_void_p()
    assert function(byref(pool), byref(Location(where, 0)), type) == 0
    return pool
for function in (cuda.cuMemGetDefaultMemPool, cuda.cuMemGetMemPool):
    host, managed, device = (existing(function, *of) for of in ((HOST, PINNED), (NONE, MANAGED), (DEVICE, PINNED)))
    print(from_pool(host, 256)[0], left(), end=" ")
    for pool in (managed, device, make_pool(NONE, 0, MANAGED), make_pool(DEVICE, 0, MANAGED)):
        result, address = from_pool(pool, 64)
        print(result, from_pool(pool, 66)[0], left(), end=" ")
        print(cuda.cuMemFreeAsync(address, None), cuda.cuMemPoolTrimTo(pool, c_size_t(0)), end=" ")
    print(left())
""")
            == ["0 128 " + "0 2 64 0 0 " * 4 + "128"] * 2
        )


def test_the_pool_of_a_location_is_set(newest: Path) -> None:
    """Of a card, of the host and of managed memory; a pool of another kind of memory is refused, a destroyed one no
    longer set.
    """
    with job(newest, 128 * MIB, prelude=CALLS) as one:
        lines = one.told("""
begin()
def current(where, type):
    pool = c_void_p()
    assert cuda.cuMemGetMemPool(byref(pool), byref(Location(where, 0)), type) == 0
    return pool.value
for where, type in ((DEVICE, PINNED), (HOST, PINNED), (NONE, MANAGED)):
    before, pool, place = current(where, type), make_pool(where, 0, type), byref(Location(where, 0))
    wrong = make_pool(NONE, 0, MANAGED) if type == PINNED else make_pool(HOST, 0)
    print(cuda.cuMemSetMemPool(place, type, wrong), cuda.cuMemSetMemPool(place, type, pool), end=" ")
    print(current(where, type) == pool.value, ordered(None, 2)[0], left(), end=" ")
    print(cuda.cuMemPoolDestroy(pool), current(where, type) == before, cuda.cuCtxSynchronize(), left())
""")
    assert lines == ["1 0 True 0 96 0 True 0 96", "1 0 True 0 64 0 True 0 64", "1 0 True 0 64 0 True 0 64"]


@pytest.mark.parametrize("which", ["own", "default"])
def test_a_pool_of_another_card(driver: Path, which: str) -> None:
    """What is taken from it is charged to its card, whichever is current."""
    limits = {CARDS[0]: 256 * MIB, CARDS[1]: 128 * MIB}
    with job(driver, limits, FAKECUDA_GPUS="2", prelude=CALLS) as one:
        assert one.told(f"""
second, first = begin(1), begin(0)
pool = c_void_p()
if {which!r} == "own":
    pool = make_pool(DEVICE, 1)
else:
    assert cuda.cuDeviceGetDefaultMemPool(byref(pool), 1) == 0
print(from_pool(pool, 128)[0], from_pool(pool, 2)[0], left(), cuda.cuCtxSetCurrent(second), left())
""") == ["0 2 256 0 0"]


def test_a_stream_of_another_card(driver: Path) -> None:
    """Memory in the order of a stream is of the stream's card, whichever is current."""
    limits = {CARDS[0]: 256 * MIB, CARDS[1]: 128 * MIB}
    with job(driver, limits, FAKECUDA_GPUS="2", prelude=CALLS) as one:
        assert one.told("""
second, stream = begin(1), c_void_p()
assert cuda.cuStreamCreateWithPriority(byref(stream), 1, 0) == 0
first = begin(0)
print(ordered(stream, 128)[0], ordered(stream, 2)[0], left(), ordered(None, 200)[0], left(),
      cuda.cuCtxSetCurrent(second), left())
""") == ["0 2 256 0 32 0 0"]


def test_a_pool_of_another_process(driver: Path) -> None:
    """It is charged to the process that made it."""
    with job(driver, 128 * MIB, prelude=CALLS) as one:
        assert one.told("""
begin()
shared, imported = c_int(), c_void_p()
pool = make_pool(DEVICE, 0, handle_types=1)
print(from_pool(pool, 64)[0], left(), cuda.cuMemPoolExportToShareableHandle(byref(shared), pool, 1, c_uint64(0)))
shared = c_void_p(shared.value)
print(cuda.cuMemPoolImportFromShareableHandle(byref(imported), shared, 1, c_uint64(0)), cuda.cuMemPoolDestroy(imported),
      left())
""") == ["0 64 0", "0 0 64"]


def test_a_sparse_array_takes_memory_only_with_its_tiles(driver: Path) -> None:
    with job(driver, 128 * MIB, prelude=CALLS) as one:
        assert one.told("""
class Shape(ctypes.Structure):
    _fields_ = [*((name, c_size_t) for name in "whd"), *((name, c_int) for name in ("format", "channels", "flags"))]
begin()
array, SPARSE, DEFERRED, FLOAT = c_void_p(), 0x40, 0x80, 0x20
for flags in (SPARSE, DEFERRED, 0):
    print(cuda.cuArray3DCreate_v2(byref(array), byref(Shape(8192, 8192, 0, FLOAT, 1, flags))), left(), end=" ")
""") == ["0 128 0 128 2 128 "]


def test_the_end_of_a_green_context_that_held_the_primary_one(driver: Path) -> None:
    with job(driver, 128 * MIB, prelude=CALLS) as one:
        assert one.told("""
assert cuda.cuInit(0) == 0
green, context = c_void_p(), c_void_p()
def make():
    assert cuda.cuGreenCtxCreate(byref(green), None, 0, 1) == 0
    assert cuda.cuCtxFromGreenCtx(byref(context), green) == 0 == cuda.cuCtxSetCurrent(context)
make()
print(allocate(100 * MIB)[0], allocate(100 * MIB)[0], left(), cuda.cuGreenCtxDestroy(green))
make()
print(left(), begin() is None, allocate(100 * MIB)[0], cuda.cuGreenCtxDestroy(green), left(),
      cuda.cuDevicePrimaryCtxRelease_v2(0))
make()
print(left())
""") == ["0 2 28 0", "128 False 0 0 28 0", "128"]
