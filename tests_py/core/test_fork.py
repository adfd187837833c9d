"""fork(): the core does not survive it.

Children get a clear error at once and never hang. Children forked before the load can use the core.
"""

from __future__ import annotations

import pytest
from script import run, run_well

# Forks, runs child() in the child and collects its result: exit code, output, time.
HARNESS = """
import contextlib, ctypes, gc, os, signal, subprocess, sys, threading, time, warnings
import gpuconf
warnings.filterwarnings("ignore", "This process .* is multi-threaded")  # from Python 3.12 on, at every fork

def reap(pid, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.0005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hung"

def fork(child):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.dup2(write, 1); os.dup2(write, 2)
            os.close(read)
            child()
            code = 0
        except SystemExit as error:
            code = error.code
        except BaseException:
            import traceback; traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(write)
    code = reap(pid)
    with os.fdopen(read) as pipe:
        return code, pipe.read()

def refused(call):
    try:
        call()
    except RuntimeError as error:
        assert isinstance(error, gpuconf.errors.ForkedProcessError), error
        assert "fork" in str(error) and str(os.getppid()) in str(error), error
    else:
        raise AssertionError("no error")
"""


def test_the_error_names_the_remedy_and_the_parent() -> None:
    out = run_well(
        HARNESS
        + """
gpuconf.config.list_physical_devices()
def child():
    try:
        gpuconf.config.list_physical_devices()
    except RuntimeError as error:
        print(error)
code, text = fork(child)
assert f"loaded in process {os.getpid()} " in text, text
print(text)
"""
    )
    for word in ("fork()", "spawn", "forkserver"):
        assert word in out


def test_a_grandchild_gets_the_error_too() -> None:
    run_well(
        HARNESS
        + """
gpuconf.config.list_physical_devices()
loader = os.getpid()
def grandchild():
    try:
        gpuconf.config.list_physical_devices()
    except gpuconf.errors.ForkedProcessError as error:
        assert f"process {loader} " in str(error), error
        sys.exit(7)
def child():
    assert fork(grandchild) == (7, ""), "grandchild"
assert fork(child) == (0, "")
"""
    )


def test_a_child_forked_before_the_first_call_uses_gpuconf_fully() -> None:
    run_well(
        HARNESS
        + """
gpuconf.library_path()
gpuconf.get_include()
def child():
    gpuconf.simulate("2xH100-80GB")
    with gpuconf.device("GPU:1"), gpuconf.memory.allocate(1000) as buffer:
        buffer.copy_from_host(b"hello")
        assert buffer.copy_to_host()[:5] == b"hello"
        assert gpuconf.memory.stats("GPU:1").live_blocks == 1
    assert fork(lambda: refused(gpuconf.memory.stats)) == (0, "")
    gpuconf.reset()
for _ in range(5):
    assert fork(child) == (0, "")
child()   # the parent may call it afterwards
"""
    )


def test_a_child_of_a_process_that_only_opened_the_library_gets_the_error() -> None:
    """A C caller has started the core, and no Python function was called, so Python's guard has to detect it."""
    run_well(
        HARNESS
        + """
library = ctypes.CDLL(gpuconf.library_path())
library.gpuconf_malloc.restype = ctypes.c_void_p
assert library.gpuconf_malloc(ctypes.c_size_t(1000), 0, None) is None   # not initialized yet
assert fork(lambda: refused(gpuconf.config.list_physical_devices)) == (0, "")
assert len(gpuconf.config.list_physical_devices()) >= 1
"""
    )


def test_the_binary_refuses_by_itself() -> None:
    """A C library's fork bypasses Python's hooks, and a signal handler can fork between a function's lookup and its
    call.
    """
    run_well(
        HARNESS
        + """
from gpuconf._core.native import core, keep
gpuconf.simulate("T4")
buffer = gpuconf.memory.allocate(1000)
memory_stats = core.pybind_MemoryStats
def child():
    for call in (gpuconf.memory.stats, lambda: gpuconf.memory.allocate(1000), buffer.free, gpuconf.memory.live_buffers):
        refused(call)
    del globals()["buffer"]
def looked_up_before():
    for _ in range(2):
        refused(lambda: memory_stats("GPU:0"))
    refused(lambda: keep([], memory_stats, "GPU:0"))
assert fork(looked_up_before) == (0, "")
os.fork = ctypes.PyDLL(None).fork
assert fork(looked_up_before) == (0, "")
assert fork(child) == (0, "")
buffer.free()
"""
    )


