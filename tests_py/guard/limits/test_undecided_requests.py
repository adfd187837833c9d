"""Requests that are refused in the end, or served from a pool's reserve, refuse no other; and nothing is returned
twice.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

from conftest_guard import CARDS, MIB, PRELUDE, job


def test_a_request_that_an_outer_job_refuses_refuses_no_other(driver: Path) -> None:
    """In the inner job it is undecided until the outer one has decided."""
    with job(driver, 300 * MIB) as outer:
        from gpuconf.jobs import budget as _budget

        with _budget.prepare({CARDS[0]: 320 * MIB}, "proxy", environment=outer.environment) as budget:
            told = subprocess.run(
                [
                    sys.executable,
                    "-c",
                    PRELUDE
                    + """
import threading
context = begin()
assert allocate(256 * MIB)[0] == 0
stop, refused = [], 0
def ask():
    cuda.cuCtxSetCurrent(context)
    while not stop:
        assert allocate(50 * MIB)[0] == 2  # fits into the inner job (306 of 320 MiB), not into the outer one (300)
thread = threading.Thread(target=ask)
thread.start()
for _ in range(20000):
    result, address = allocate(40 * MIB)          # always fits both
    if result:
        refused += 1
    else:
        free(address)
stop.append(1)
thread.join()
print(refused)
""",
                ],
                env={**outer.environment, **budget.environment},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert (told.stdout, told.stderr) == ("0\n", "")


def test_memory_from_a_pools_reserve_refuses_no_other_process(driver: Path) -> None:
    """One process takes and frees what its pool has reserved long ago, and is stopped at any moment, as by the kernel
    of a busy machine; another requests what is left.
    """
    with job(driver, 512 * MIB) as one:
        cycle = """
begin()
pool, threshold, address = c_void_p(), c_uint64(1 << 60), c_uint64()
assert cuda.cuDeviceGetMemPool(byref(pool), 0) == 0 == cuda.cuMemPoolSetAttribute(pool, 4, byref(threshold))
def one(mib):
    assert cuda.cuMemAllocAsync(byref(address), c_size_t(mib * MIB), None) == 0 == cuda.cuMemFreeAsync(address, None)
one(256)
print("ready", flush=True)
while True:
    one(100)
"""
        program = one.start(sys.executable, "-c", PRELUDE + cycle)
        assert program.stdout.readline() == "ready\n"
        requests = one.start(
            sys.executable,
            "-c",
            PRELUDE
            + """
begin()
refused = 0
for _ in range(20000):
    result, address = allocate(200 * MIB)       # 256 + 200 of 512
    if result:
        refused += 1
    else:
        free(address)
print(refused)
""",
        )
        while requests.poll() is None:
            program.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            program.send_signal(signal.SIGCONT)
            time.sleep(0.02)
        program.kill()
        assert program.communicate(timeout=60)[1] == ""
        assert requests.communicate(timeout=60) == ("0\n", "")


def test_what_is_settled_for_a_pool_is_not_the_pools(driver: Path) -> None:
    """Room for gpuconf's pools is made by what stream-ordered memory returns, which was never theirs."""
    with job(driver, 512 * MIB) as one:
        assert one.python(f"""
            begin()
            address, pool, threshold = c_uint64(), c_void_p(), c_uint64(1 << 60)
            assert cuda.cuDeviceGetMemPool(byref(pool), 0) == 0 == cuda.cuMemPoolSetAttribute(pool, 4, byref(threshold))
            assert cuda.cuMemAllocAsync(byref(address), c_size_t(400 * MIB), None) == 0
            assert cuda.cuMemFreeAsync(address, None) == 0 == cuda.cuStreamSynchronize(None)
            find = cuda.gpuconf_guard_for_pools
            find.restype = c_void_p
            allocate_for_pools = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t)(find(b"cuMemAlloc_v2"))
            print(allocate_for_pools(ctypes.addressof(address), 200 * MIB), allocate(300 * MIB)[0])
            figures = (c_uint64 * 4)()
            uuid = bytes.fromhex({CARDS[0][4:].replace("-", "")!r})
            print(cuda.gpuconf_guard_figures(uuid, figures), *[figure // MIB for figure in figures])
        """).split() == ["0", "0", "1", "512", "200", "300", "12"]


def test_what_a_graph_took_while_the_job_had_no_room_for_the_process(driver: Path) -> None:
    """It is not returned to the budget later: it was never taken."""
    with job(driver, 512 * MIB) as one:
        assert one.python("""
            import fcntl, struct
            class Node(ctypes.Structure):
                _fields_ = [(name, c_int) for name in ("type", "handles", "where", "id")]
                _fields_ += [("other", c_uint64 * 11), ("bytes", c_size_t), ("address", c_uint64)]
            graph, node, executable, address = c_void_p(), c_void_p(), c_void_p(), c_uint64()
            params, flags = Node(1, 0, 1, 0), (c_uint64 * 4)(2)
            params.bytes = 64 * MIB
            file = os.open(os.environ["GPUCONF_GUARD"], os.O_RDWR)
            def slots(kind):  # as if 1024 processes had them
                fcntl.fcntl(file, 37, struct.pack("hhqqi4x", kind, 0, 1 << 40, 1024, 0))
            slots(fcntl.F_WRLCK)
            begin()
            assert cuda.cuGraphCreate(byref(graph), 0) == 0
            assert cuda.cuGraphAddMemAllocNode(byref(node), graph, None, c_size_t(0), byref(params)) == 0
            assert cuda.cuGraphAddMemFreeNode(byref(node), graph, None, c_size_t(0), c_uint64(params.address)) == 0
            print(cuda.cuGraphInstantiateWithParams(byref(executable), graph, flags))
            slots(fcntl.F_UNLCK)
            print(allocate(MIB)[0], cuda.cuGraphExecDestroy(executable), cuda.cuDeviceGraphMemTrim(0))
            print(allocate(MIB)[0], info()[0] // MIB)
        """).split() == ["0", "0", "0", "0", "0", "510"]
