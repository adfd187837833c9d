"""The fork matrix: what other threads may be doing at a fork, against what the child may do.

    python tests_py/core/fork_matrix.py --forks 200          # `make soak`
    python tests_py/core/fork_matrix.py --forks 200 --only lend,graph

A fork copies one thread. A lock that another thread holds at that moment stays locked in the child for good, and the
child hangs when it takes it. So every lock of gpuconf is either replaced in the child or never taken there, and this
program looks for one that is not: for each *background*, two threads repeat an operation while the main thread forks
again and again, and each child does everything in ``IN_CHILD``, in random order. One fork tries one background with all
child operations.

Expected results: ``REFUSED`` operations raise ForkedProcessError, ``QUIET`` ones return. Nothing hangs: a child that
doesn't end must print its Python stack, is then killed, and counts as a hang of the operation that it was in.

A new operation is a line: in ``BACKGROUND`` if it takes a lock, in ``IN_CHILD`` if a child can call it. ``FIRST_USES``
is for operations that import a module when they are first used: the import's own lock is one that a child can hang on.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import logging
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import gpuconf
from forking import Notes, fork, refused_or_not
from gpuconf._core import import_hook as _import_hook
from gpuconf._core import injected

if TYPE_CHECKING:
    from collections.abc import Callable

MACHINE = "2xH100-80GB"
REFUSED, QUIET, EITHER = "refused", "quiet", "either"


class World:
    """The objects in the parent at the forks; each child has its own copy."""

    def __init__(self, background: str) -> None:
        import gpuconf.compat.v1 as v1
        import numpy as np

        self.v1, self.np = v1, np
        v1.logging.set_verbosity(v1.logging.FATAL)  # two interactive sessions at a time are an error message
        gpuconf.simulate(MACHINE)
        self.empty = background in EMPTY
        self.library = _c_library()
        self.trace = f"/proc/self/fd/{os.memfd_create('trace')}"
        with gpuconf.memory.record(1000) as self.recording:
            gpuconf.memory.allocate(1000).free()
        self.recording.save(self.trace, format="rmm")
        if self.empty:
            return
        self.buffer = gpuconf.memory.allocate(4096, "GPU:0")
        self.dropped = gpuconf.memory.allocate(4096, "GPU:0")
        self.lent_and_freed = gpuconf.memory.allocate(4096, "GPU:0")
        self.last_capsule = self.lent_and_freed.__dlpack__()
        self.lent_and_freed.free()  # its memory is freed with the capsule
        self.view = self.buffer.view()
        self.lent = gpuconf.memory.allocate(4096, "GPU:0")
        self.capsules = [self.lent.__dlpack__() for _ in range(3)]
        self.array = np.from_dlpack(self.lent)
        self.tensor = gpuconf.constant([[1.0, 2.0], [3.0, 4.0]])
        self.tensor_array = np.from_dlpack(self.tensor)
        self.dropped_tensor = gpuconf.constant([1.0])
        self.graph = v1.Graph()
        with self.graph.as_default():
            self.node = v1.matmul(v1.constant([[1.0]], name="one"), v1.constant([[2.0]]))
        self.session, self.dropped_session, self.entered_session = (v1.Session(graph=self.graph) for _ in range(3))
        self.entered_session.__enter__()
        v1.get_default_graph()
        self.dropped_graph = v1.Graph()
        self.scope = gpuconf.device("GPU:1")
        self.scope.__enter__()
        self.tag = gpuconf.memory.tag("entered in the parent")
        self.tag.__enter__()
        self.measurement = gpuconf.memory.measure("GPU:0")
        self.measurement.__enter__()
        if background != "record":
            self.recording.start()
        self.foreign = self.library.gpuconf_malloc(1000, 0, None)


class Operation(NamedTuple):
    """What a child does, and the expected result."""

    act: Callable[[World], Any]
    expected: str = REFUSED
    empty: bool = False  # whether it needs a parent without live objects
    one_in: int = 1  # for slow operations: only one in this many children runs it


def _c_library() -> Any:
    library = ctypes.CDLL(gpuconf.library_path())
    library.gpuconf_malloc.restype = ctypes.c_void_p
    library.gpuconf_malloc.argtypes = (ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    library.gpuconf_free.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    library.gpuconf_record_stream.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    library.gpuconf_region.argtypes = (ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t))
    library.gpuconf_last_error.restype = ctypes.c_char_p
    return library


def _by_c(call: Callable[[World], Any]) -> Callable[[World], None]:
    """A call of a C symbol, which has no exceptions: its last error, as the corresponding exception."""

    def act(world: World) -> None:
        call(world)
        text = world.library.gpuconf_last_error().decode()
        if text:
            raise gpuconf.errors.ForkedProcessError(text) if "fork()" in text else RuntimeError(text)

    return act


# What a thread repeats while the process forks


def _wait_for_memory(world: World) -> None:
    with contextlib.suppress(MemoryError):
        gpuconf.memory.allocate(gpuconf.memory.stats("GPU:0").bytes_limit, "GPU:0", wait=0.01)


def _lend_and_free(world: World) -> None:
    buffer = gpuconf.memory.allocate(1000)
    capsule = buffer.__dlpack__()
    buffer.free()
    del capsule


def _drop_cycle(world: World) -> None:
    cycle = [gpuconf.memory.allocate(1000)]
    cycle.append(cycle)
    del cycle
    gc.collect(0)


def _copy(world: World) -> None:
    world.buffer.copy_from_host(b"x" * 4096)
    world.buffer.copy_to_host()


def _view(world: World) -> None:
    world.buffer.view()[0] = 1


def _graph(world: World) -> None:
    graph = threading.current_thread().__dict__.setdefault("graph", world.graph)
    if len(graph.get_operations()) > 2000:
        graph = threading.current_thread().__dict__["graph"] = world.v1.Graph()
    with graph.as_default():
        world.v1.constant([1.0])


def _shared_graph(world: World) -> None:
    """Two threads that build one graph, which the children extend."""
    with world.graph.as_default():
        if len(world.graph.get_operations()) < 20000:
            world.v1.constant([1.0])
        world.graph.get_operations()


def _default_graph(world: World) -> None:
    world.v1.reset_default_graph()
    world.v1.get_default_graph()


def _session(world: World) -> None:
    with world.v1.Session(graph=world.graph) as session:
        session.run(world.node)


def _interactive_session(world: World) -> None:
    with world.graph.as_default():
        session = world.v1.InteractiveSession()
        world.node.eval()
        session.close()


def _local_devices(world: World) -> None:
    world.v1.test.gpu_device_name()
    world.v1.get_logger().debug("listed")


def _record(world: World) -> None:
    with contextlib.suppress(gpuconf.errors.GpuconfError), gpuconf.memory.record(1000):
        gpuconf.memory.allocate(1000).free()


def _scope(world: World) -> None:
    with gpuconf.device("GPU:1"), gpuconf.device("GPU:0"):
        gpuconf.current_scope()


def _measure(world: World) -> None:
    with gpuconf.memory.measure("GPU:0") as measurement:
        pass
    measurement.peak  # noqa: B018


def _tag(world: World) -> None:
    with gpuconf.memory.tag(f"{time.monotonic_ns() % 500}"):
        gpuconf.memory.usage("GPU:0")


def _look(world: World) -> None:
    gpuconf.memory.stats("GPU:0")
    gpuconf.memory.memory_map("GPU:0")
    gpuconf.config.experimental.get_memory_info("GPU:0")


def _configuration(world: World) -> None:
    gpu = gpuconf.config.list_physical_devices("GPU")[0]
    gpuconf.config.get_visible_devices()
    gpuconf.config.experimental.get_memory_growth(gpu)
    gpuconf.config.get_logical_device_configuration(gpu)
    gpuconf.config.set_soft_device_placement(True)
    gpuconf.visible_devices()
    with contextlib.suppress(RuntimeError, ValueError):
        gpuconf.config.experimental.set_memory_growth(gpu, True)


def _configure(world: World) -> None:
    with contextlib.suppress(gpuconf.errors.GpuconfError):
        gpuconf.configure(growth=True)


def _refused_reset(world: World) -> None:
    for change in (gpuconf.reset, lambda: gpuconf.simulate("T4")):
        with contextlib.suppress(gpuconf.errors.FailedPreconditionError):
            change()


def _reset(world: World) -> None:
    with contextlib.suppress(gpuconf.errors.GpuconfError):
        gpuconf.reset()
        gpuconf.config.list_logical_devices()


def _simulate(world: World) -> None:
    with contextlib.suppress(gpuconf.errors.GpuconfError), gpuconf.simulate("T4"):
        gpuconf.config.list_logical_devices()


def _initialize_with_memory(world: World) -> None:
    with contextlib.suppress(gpuconf.errors.GpuconfError, RuntimeError):
        gpuconf.reset()
        gpuconf.memory.allocate(1000).free()


def _import_of_a_library(world: World) -> None:
    """What gpuconf.configure() does for a library that is not imported yet, and the import that follows."""
    name = f"library{threading.get_ident()}"
    _import_hook.when_imported(name, lambda: None)
    with contextlib.suppress(ImportError):
        __import__(name)
    _import_hook.forget(name)


def _notice(world: World) -> None:
    from gpuconf._core.message import log

    log("warning", "a notice")


def _c_trim(world: World) -> None:
    world.library.gpuconf_trim()
    world.library.gpuconf_record_stream(world.foreign, None)


def _fail(world: World) -> None:
    with contextlib.suppress(MemoryError):
        gpuconf.memory.allocate(1 << 50, "GPU:0")
    world.library.gpuconf_malloc(1 << 50, 0, None)  # leaves a last error in the thread


BACKGROUND: dict[str, Callable[[World], None]] = {
    "allocate": lambda _: gpuconf.memory.allocate(1000).free(),
    "wait for memory": _wait_for_memory,
    "lend": lambda w: w.buffer.__dlpack__(),
    "lend and free": _lend_and_free,
    "drop": lambda _: gpuconf.memory.allocate(1000),
    "drop a cycle": _drop_cycle,
    "copy": _copy,
    "view": _view,
    "eager operations": lambda w: (gpuconf.matmul(w.tensor, w.tensor) + 1.0).numpy(),
    "lend a tensor": lambda w: w.np.from_dlpack(w.tensor).sum(),
    "graphs": _graph,
    "one graph": _shared_graph,
    "default graph": _default_graph,
    "sessions": _session,
    "interactive sessions": _interactive_session,
    "local devices": _local_devices,
    "record": _record,
    "plan": lambda w: gpuconf.plan(gpuconf.memory.load_trace(w.trace), limit="8MiB"),
    "scopes": _scope,
    "measure": _measure,
    "tags": _tag,
    "statistics": _look,
    "live buffers": lambda _: gpuconf.memory.live_buffers(),
    "configuration": _configuration,
    "configure": _configure,
    "refused resets": _refused_reset,
    "resets": _reset,
    "simulations": _simulate,
    "first allocations": _initialize_with_memory,
    "import hook": _import_of_a_library,
    "notices": _notice,
    "C allocations": lambda w: w.library.gpuconf_free(w.library.gpuconf_malloc(1000, 0, None), 1000, 0, None),
    "C trim": _c_trim,
    "out of memory": _fail,
}

# Operations that succeed only while nothing is in use: their children have none of the parent's objects.
EMPTY = {"resets", "simulations", "first allocations"}


# What a child does


def _enter(context: Any) -> None:
    context.__enter__()


def _leave(context: Any) -> None:
    context.__exit__(None, None, None)


def _first_gpu() -> Any:
    return gpuconf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")


def _drop_attributes(*names: str) -> Callable[[World], None]:
    def act(world: World) -> None:
        for name in names:
            vars(world).pop(name, None)

    return act


def _in_graph(world: World, add: Callable[[], object]) -> object:
    with world.graph.as_default():
        return add()


def _constant_in(world: World) -> None:
    with world.graph.as_default():
        world.v1.constant([1.0])


def _import_in_child(world: World) -> None:
    _import_of_a_library(world)
    __import__("colorsys")  # a module that Python has to find


def _subprocess(world: World) -> None:
    assert subprocess.run(["true"]).returncode == 0


IN_CHILD: dict[str, Operation] = {
    # The devices and their configuration
    "list_physical_devices": Operation(lambda _: gpuconf.config.list_physical_devices(), empty=True),
    "list_logical_devices": Operation(lambda _: gpuconf.config.list_logical_devices(), empty=True),
    "set_visible_devices": Operation(lambda _: gpuconf.config.set_visible_devices([]), empty=True),
    "get_visible_devices": Operation(lambda _: gpuconf.config.get_visible_devices(), empty=True),
    "get_device_details": Operation(lambda _: gpuconf.config.experimental.get_device_details(_first_gpu()), empty=True),
    "set_memory_growth": Operation(
        lambda _: gpuconf.config.experimental.set_memory_growth(_first_gpu(), True), empty=True
    ),
    "get_memory_growth": Operation(lambda _: gpuconf.config.experimental.get_memory_growth(_first_gpu()), empty=True),
    "set_logical": Operation(lambda _: gpuconf.config.set_logical_device_configuration(_first_gpu(), []), empty=True),
    "cuda_visible_devices": Operation(lambda _: gpuconf.cuda_visible_devices(), empty=True),
    "visible_devices": Operation(lambda _: gpuconf.visible_devices(), empty=True),
    "soft placement": Operation(lambda _: gpuconf.config.set_soft_device_placement(True), empty=True),
    "configure": Operation(lambda _: gpuconf.configure(growth=True), empty=True),
    "reset": Operation(lambda _: gpuconf.reset(), empty=True),
    "simulate": Operation(lambda _: gpuconf.simulate("T4"), empty=True),
    "simulate nothing": Operation(lambda _: gpuconf.simulate(None), empty=True),
    "simulated": Operation(lambda _: gpuconf.simulated(), empty=True),
    "library_path": Operation(lambda _: gpuconf.library_path(), QUIET, empty=True),
    # Memory
    "allocate": Operation(lambda _: gpuconf.memory.allocate(1000), empty=True),
    "allocate and wait": Operation(lambda _: gpuconf.memory.allocate(1000, wait=5), empty=True),
    "live_buffers": Operation(lambda _: gpuconf.memory.live_buffers(), empty=True),
    "stats": Operation(lambda _: gpuconf.memory.stats(), empty=True),
    "memory_map": Operation(lambda _: gpuconf.memory.memory_map(), empty=True),
    "get_memory_info": Operation(lambda _: gpuconf.config.experimental.get_memory_info("GPU:0"), empty=True),
    "reset_memory_stats": Operation(lambda _: gpuconf.config.experimental.reset_memory_stats("GPU:0"), empty=True),
    "inject a failure": Operation(lambda _: injected.fail_allocation(1), empty=True),
    "inject none": Operation(lambda _: injected.stop(), QUIET, empty=True),
    "count for a failure": Operation(lambda _: injected.counted(), QUIET, empty=True),
    "free": Operation(lambda w: w.buffer.free()),
    "free what is lent": Operation(lambda w: w.lent.free()),
    "free again": Operation(lambda w: w.lent_and_freed.free(), QUIET),
    "copy_from_host": Operation(lambda w: w.buffer.copy_from_host(b"x")),
    "copy_to_host": Operation(lambda w: w.buffer.copy_to_host()),
    "view": Operation(lambda w: w.buffer.view()),
    "lend": Operation(lambda w: w.buffer.__dlpack__()),
    "leave a buffer's block": Operation(lambda w: _leave(w.buffer), QUIET),
    "repr": Operation(lambda w: repr([w.buffer, w.recording, w.session, w.graph, w.node]), QUIET),
    "drop capsules": Operation(_drop_attributes("capsules", "array"), QUIET),
    "drop the last capsule": Operation(_drop_attributes("last_capsule"), QUIET),
    "drop a buffer": Operation(_drop_attributes("dropped"), QUIET),
    "drop a view": Operation(_drop_attributes("view"), QUIET),
    # Scopes, measurements, recordings, plans
    "enter a scope": Operation(lambda _: _enter(gpuconf.device("GPU:0")), empty=True),
    "leave a scope": Operation(lambda w: _leave(w.scope), QUIET),
    "current_scope": Operation(lambda _: gpuconf.current_scope(), QUIET, empty=True),
    "usage": Operation(lambda _: gpuconf.memory.usage("GPU:0"), empty=True),
    "enter a tag": Operation(lambda _: _enter(gpuconf.memory.tag("child")), empty=True),
    "leave a tag": Operation(lambda w: _leave(w.tag), QUIET),
    "measure": Operation(lambda _: _enter(gpuconf.memory.measure()), empty=True),
    "leave a measurement": Operation(lambda w: _leave(w.measurement), QUIET),
    "record": Operation(lambda _: gpuconf.memory.record().start(), empty=True),
    "leave a recording": Operation(lambda w: _leave(w.recording), QUIET),
    "load_trace": Operation(lambda w: gpuconf.memory.load_trace(w.trace), empty=True),
    "plan": Operation(lambda w: gpuconf.plan(w.trace, limit="8MiB"), empty=True),
    # Tensors, graphs, sessions
    "constant": Operation(lambda _: gpuconf.constant([1.0]), empty=True),
    "matmul": Operation(lambda w: gpuconf.matmul(w.tensor, w.tensor)),
    "numpy": Operation(lambda w: w.tensor.numpy()),
    "shape of a tensor": Operation(lambda w: w.tensor.shape),
    "device of a tensor": Operation(lambda w: w.tensor.device),
    "lend a tensor": Operation(lambda w: w.tensor.__dlpack__()),
    "drop tensors": Operation(_drop_attributes("dropped_tensor", "tensor_array"), QUIET),
    "new graph": Operation(lambda w: w.v1.Graph(), empty=True),
    "build a graph": Operation(_constant_in),
    "add to a graph": Operation(lambda w: w.node + w.node),
    "list a graph": Operation(lambda w: w.graph.get_operations(), QUIET),
    "default graph": Operation(lambda w: w.v1.get_default_graph(), EITHER, empty=True),
    "new session": Operation(lambda w: w.v1.Session(graph=w.graph)),
    "run": Operation(lambda w: w.session.run(w.node)),
    "placeholder": Operation(lambda w: _in_graph(w, lambda: w.v1.placeholder("float32", [None, 2]))),
    "no_op": Operation(lambda w: _in_graph(w, w.v1.global_variables_initializer)),
    "interactive session": Operation(lambda w: w.v1.InteractiveSession(graph=w.graph)),
    "local devices": Operation(lambda w: w.v1.test.gpu_device_name(), empty=True),
    "strategy": Operation(lambda w: w.v1.distribute.MirroredStrategy(), empty=True),
    "session of Keras": Operation(lambda w: w.v1.keras.backend.get_session(), EITHER, empty=True),
    "TensorFlow's logger": Operation(lambda w: w.v1.get_logger().debug("child"), QUIET, empty=True),
    "leave a session": Operation(lambda w: _leave(w.entered_session), QUIET),
    "drop sessions and graphs": Operation(_drop_attributes("dropped_session", "dropped_graph"), QUIET),
    # C
    "C tag": Operation(_by_c(lambda w: w.library.gpuconf_tag_push(b"child")), empty=True),
    "C malloc": Operation(_by_c(lambda w: w.library.gpuconf_malloc(1000, 0, None)), empty=True),
    "C free": Operation(_by_c(lambda w: w.library.gpuconf_free(w.foreign, 1000, 0, None))),
    "C record_stream": Operation(_by_c(lambda w: w.library.gpuconf_record_stream(w.foreign, None))),
    "C region": Operation(_by_c(lambda w: w.library.gpuconf_region(w.foreign, None))),
    "C trim": Operation(_by_c(lambda w: w.library.gpuconf_trim()), empty=True),
    # Python itself
    "import": Operation(_import_in_child, QUIET, empty=True),
    "log": Operation(lambda _: logging.getLogger("gpuconf").warning("from the child"), QUIET, empty=True),
    "collect": Operation(lambda _: gc.collect(), QUIET, empty=True, one_in=8),
    "subprocess": Operation(_subprocess, QUIET, empty=True, one_in=25),
}


def check(name: str, operation: Operation, world: World) -> str:
    """Run one operation in a child. Returns what is wrong with it, or ""."""
    came = refused_or_not(lambda: operation.act(world), gpuconf.errors.ForkedProcessError)
    if came == operation.expected or (operation.expected == EITHER and came in (REFUSED, QUIET)):
        return ""
    return f"{name} was {came} and not {operation.expected}"


def everything(world: World, seed: int) -> Callable[[Notes], None]:
    """All operations of a child, in a random order."""

    def act(notes: Notes) -> None:
        order = random.Random(seed)
        names = _operations(world)
        order.shuffle(names)
        for name in names:
            if order.randrange(IN_CHILD[name].one_in) == 0:
                notes.begin(name)
                wrong = check(name, IN_CHILD[name], world)
                if wrong:
                    notes.wrong(wrong)

    return act


def _operations(world: World) -> list[str]:
    return [name for name, operation in IN_CHILD.items() if operation.empty or not world.empty]


class Result(NamedTuple):
    """The result of one background."""

    forks: int
    pairs: int
    hangs: dict[str, int]
    wrong: dict[str, int]
    stack: str  # of the first child that hung


class Repeated:
    """Something that threads repeat between ``go`` and ``pause``."""

    def __init__(self, act: Callable[[], None], threads: int = 2) -> None:
        self._act = act
        self._going, self._stop = threading.Event(), threading.Event()
        self._failures: list[BaseException] = []
        self._begun = [0] * threads
        self._workers = [threading.Thread(target=self._repeat, args=(each,), daemon=True) for each in range(threads)]

    def _repeat(self, number: int) -> None:
        try:
            while not self._stop.is_set():
                self._going.wait()
                self._begun[number] += 1
                self._act()
        except BaseException as error:
            self._failures.append(error)
            raise

    def go(self) -> None:
        """Let the threads go on. Returns when each of them is at it."""
        before = list(self._begun)
        self._going.set()
        while any(map(int.__eq__, before, self._begun)) and not self._failures:
            time.sleep(1e-4)

    def pause(self) -> None:
        """Let each thread wait once it has done what it is at."""
        self._going.clear()

    def __enter__(self) -> Repeated:
        for worker in self._workers:
            worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._going.set()
        for worker in self._workers:
            worker.join()
        assert not self._failures, self._failures


def try_background(name: str, forks: int, seed: int) -> Result:
    """Fork while two threads repeat an operation. Runs in a process that has loaded nothing yet."""
    world = World(name)
    chance = random.Random(seed)
    hangs: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    stack = ""
    with Repeated(lambda: BACKGROUND[name](world)) as background:
        for number in range(forks):
            background.go()
            time.sleep(chance.random() * 5e-4)
            act = everything(world, chance.randrange(1 << 30))
            child = fork(act, whole_exit=number % 8 == 0, forked=background.pause)  # the time is the child's
            if child.hung_in:
                hangs[child.hung_in] += 1
                stack = stack or child.stack
            wrong.update(child.wrong)
    if not world.empty:  # what the children did was with their own copies
        world.library.gpuconf_free(world.foreign, 1000, 0, None)
        assert world.library.gpuconf_last_error() == b"", world.library.gpuconf_last_error()
        assert world.buffer in gpuconf.memory.live_buffers()
        world.buffer.free()
        assert world.tensor.numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert world.session.run(world.node) == 2.0
    return Result(forks, len(_operations(world)), dict(hangs), dict(wrong), stack)


def in_a_process_of_its_own(name: str, forks: int, seed: int) -> Result:
    """Try one background in a child of this process, which has not loaded the core."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            sys.setswitchinterval(1e-5)
            os.write(write, json.dumps(try_background(name, forks, seed)).encode())
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        return Result(0, 0, {}, {f"the parent ended with code {code}": 1}, "")
    return Result(*json.loads(text))