def test_a_fork_while_another_thread_loads_the_core_never_hangs() -> None:
    """Python itself prints an error when a process forks while another thread imports logging, so that is done
    before.
    """
    run_well(
        HARNESS
        + """
import logging
def attempt(delay):
    def run():
        started = threading.Event()
        def load():
            started.set()
            gpuconf.simulate("T4")
            gpuconf.memory.allocate(1000).free()
        thread = threading.Thread(target=load)
        thread.start()
        started.wait()
        end = time.perf_counter() + delay
        while time.perf_counter() < end:
            pass
        def child():
            try:
                gpuconf.simulate("T4")
                gpuconf.memory.allocate(1000).free()
            except gpuconf.errors.ForkedProcessError as error:
                assert "fork" in str(error)
        code, text = fork(child)
        thread.join()
        assert (code, text) == (0, ""), (code, text)
        gpuconf.reset()
    return run
sys.setswitchinterval(1e-6)
for i in range(40):
    assert fork(attempt(i * 0.0001)) == (0, ""), i
""",
        timeout=120,
    )


def test_no_lock_that_another_thread_holds_at_the_fork_is_held_in_the_child() -> None:
    """The lock that guards loans was not replaced: a child that freed a buffer, or only dropped a capsule, hung."""
    out = run_well(
        HARNESS
        + """
from gpuconf._core import import_hook as _import_hook
import gpuconf.compat.v1 as v1
gpuconf.simulate("T4")
buffer = gpuconf.memory.allocate(1000)
capsule = buffer.__dlpack__()
graph = v1.Graph()
modules = [module for name, module in sys.modules.items() if name.startswith("gpuconf")]
names = sorted({(m.__name__, name) for m in modules
                for name, it in vars(m).items() if isinstance(it, type(threading.RLock()))})
held, release = threading.Event(), threading.Event()
def hold():
    with contextlib.ExitStack() as stack:
        for module, name in names:
            stack.enter_context(vars(sys.modules[module])[name])
        stack.enter_context(graph._lock)
        held.set()
        release.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
def child():
    global capsule
    for module, name in names:
        assert vars(sys.modules[module])[name].acquire(blocking=False), (module, name)
    refused(gpuconf.config.list_physical_devices)
    refused(buffer.free)
    del capsule
    with graph.as_default():
        refused(lambda: v1.constant(1.0))
assert fork(child) == (0, "")
release.set()
thread.join()
del capsule
buffer.free()
print(*(".".join(name) for name in names))
"""
    )
    assert set(out.split()) >= {
        "gpuconf._core.import_hook._lock",
        "gpuconf._core.native._lock",
        "gpuconf._core.runtime._lock",
        "gpuconf.compat.v1._session._interactive_lock",
    }


def test_a_child_that_leaves_its_parents_blocks_keeps_its_own_exit_code() -> None:
    """Leaving a simulation, a measurement or a recording raised ForkedProcessError instead of SystemExit. The child
    ends with the interpreter's full shutdown, live buffers and atexit handlers, and says nothing.
    """
    done = run("""
        import atexit, os, sys, warnings
        import gpuconf, gpuconf.compat.v1 as v1
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "This process .* is multi-threaded")
        before, codes = os.getpid(), []
        try:
            with gpuconf.simulate("2xT4"), gpuconf.memory.record(1000), gpuconf.memory.measure() as measurement:
                kept = gpuconf.memory.allocate(1000)
                with v1.Session(), gpuconf.device("GPU:1"), gpuconf.memory.allocate(1000) as buffer:
                    view = buffer.view()
                    for code in (0, 3, 77):
                        pid = os.fork()
                        if pid == 0:
                            atexit.register(lambda: print("atexit ran", flush=True))
                            sys.exit(code)
                        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                    del view
                kept.free()
            print(codes, measurement.increase, gpuconf.simulated() == "", gpuconf.current_scope() == "")
        except SystemExit as error:
            assert os.getpid() != before
            raise
        """)
    assert (done.code, done.stdout, done.stderr) == (0, "atexit ran\n" * 3 + "[0, 3, 77] 0 True True\n", "")


