"""No call waits for the stream, for the loader or for the parent of a forked child."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest_guard import CARDS, MIB, PRELUDE, build_driver, compile_c, job


def test_a_refusal_does_not_wait_for_the_stream(driver: Path) -> None:
    """A pool whose free memory is in two pieces grows past the limit, and is trimmed.

    The stream may wait for the thread.
    """
    with job(driver, 36 * MIB) as one:
        assert one.python("""
            import signal
            signal.alarm(20)
            begin()
            stream, result = c_void_p(), allocate(4096)
            assert cuda.cuStreamCreateWithPriority(byref(stream), 1, 0) == 0
            other = c_void_p()
            assert cuda.cuStreamCreateWithPriority(byref(other), 1, 0) == 0
            flag = c_uint64(result[1])
            assert cuda.cuMemsetD8Async(flag, 0, c_size_t(4096), other) == 0 == cuda.cuStreamSynchronize(other)
            assert cuda.cuStreamWaitValue64_v2(stream, flag, c_uint64(1), 0) == 0
            pieces, address, pool, most = [c_uint64() for _ in range(3)], c_uint64(), c_void_p(), c_uint64()
            for piece in pieces:
                assert cuda.cuMemAllocAsync(byref(piece), c_size_t(10 * MIB), other) == 0
            for piece in pieces[0], pieces[2]:
                assert cuda.cuMemFreeAsync(piece, other) == 0
            print(cuda.cuMemAllocAsync(byref(address), c_size_t(16 * MIB), stream), flush=True)
            assert cuda.cuStreamWriteValue64_v2(other, flag, c_uint64(1), 0) == 0
            print(cuda.cuStreamSynchronize(stream), info()[0] // MIB)
            assert cuda.cuDeviceGetDefaultMemPool(byref(pool), 0) == 0
            assert cuda.cuMemPoolGetAttribute(pool, 6, byref(most)) == 0
            print(most.value // MIB)  # it has grown
        """).split() == ["2", "0", "2", "64"]


LOADED = """
#include <dlfcn.h>
#include <unistd.h>
__attribute__((constructor)) static void begin(void)
{
	size_t available, total;
	int (*info)(size_t *, size_t *) = (int (*)(size_t *, size_t *))dlsym(RTLD_DEFAULT, "cuMemGetInfo_v2");
	usleep(300000); /* a library's own initialization */
	info(&available, &total);
}
"""


def test_a_library_that_calls_the_driver_while_it_is_loaded(driver: Path, tmp_path: Path) -> None:
    """Another thread makes its first call meanwhile."""
    (tmp_path / "loaded.c").write_text(LOADED)
    library = compile_c(tmp_path / "loaded.c", tmp_path / "loaded.so", "-shared", "-fPIC")
    with job(driver, 512 * MIB) as one:
        assert one.python(f"""
            import signal, threading, time
            signal.alarm(20)
            ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
            assert cuda.cuInit(0) == 0
            load = ctypes.CDLL(None).dlopen  # which releases Python's lock
            load.restype = c_void_p
            cuda.cuDevicePrimaryCtxRetain, cuda.cuCtxSetCurrent, cuda.cuMemAlloc_v2  # found beforehand
            thread = threading.Thread(target=lambda: load({str(library)!r}.encode(), os.RTLD_NOW))
            thread.start()
            time.sleep(0.1)
            begin()
            print(allocate(MIB)[0])
            thread.join()
        """).split() == ["0"]


SLOW = """
#include <unistd.h>
__attribute__((constructor)) static void begin(void) { usleep(500000); }
"""


def test_a_child_that_is_forked_while_a_library_is_loaded(driver: Path, tmp_path: Path) -> None:
    """By another thread of its parent, whose lock of the loader it does not have."""
    (tmp_path / "slow.c").write_text(SLOW)
    library = compile_c(tmp_path / "slow.c", tmp_path / "slow.so", "-shared", "-fPIC")
    with job(driver, 512 * MIB) as one:
        assert one.python(f"""
            import threading, time, signal
            begin()
            address = c_uint64()
            load, bytes, fork = ctypes.CDLL(None).dlopen, c_size_t(MIB), ctypes.PyDLL(None).fork
            load.restype = c_void_p
            allocate, exit = cuda.cuMemAlloc_v2, ctypes.CDLL(None)._exit
            thread = threading.Thread(target=lambda: load({str(library)!r}.encode(), os.RTLD_NOW))
            thread.start()
            time.sleep(0.1)
            pid = fork()
            if pid == 0:
                signal.alarm(10)
                exit(allocate(byref(address), bytes))
            print(os.waitpid(pid, 0)[1])
            thread.join()
        """).split() == ["0"]


FORKING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
/* As if another thread forked while the guard claims its slot. */
static void *fork_now(void *unused)
{
	if (fork() == 0) {
		sleep(10);
		_exit(0);
	}
	return NULL;
}
int madvise(void *at, size_t bytes, int advice)
{
	static int done;
	int (*next)(void *, size_t, int) = (int (*)(void *, size_t, int))dlsym(RTLD_NEXT, "madvise");
	int (*begin)(unsigned long *, void *, void *(*)(void *), void *) = dlsym(RTLD_DEFAULT, "pthread_create");
	unsigned long thread;
	if (advice == MADV_DONTFORK && !done) {
		done = 1;
		begin(&thread, NULL, fork_now, NULL);
		usleep(50000);
	}
	return next(at, bytes, advice);
}
"""


def test_a_child_that_is_forked_while_its_parent_claims_a_slot(driver: Path, tmp_path: Path) -> None:
    """It does not keep its parent's memory charged after the parent's end."""
    (tmp_path / "forking.c").write_text(FORKING)
    library = compile_c(tmp_path / "forking.c", tmp_path / "forking.so", "-shared", "-fPIC")
    with job(driver, 512 * MIB) as one:
        with subprocess.Popen(
            [sys.executable, "-c", PRELUDE + "begin(); allocate(400 * MIB); print(flush=True); sys.stdin.read()"],
            env={**one.environment, "LD_PRELOAD": str(library)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as program:
            assert program.stdout.readline() == "\n"
            assert one.used() == 400 * MIB
            program.kill()
        assert one.python("begin(); print(allocate(400 * MIB)[0])") == "0\n"


PARAMS = """
            class Params(ctypes.Structure):  # CUmemPoolProps, and what a graph's allocation has besides
                _fields_ = [(name, c_int) for name in ("type", "handles", "where", "id")]
                _fields_ += [("other", c_void_p), ("most", c_size_t)]
                _fields_ += [("rest", ctypes.c_ubyte * 56), ("access", c_void_p)]
                _fields_ += [("count", c_size_t), ("bytes", c_size_t), ("at", c_uint64)]
"""
GATED = {
    "cuMemAllocAsync": "cuda.cuMemAllocAsync(byref(c_uint64()), c_size_t(4 * MIB), stream)",
    "cuMemAllocFromPoolAsync": "cuda.cuMemAllocFromPoolAsync(byref(c_uint64()), c_size_t(4 * MIB), pool, stream)",
    "cuGraphLaunch": "cuda.cuGraphLaunch(exec, stream)",
    "cuGraphUpload": "cuda.cuGraphUpload(exec, stream)",
    "cuDeviceGraphMemTrim": "cuda.cuDeviceGraphMemTrim(0)",
    "cuMemPoolTrimTo": "cuda.cuMemPoolTrimTo(pool, c_size_t(0))",
    "cuMemPoolDestroy": "cuda.cuMemPoolDestroy(doomed)",
    "cuMemPoolCreate": "cuda.cuMemPoolCreate(byref(c_void_p()), byref(props))",
    "cuMemPoolImportFromShareableHandle": "cuda.cuMemPoolImportFromShareableHandle(byref(c_void_p()), shared, 1, "
    "c_uint64(0))",
    "cuDeviceSetMemPool": "cuda.cuDeviceSetMemPool(0, pool)",
    "cuMemSetMemPool": "cuda.cuMemSetMemPool(byref((c_int * 2)(1, 0)), 1, pool)",
    "cuMemGetMemPool": "cuda.cuMemGetMemPool(byref(c_void_p()), byref((c_int * 2)(1, 0)), 1)",
    "cuMemGetDefaultMemPool": "cuda.cuMemGetDefaultMemPool(byref(c_void_p()), byref((c_int * 2)(1, 0)), 1)",
    # What the guard itself calls:
    "cuDeviceGetMemPool": "cuda.cuMemAllocAsync(byref(c_uint64()), c_size_t(4 * MIB), stream)",
    "cuDeviceGetDefaultMemPool": "cuda.cuMemAllocFromPoolAsync(byref(c_uint64()), c_size_t(4 * MIB), standard, stream)",
    "cuMemPoolGetAttribute": "cuda.cuMemAllocFromPoolAsync(byref(c_uint64()), c_size_t(4 * MIB), pool, stream)",
    "cuDeviceGetGraphMemAttribute": "cuda.cuGraphLaunch(exec, stream)",
}
# And what it asks about a pool whose trim or destruction comes next.
TRIMMED = {
    "cuMemPoolGetAttribute": "cuda.cuMemPoolTrimTo(pool, c_size_t(0))",
    "cuDeviceGetGraphMemAttribute": "cuda.cuDeviceGraphMemTrim(0)",
}
# What takes a segment of 32 MiB for its request while it is blocked, and the guard's own questions before that.
REQUESTS = [call for call in GATED.values() if "Alloc" in call or "exec" in call]
BEFORE = ("cuDeviceGetMemPool", "cuDeviceGetDefaultMemPool", "cuDeviceGetGraphMemAttribute")


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a driver that has all functions that the guard stands before."""
    return build_driver(tmp_path_factory.mktemp("newest"), 13050)


@pytest.mark.parametrize(("name", "call"), [*GATED.items(), *TRIMMED.items()])
def test_a_call_that_blocks_in_the_driver_stops_no_other_thread(newest: Path, name: str, call: str) -> None:
    """The one that blocks may wait for what the other does next, such as the write that its stream waits for."""
    with job(newest, 64 * MIB) as one:
        assert one.python(f"""
            import signal, threading, time
            signal.alarm(60)
            {PARAMS}
            context = begin()
            stream, other, pool, doomed, graph, node, exec, standard = (c_void_p() for _ in range(8))
            props, at = Params(1, 0, 1, 0, bytes=6 * MIB), c_uint64()
            for made in stream, other:
                assert cuda.cuStreamCreateWithPriority(byref(made), 1, 0) == 0
            for made in pool, doomed:
                assert cuda.cuMemPoolCreate(byref(made), byref(props)) == 0
            exported, shared = c_void_p(), c_int()
            assert cuda.cuMemPoolCreate(byref(exported), byref(Params(1, 1, 1, 0))) == 0
            assert cuda.cuMemPoolExportToShareableHandle(byref(shared), exported, 1, c_uint64(0)) == 0
            shared = c_void_p(shared.value)
            assert cuda.cuGraphCreate(byref(graph), 0) == 0
            assert cuda.cuGraphAddMemAllocNode(byref(node), graph, None, c_size_t(0), byref(props)) == 0
            assert cuda.cuGraphInstantiateWithFlags(byref(exec), graph, c_uint64(0)) == 0
            assert cuda.cuDeviceGetDefaultMemPool(byref(standard), 0) == 0
            result = []
            def blocked():
                cuda.cuCtxSetCurrent(context)
                result.append({call})
            cuda.fakecuda_gate_first(b"{name}")
            thread = threading.Thread(target=blocked, daemon=True)
            thread.start()
            while cuda.fakecuda_waiting() == 0:
                time.sleep(0.001)
            assert cuda.cuStreamSynchronize(other) == 0 == cuda.cuCtxSynchronize()
            assert cuda.cuMemAllocAsync(byref(at), c_size_t(2 * MIB), other) == 0 == cuda.cuMemFreeAsync(at, other)
            assert cuda.cuStreamSynchronize(other) == 0
            held, address = info()[0], allocate(2 * MIB)
            assert address[0] == 0 == free(address[1])
            print("went on")
            cuda.fakecuda_gate(b"")
            thread.join()
            print(result, held // MIB, cuda.cuCtxSynchronize())
        """).splitlines() == ["went on", f"[0] {32 if call in REQUESTS and name not in BEFORE else 64} 0"]
        assert one.budget.log() == []


def test_what_is_charged_after_requests_in_flight_together_is_what_is_reserved(driver: Path) -> None:
    """Threads allocate from one pool and launch one graph at a time; all of it is freed."""
    with job(driver, 64 * MIB) as one:
        assert one.python(f"""
            import signal, threading
            signal.alarm(60)
            {PARAMS}
            context, pool = begin(), c_void_p()
            assert cuda.cuMemPoolCreate(byref(pool), byref(Params(1, 0, 1, 0))) == 0
            seen = set()
            def work(i):
                cuda.cuCtxSetCurrent(context)
                stream, graph, node, exec, at = c_void_p(), c_void_p(), c_void_p(), c_void_p(), c_uint64()
                props = Params(1, 0, 1, 0, bytes=(2 + 2 * i) * MIB)
                assert cuda.cuStreamCreateWithPriority(byref(stream), 1, 0) == cuda.cuGraphCreate(byref(graph), 0) == 0
                assert cuda.cuGraphAddMemAllocNode(byref(node), graph, None, c_size_t(0), byref(props)) == 0
                assert cuda.cuGraphAddMemFreeNode(byref(node), graph, None, c_size_t(0), c_uint64(props.at)) == 0
                assert cuda.cuGraphInstantiateWithFlags(byref(exec), graph, c_uint64(0)) == 0
                for step in range(150):
                    result = cuda.cuMemAllocFromPoolAsync(byref(at), c_size_t((1 + (step + i) % 9) * 3 * MIB), pool,
                                                          stream)
                    seen.add(result)
                    launched = cuda.cuGraphLaunch(exec, stream)
                    seen.add(launched)
                    if result == 0:
                        assert cuda.cuMemFreeAsync(at, stream) == 0
                    if step % 5 == 0:
                        cuda.cuMemPoolTrimTo(pool, c_size_t(0))
                        cuda.cuStreamSynchronize(stream)
            threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert cuda.cuCtxSynchronize() == 0 == cuda.cuMemPoolTrimTo(pool, c_size_t(0))
            assert cuda.cuDeviceGraphMemTrim(0) == 0
            print(not seen - {{0, 2}}, info()[0] // MIB)
        """).split() == ["True", "64"]
        assert one.budget.usage()[CARDS[0]].peak <= 64 * MIB