class _Unbuffered(logging.Handler):
    """A destination for notices other than Python's streams, whose own locks a child cannot recover."""

    def emit(self, record: logging.LogRecord) -> None:
        with open(os.devnull, "wb", buffering=0) as nowhere:
            nowhere.write(self.format(record).encode())


def main() -> int:
    """Try all backgrounds, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forks", type=int, default=200, help="how often each background is forked from")
    parser.add_argument("--only", default="", help="names of backgrounds, with commas")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    _import_before_the_forks()
    names = asked.only.split(",") if asked.only else list(BACKGROUND)
    begin, pairs, hangs, wrong = time.monotonic(), 0, 0, 0
    for name in names:
        result = in_a_process_of_its_own(name, asked.forks, asked.seed)
        pairs += result.pairs
        hangs += sum(result.hangs.values())
        wrong += sum(result.wrong.values())
        for operation, count in result.hangs.items():
            print(f"{name}: {count} of {result.forks} children hung in {operation}")
        for text, count in result.wrong.items():
            print(f"{name}: {count} times in {result.forks} children {text}")
        if result.stack:
            print(result.stack)
    print(
        f"{pairs} pairs, {asked.forks} forks each: {hangs} hung, {wrong} went wrong ({time.monotonic() - begin:.0f} s)"
    )
    return 1 if hangs or wrong else 0


def _import_before_the_forks() -> None:
    """Import once what each background needs. Does not load the core."""
    import gpuconf._core.abi
    import gpuconf._core.hostmemory
    import gpuconf._core.interchange
    import gpuconf.compat.v1
    import numpy  # noqa: F401

    for name in gpuconf.__all__:  # public names are imported on first use
        getattr(gpuconf, name)


if __name__ == "__main__":
    logging.getLogger("gpuconf").addHandler(_Unbuffered())
    logging.getLogger("gpuconf").propagate = False
    sys.exit(main())
