"""The end of a program that used gpuconf: its own exit code, nothing on stderr, at once.

Objects that are live when Python exits are dropped silently, in any order of Python's module teardown.
``Session().as_default().__enter__()`` at the end of a program printed a traceback: a thread's default sessions are
dropped after the globals of all modules, which are None by then, and ``Graph.__del__`` called ``sys.is_finalizing()``.
The same applied to every ``__del__`` and every ``__exit__``, which Python calls where a generator is suspended inside a
``with`` block.
"""

from __future__ import annotations

import ast
from pathlib import Path

import gpuconf
import pytest
from script import Done, run

BEGIN = """
import atexit, os, sys, threading, time
import gpuconf
gpuconf.simulate("2xH100-80GB")
buffer = gpuconf.memory.allocate(1000)

def churn(until=lambda: False):
    while not until():
        gpuconf.memory.allocate(5000, "GPU:1").free()

def wait_forever():
    gpuconf.memory.allocate(gpuconf.memory.stats().bytes_limit, wait=1000)
"""

# Code that a program runs at its end, its exit code, and its output.
ENDS = {
    "with live buffers": ("", 0, ""),
    "with live buffers in a cycle": ("cycle = [buffer]; cycle.append(cycle); del buffer, cycle", 0, ""),
    "with a live view": ("view = buffer.view(); view[:5] = b'hello'", 0, ""),
    "with a view of freed memory": ("view = buffer.view(); buffer.free()", 0, ""),
    "with an open scope and measurement": (
        "gpuconf.device('GPU:1').__enter__(); m = gpuconf.memory.measure(); m.__enter__()",
        0,
        "",
    ),
    "with a simulation that nobody ended": ("s = gpuconf.simulate('T4') if buffer.free() is None else None", 0, ""),
    "with a code": ("sys.exit(3)", 3, ""),
    "with a code out of a with block": (
        "with gpuconf.memory.allocate(5) as b, gpuconf.device('GPU:1'): sys.exit(4)",
        4,
        "",
    ),
    "at once": ("os._exit(5)", 5, ""),
    "with daemon threads that allocate": (
        "for _ in range(4): threading.Thread(target=churn, daemon=True).start()\ntime.sleep(0.05); sys.exit(6)",
        6,
        "",
    ),
    "with daemon threads that wait for memory": (
        "for _ in range(4): threading.Thread(target=wait_forever, daemon=True).start()\ntime.sleep(0.05); sys.exit(7)",
        7,
        "",
    ),
    "with a thread that goes on for a while": (
        "t = time.monotonic() + 0.2\n"
        "threading.Thread(target=churn, args=(lambda: time.monotonic() > t,)).start()\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('worked', "
        "gpuconf.memory.stats().live_blocks))).start()\n"
        "sys.exit(8)",
        8,
        "worked",
    ),
    "at once with threads that allocate": (
        "for _ in range(4): threading.Thread(target=churn).start()\ntime.sleep(0.05); os._exit(9)",
        9,
        "",
    ),
    "with handlers that use gpuconf": (
        "atexit.register(lambda: print(gpuconf.memory.stats().live_blocks))\n"
        "atexit.register(lambda: gpuconf.memory.allocate(10))\n"
        "atexit.register(buffer.free)\n"
        "sys.exit(10)",
        10,
        "",
    ),
    "with handlers that start over": ("buffer.free()\natexit.register(gpuconf.reset)\nsys.exit(11)", 11, ""),
    "with a handler that loads gpuconf": ("buffer.free()", 0, ""),
    "after an interrupt that was caught": (
        "try: signal = __import__('signal'); signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt: "
        "sys.exit(12)",
        12,
        "",
    ),
    "with a buffer held by a thread local": ("local = threading.local(); local.buffer = buffer; del buffer", 0, ""),
    "with an object that frees its memory when it goes": (
        "class Holder:\n"
        "    def __init__(self): self.memory = gpuconf.memory.allocate(100)\n"
        "    def __del__(self): self.memory.free()\n"
        "gpuconf.holder = Holder()",  # is dropped as late as possible
        0,
        "",
    ),
}


def check_end(done: Done, code: int, stderr: str = "") -> None:
    assert (done.code, done.stderr) == (code, stderr), done
    assert done.seconds < 15  # a busy machine may need most of this; a hang takes 30


@pytest.mark.parametrize("end", ENDS)
def test_a_program_that_ends(end: str) -> None:
    program, code, shown = ENDS[end]
    done = run(BEGIN + program)
    check_end(done, code)
    assert shown in done.stdout


