"""Pools and graphs are charged with the segments that the driver reserves, whatever their size, and never exceed the
limit.
"""

from pathlib import Path

import pytest
from conftest_guard import CARDS, MIB, job

SEGMENTS = [2, 20, 32, 64]  # MiB; an H200's are 32
POOLS = """
class Props(ctypes.Structure):  # CUmemPoolProps, and what a graph's allocation has besides
    _fields_ = [(name, c_int) for name in ("type", "handles", "where", "id")]
    _fields_ += [("other", c_void_p), ("most", c_size_t), ("rest", ctypes.c_ubyte * 56), ("access", c_void_p)]
    _fields_ += [("count", c_size_t), ("bytes", c_size_t), ("at", c_uint64)]
def make_pool():
    pool = c_void_p()
    assert cuda.cuMemPoolCreate(byref(pool), byref(Props(1, 0, 1, 0))) == 0
    return pool
def from_pool(pool, bytes, stream=None):
    address = c_uint64()
    return cuda.cuMemAllocFromPoolAsync(byref(address), c_size_t(bytes), pool, stream), address
def of_pool(pool, attribute):
    value = c_uint64()
    assert cuda.cuMemPoolGetAttribute(pool, attribute, byref(value)) == 0
    return value.value // MIB
def of_graphs(attribute):
    value = c_uint64()
    assert cuda.cuDeviceGetGraphMemAttribute(0, attribute, byref(value)) == 0
    return value.value // MIB
def graph(*sizes):  # each is freed before the next
    graph, node, executable = c_void_p(), c_void_p(), c_void_p()
    assert cuda.cuGraphCreate(byref(graph), 0) == 0
    for nth, bytes in enumerate(sizes):
        props = Props(1, 0, 1, 0, bytes=bytes)
        assert cuda.cuGraphAddMemAllocNode(byref(node), graph, byref(node), c_size_t(nth > 0), byref(props)) == 0
        assert cuda.cuGraphAddMemFreeNode(byref(node), graph, byref(node), c_size_t(1), c_uint64(props.at)) == 0
    assert cuda.cuGraphInstantiateWithFlags(byref(executable), graph, c_uint64(0)) == 0
    return executable
RESERVED, MOST_RESERVED = 5, 6
GRAPHS_RESERVED, MOST_OF_GRAPHS = 2, 3
"""


@pytest.mark.parametrize("segment", SEGMENTS)
def test_a_pool_is_filled_up_to_the_limit_and_never_beyond(driver: Path, segment: int) -> None:
    """The driver's own highest figure says so, which counts what was undone at once, too."""
    limit = 100
    whole = limit // segment * segment
    with job(driver, limit * MIB, FAKECUDA_SEGMENT=str(segment * MIB), prelude=POOLS) as one:
        assert one.python("""
begin()
pool = make_pool()
made = []
while True:
    result, address = from_pool(pool, MIB)
    if result:
        break
    made.append(address)
print(result, len(made), of_pool(pool, RESERVED), of_pool(pool, MOST_RESERVED), info()[0] // MIB)
for address in made:
    assert cuda.cuMemFreeAsync(address, None) == 0
assert cuda.cuStreamSynchronize(None) == 0
print(info()[0] // MIB)
""").splitlines() == [f"2 {whole} {whole} {whole} {limit - whole}", f"{limit}"]
        assert one.budget.usage()[CARDS[0]].peak <= limit * MIB
        assert one.budget.log() == []


@pytest.mark.parametrize("segment", SEGMENTS)
def test_threads_and_graphs_together_never_reserve_beyond_the_limit(driver: Path, segment: int) -> None:
    """Threads that request from a pool each and launch graphs.

    Nothing of the pools is freed here, so they do not shrink.
    """
    limit = 200
    with job(driver, limit * MIB, FAKECUDA_SEGMENT=str(segment * MIB), prelude=POOLS) as one:
        told = one.python("""
import signal, threading
signal.alarm(60)
context = begin()
assert from_pool(make_pool(), MIB)[0] == 0            # from now on the size of segments is known
pools = [make_pool() for _ in range(4)]
executables = [graph(bytes * MIB) for bytes in (1, 3, 40)]
def work(pool):
    cuda.cuCtxSetCurrent(context)
    stream = c_void_p()
    assert cuda.cuStreamCreateWithPriority(byref(stream), 1, 0) == 0
    for step in range(60):
        assert from_pool(pool, (1 + step % 7) * MIB, stream)[0] in (0, 2)
        assert cuda.cuGraphLaunch(executables[step % 3], stream) in (0, 2)
threads = [threading.Thread(target=work, args=(pool,)) for pool in pools]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*(sum(of_pool(pool, figure) for pool in pools) for figure in (RESERVED, MOST_RESERVED)))
""")
        now, most = map(int, told.split())
        assert now <= limit - segment
        assert most <= limit - segment
        assert one.budget.usage()[CARDS[0]].peak <= limit * MIB
        assert one.budget.log() == []