POOL = """
import multiprocessing, os, sys, time
import gpuconf

def square(x):
    return x * x

def use(size):
    gpuconf.simulate("H100-80GB")
    with gpuconf.memory.allocate(size) as buffer:
        buffer.copy_from_host(b"x")
        return gpuconf.memory.stats("GPU:0").requested_bytes_in_use

def try_to_use(size):
    try:
        return use(size)
    except gpuconf.errors.ForkedProcessError as error:
        return "fork" in str(error)

def out_of_memory(size):
    gpuconf.simulate("T4")
    gpuconf.memory.allocate(size)

def load():
    gpuconf.simulate("H100-80GB")
    return gpuconf.memory.allocate(1000)
"""


def write(folder: object, main: str) -> str:
    """Code that runs a script from a file, because spawn and forkserver import the main module again."""
    script = POOL + "\nif __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in main.strip().splitlines())
    return f"""
import pathlib, runpy, subprocess, sys
path = pathlib.Path({str(folder)!r}) / "script.py"
path.write_text({script!r})
sys.exit(subprocess.run([sys.executable, str(path)]).returncode)
"""


def test_a_fork_pool_of_a_working_process_serves_others_and_tells_users(tmp_path: object) -> None:
    run_well(
        write(
            tmp_path,
            """
buffer = load()
context = multiprocessing.get_context("fork")
with context.Pool(3) as pool:
    assert pool.map(square, range(20)) == [x * x for x in range(20)]
    assert pool.map(try_to_use, [1000] * 6) == [True] * 6
process = context.Process(target=square, args=(3,))
process.start(); process.join(20)
assert process.exitcode == 0
assert gpuconf.memory.stats("GPU:0").live_blocks == 1
buffer.free()
gpuconf.reset()
""",
        )
    )


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_of_a_working_process_use_gpuconf(tmp_path: object, method: str) -> None:
    run_well(
        write(
            tmp_path,
            f"""
buffer = load()
context = multiprocessing.get_context({method!r})
with context.Pool(2) as pool:
    assert pool.map(use, [1000, 2000, 3000]) == [1000, 2000, 3000]
    try:
        pool.apply(out_of_memory, (1 << 50,))
    except MemoryError as error:
        assert isinstance(error, gpuconf.errors.ResourceExhaustedError) and " out of memory" in str(error)
    else:
        raise AssertionError("no error")
buffer.free()
""",
        ),
        timeout=60,
    )


def test_a_broken_pipe_in_the_child_is_pythons_error() -> None:
    """Go has installed a handler for SIGPIPE; in the child there is no Go runtime to run it."""
    run_well(
        HARNESS
        + """
gpuconf.config.list_physical_devices()
def child():
    read, write = os.pipe()
    os.close(read)
    try:
        os.write(write, b"x")
    except BrokenPipeError:
        sys.exit(5)
assert fork(child) == (5, "")
"""
    )


def test_a_child_may_start_simulated_cuda_that_gpuconf_has_only_listed() -> None:
    """NVIDIA's driver refuses a child of a process that has started it.

    Listing simulated GPUs does not count as a start.
    """
    program = """
    import ctypes, os
    import gpuconf
    gpuconf.simulate("2xT4")
    gpuconf.config.list_physical_devices("GPU")
    driver = ctypes.CDLL(os.path.join(os.path.dirname(gpuconf.__file__), "_simulator", "libcuda.so.1"))
    def child():
        pid = os.fork()
        if pid == 0:
            count = ctypes.c_int(-1)
            result = driver.cuInit(0)
            driver.cuDeviceGetCount(ctypes.byref(count))
            print(result, count.value, flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
    child()
    buffer = gpuconf.memory.allocate(1024, "GPU:0")
    child()
    """
    assert run_well(program).splitlines() == ["0 2", "304 -1"]