@pytest.mark.parametrize("end", ["with daemon threads that allocate", "with daemon threads that wait for memory"])
def test_threads_in_the_core_never_disturb_the_end(end: str) -> None:
    """Threads are stopped anywhere, so a crash would show in only some runs."""
    program, code, _ = ENDS[end]
    for _ in range(12):
        check_end(run(BEGIN + program), code)


def test_an_error_that_nobody_catches_is_all_that_stderr_shows() -> None:
    done = run(BEGIN + "gpuconf.memory.allocate(1 << 50)")
    lines = done.stderr.splitlines()
    assert done.code == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert any(line.startswith("gpuconf.errors.ResourceExhaustedError: OOM when allocating 1.00PiB") for line in lines)
    assert len([line for line in lines if line.startswith("Traceback")]) == 1
    assert "Exception ignored" not in done.stderr
    assert "__del__" not in done.stderr
    assert "_native" not in lines[-1]


def test_an_error_in_a_thread_is_all_that_stderr_shows() -> None:
    done = run(BEGIN + "threading.Thread(target=lambda: gpuconf.memory.stats('GPU:9')).start()")
    assert done.code == 0
    assert done.stderr.startswith("Exception in thread Thread-1")
    assert done.stderr.count("Traceback") == 1


def test_a_program_that_imports_and_does_not_use_it_ends() -> None:
    check_end(run("import gpuconf, atexit; atexit.register(lambda: gpuconf.config.list_physical_devices())"), 0)


def test_nothing_is_written_in_a_whole_life() -> None:
    """No notice, no warning: the core's messages go to a logger, and are shown only if the program configures
    logging.
    """
    done = run(
        """
        import gpuconf
        gpuconf.simulate("4xT4:8GiB")
        gpus = gpuconf.config.list_physical_devices("GPU")
        for gpu in gpus:
            gpuconf.config.experimental.set_memory_growth(gpu, True)
        with gpuconf.memory.allocate(1 << 20) as buffer:
            buffer.copy_from_host(b"x")
        gpuconf.reset()
        """,
        flags=["-W", "default", "-X", "dev"],
    )
    assert (done.code, done.stdout, done.stderr) == (0, "", "")


def test_a_leaked_buffer_is_reported_in_development_mode_and_only_there() -> None:
    program = (
        "import "
        "gpuconf\ngpuconf.simulate('T4')\ngpuconf.memory.allocate(1000)\nprint(gpuconf.memory.stats().live_blocks)"
    )
    assert run(program).stderr == ""
    done = run(program, flags=["-X", "dev"])
    assert done.stdout == "0\n"
    assert "ResourceWarning: <gpuconf.Buffer of 1000 bytes on /device:GPU:0" in done.stderr


# One of each kind of object, and each kind of `with` block: entered but not left, and left open in a suspended
# generator.
EVERYTHING = """
import builtins, contextvars, gc, sys, threading, types
import numpy as np
import gpuconf
import gpuconf.compat.v1 as tf

simulation = gpuconf.simulate("2xH100-80GB")
things = {}
things["buffer"] = gpuconf.memory.allocate(1000)
things["freed"] = gpuconf.memory.allocate(1000)
things["freed"].free()
things["view"] = gpuconf.memory.allocate(1000).view()
things["lent"] = np.from_dlpack(things["buffer"])
things["freed and lent"] = np.from_dlpack(gpuconf.memory.allocate(500))
things["capsule"] = gpuconf.memory.allocate(500).__dlpack__()
things["tensor"] = gpuconf.constant([1.0, 2.0])
things["sum"] = things["tensor"] + 1
things["tensor's memory"] = np.from_dlpack(things["sum"])
with tf.Graph().as_default() as things["graph"]:
    things["node"] = tf.constant(1.0)
    things["session"] = tf.Session()
    things["callable"] = things["session"].make_callable(things["node"], [things["node"]])
    things["callable"](2)
things["devices"] = things["session"].list_devices()
things["error"] = gpuconf.errors.InternalError("x")

def contexts():
    yield gpuconf.device("GPU:1")
    yield gpuconf.memory.measure()
    yield gpuconf.memory.allocate(100)
    yield tf.Graph().as_default()
    yield tf.Session()
    yield tf.Session().as_default()
    yield tf.Graph().device("/gpu:0")
    yield tf.device("/gpu:0")
    yield tf.control_dependencies([tf.constant(1.0)])
    yield tf.control_dependencies(None)

def suspended(context):
    with context:
        yield

def enter(context):
    context.__enter__()
    return context

class Ends:
    def __init__(self, end):
        self.end = end
    def __del__(self):
        self.end()

simulation.__enter__()
things["simulation"] = simulation
things["recording"] = enter(gpuconf.memory.record())
things["entered"] = [enter(context) for context in contexts()]
things["suspended"] = [suspended(context) for context in contexts()]
for each in things["suspended"]:
    next(each)
things["ended by the user"] = [Ends(gpuconf.memory.allocate(10).free), Ends(tf.Session().close)]
things["ended by the user"].append(Ends(lambda buffer=gpuconf.memory.allocate(10): buffer.__exit__(None, None, None)))
"""