@pytest.mark.parametrize("segment", SEGMENTS)
def test_a_graph_that_has_no_room_for_a_segment_is_not_launched(driver: Path, segment: int) -> None:
    with job(driver, 100 * MIB, FAKECUDA_SEGMENT=str(segment * MIB), prelude=POOLS) as one:
        assert one.python(f"""
begin()
executable = graph(MIB)
assert cuda.cuGraphLaunch(executable, None) == 0 == cuda.cuDeviceGraphMemTrim(0)
assert allocate((100 - {segment}) * MIB)[0] == 0
print(cuda.cuGraphLaunch(executable, None), of_graphs(GRAPHS_RESERVED), info()[0] // MIB)
assert cuda.cuDeviceGraphMemTrim(0) == 0
assert allocate(2 * MIB)[0] == 0
print(cuda.cuGraphLaunch(executable, None), of_graphs(MOST_OF_GRAPHS), info()[0] // MIB)
""").splitlines() == [f"0 {segment} 0", f"2 {segment} {segment - 2}"]
        assert one.budget.log() == []


def test_a_graph_needs_what_it_holds_at_once(driver: Path) -> None:
    with job(driver, 64 * MIB, FAKECUDA_SEGMENT=str(2 * MIB), prelude=POOLS) as one:
        told = one.python(
            "begin(); print([cuda.cuGraphLaunch(graph(*[size * MIB] * 3), None) for size in (32, 64, 66)])"
        )
        assert told == "[0, 0, 2]\n"


@pytest.mark.parametrize("segment", SEGMENTS)
def test_a_destroyed_pool_is_charged_until_its_last_allocation_is_freed(driver: Path, segment: int) -> None:
    """With what it had reserved then."""
    with job(driver, 256 * MIB, FAKECUDA_SEGMENT=str(segment * MIB), prelude=POOLS) as one:
        assert one.python(f"""
begin()
pool = make_pool()
(_, first), (_, second) = from_pool(pool, MIB), from_pool(pool, MIB)
assert cuda.cuMemPoolDestroy(pool) == 0
print(info()[0] // MIB, allocate(({256 - segment} + 2) * MIB)[0])
for address in first, second:
    assert cuda.cuMemFreeAsync(address, None) == 0 == cuda.cuStreamSynchronize(None)
    print(info()[0] // MIB)
""").splitlines() == [f"{256 - segment} 2", f"{256 - segment}", "256"]
        assert (one.used(), one.budget.log()) == (0, [])


def test_what_other_pools_give_back_while_a_request_is_undone_is_not_charged(driver: Path) -> None:
    """Undoing waits for the stream, at which the driver releases what every pool has free: the others stayed charged
    with it.
    """
    with job(driver, 112 * MIB, FAKECUDA_SEGMENT=str(32 * MIB), prelude=POOLS) as one:
        assert one.python("""
begin()
other, pool = make_pool(), make_pool()
def keep(bytes):
    assert cuda.cuMemPoolSetAttribute(other, 4, byref(c_uint64(bytes))) == 0
keep(64 * MIB)
_, address = from_pool(other, 40 * MIB)
assert cuda.cuMemFreeAsync(address, None) == 0 == cuda.cuStreamSynchronize(None)
keep(0)
made = [from_pool(pool, 2 * MIB)[1] for _ in range(16)]
for address in made[:-1:2]:
    assert cuda.cuMemFreeAsync(address, None) == 0
print(of_pool(other, RESERVED), of_pool(pool, RESERVED), info()[0] // MIB)
print(from_pool(pool, 6 * MIB)[0], of_pool(other, RESERVED), of_pool(pool, RESERVED), info()[0] // MIB)
""").splitlines() == ["64 32 16", "2 0 32 80"]
        assert one.budget.log() == []


def test_a_request_that_fits_into_what_a_pool_has_free_needs_no_room(driver: Path) -> None:
    """And one of which only a part fits needs room for the rest, not for its whole."""
    with job(driver, 100 * MIB, prelude=POOLS) as one:
        assert one.python("""
begin()
pool, threshold = make_pool(), c_uint64(1 << 60)
assert cuda.cuMemPoolSetAttribute(pool, 4, byref(threshold)) == 0
assert from_pool(pool, 10 * MIB)[0] == 0
assert allocate(34 * MIB)[0] == 0                       # 34 of 100 are left, and 22 of the pool's 32
print(from_pool(pool, 20 * MIB)[0], of_pool(pool, RESERVED))
print(from_pool(pool, 34 * MIB)[0], of_pool(pool, RESERVED), info()[0] // MIB)
print(from_pool(pool, MIB)[0], from_pool(pool, 3 * MIB)[0], of_pool(pool, MOST_RESERVED))
""").splitlines() == ["0 32", "0 64 2", "2 2 64"]
        assert one.budget.log() == []
