"""No call waits for the stream, for the loader or for the parent of a forked child."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conftest_guard import MIB, PRELUDE, compile_c, job


def test_a_refusal_does_not_wait_for_the_stream(driver: Path) -> None:
    """A pool that grows past the limit is trimmed; the stream may wait for what the thread does later."""
    with job(driver, 7 * MIB) as one:
        told = one.python("""
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
            address = c_uint64()
            print(cuda.cuMemAllocAsync(byref(address), c_size_t(6 * MIB + MIB // 2), stream), flush=True)
            assert cuda.cuStreamWriteValue64_v2(other, flag, c_uint64(1), 0) == 0
            print(cuda.cuStreamSynchronize(stream), info()[0] // 4096)
        """)
        assert told.split() == ["2", "0", str(7 * 256 - 1)]


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
        told = one.python(f"""
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
        """)
        assert told.split() == ["0"]


SLOW = """
#include <unistd.h>
__attribute__((constructor)) static void begin(void) { usleep(500000); }
"""


def test_a_child_that_is_forked_while_a_library_is_loaded(driver: Path, tmp_path: Path) -> None:
    """By another thread of its parent, whose lock of the loader it does not have."""
    (tmp_path / "slow.c").write_text(SLOW)
    library = compile_c(tmp_path / "slow.c", tmp_path / "slow.so", "-shared", "-fPIC")
    with job(driver, 512 * MIB) as one:
        told = one.python(f"""
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
        """)
        assert told.split() == ["0"]


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