HOLDERS = {
    "nothing but the thread's stacks": "while things['suspended']: things['suspended'].pop().close()",
    "a global": "kept = things",
    "globals, one by one": "globals().update({f'kept {name}': thing for name, thing in things.items()})",
    "an attribute of gpuconf": "gpuconf.kept = things",
    "an attribute of sys": "sys.kept = things",
    "attributes of sys, one by one": "vars(sys).update({f'kept {name}': thing for name, thing in things.items()})",
    "an attribute of builtins": "builtins.kept = things",
    "a cycle": "things['cycle'] = things",
    "a cycle with sys, without collections": "gc.disable(); things['cycle'] = [things, sys]; sys.kept = things",
    "another module": "m = sys.modules['kept'] = types.ModuleType('kept'); m.kept, m.cycle = things, m; del m",
    "a thread local": "sys.local = threading.local(); sys.local.kept = things",
    "a context variable": "sys.variable = contextvars.ContextVar('kept'); sys.variable.set(things)",
    "a hook": "sys.excepthook = lambda *args, things=things: None",
    "an object that is never dropped": "import ctypes; ctypes.pythonapi.Py_IncRef(ctypes.py_object(things))",
    "a daemon thread": (
        "ready, never = threading.Event(), threading.Event()\n"
        "def wait(things=things):\n"
        "    inner = [suspended(context) for context in contexts()]\n"
        "    for each in inner: next(each)\n"
        "    ready.set(); never.wait()\n"
        "threading.Thread(target=wait, daemon=True).start(); ready.wait(); del wait"
    ),
    "an error that nobody catches": "raise SystemExit(0) from things['error'].with_traceback(None)",
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_lives_at_exit_goes_in_silence(holder: str) -> None:
    done = run(
        EVERYTHING
        + "print('alive')\n"
        + HOLDERS[holder]
        + "\ndel things, simulation\n" * (holder != "an error that nobody catches")
    )
    assert (done.code, done.stdout, done.stderr) == (0, "alive\n", ""), done.stderr


def _finalizers() -> list[tuple[str, ast.FunctionDef]]:
    root = Path(gpuconf.__file__).parent
    return [
        (f"{path.relative_to(root)}: {cls.name}.{function.name}", function)
        for path in sorted(root.rglob("*.py"))
        if "def __del__" in (text := path.read_text()) or "def __exit__" in text  # parsing takes long
        for cls in ast.walk(ast.parse(text))
        if isinstance(cls, ast.ClassDef)
        for function in cls.body
        if isinstance(function, ast.FunctionDef) and function.name in ("__del__", "__exit__")
    ]


def _asks_first(function: ast.FunctionDef) -> bool:
    """Whether a function, before it uses any global, checks whether Python is exiting, and does nothing then."""
    first, *rest = (s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)))
    if not isinstance(first, ast.If) or first.orelse:
        return False
    returns = isinstance(first.body[0], ast.Return)
    parts = first.test.values if isinstance(first.test, ast.BoolOp) else [first.test]
    combined = ast.Or if returns else ast.And
    if len(parts) > 1 and not (isinstance(first.test, ast.BoolOp) and isinstance(first.test.op, combined)):
        return False
    own = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    for part in parts:
        if ast.unparse(part) in (
            ("self._ending()", "_finalizing()") if returns else ("not self._ending()", "not _finalizing()")
        ):
            return returns or not rest
        if any(isinstance(node, ast.Name) and node.id not in own for node in ast.walk(part)):
            return False
    return False


FINALIZERS = _finalizers()


@pytest.mark.parametrize("finalizer", [function for _, function in FINALIZERS], ids=[name for name, _ in FINALIZERS])
def test_a_finalizer_asks_first_whether_python_is_ending(finalizer: ast.FunctionDef) -> None:
    """By ``if self._ending(): return``, where the class has ``_ending = staticmethod(sys.is_finalizing)``.

    Or by an argument ``_finalizing`` whose default is ``sys.is_finalizing``.
    """
    assert _asks_first(finalizer)


def test_all_finalizers_are_found() -> None:
    names = " ".join(name for name, _ in FINALIZERS)
    for known in ("Buffer.__exit__", "Tensor.__del__", "Graph.__del__", "Session.__exit__"):
        assert known in names
