"""Objects that are live when Python exits are dropped silently, in any order of Python's module teardown.

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
from script import run

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
        for cls in ast.walk(ast.parse(path.read_text()))
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
