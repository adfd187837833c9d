# SPDX-License-Identifier: Apache-2.0
"""What a program does only now and then, such as ``if step % 500 == 0: validate()``, and whether it has done it.

While a loop runs, the lines of the program's own code are traced. A branch is open if it may take memory, has not run
since the first step, and its condition may become another one: a number that the condition reads changes from round to
round of the loop, or one from which what it reads was made. ``conditions.py`` has what conditions read, and which
sizes and choices count as branches.
"""

from __future__ import annotations

import ast
import builtins
import collections
import contextlib
import ctypes
import inspect
import operator
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FrameType

from ..._core import stacks
from ..._typing import Any
from .conditions import Branch, Chain, File, Point, chain_of, file_of
from .line import TIMES

_HIDDEN = "branches of the program, which are not seen with --compile or under a debugger"
# Functions that return something else each time: these, and those of Python's modules but for the ones in _STABLE.
_CHANGING: tuple[str, ...] = ("next", "pop", "popleft", "popitem", "rand", "randint", "bernoulli", "multinomial")
_STABLE: tuple[str, ...] = (
    "argparse",
    "ast",
    "builtins",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "enum",
    "functools",
)
_STABLE += ("inspect", "json", "logging", "math", "operator", "posixpath", "re", "string", "sys", "types")
_STABLE += ("typing", "warnings")
_OF_PROCESS = ("getenv", "get", "cpu_count", "getpid", "fspath")  # those of os


class Watch:
    """The branches while one loop runs. ``frames`` are the program's calls that led to it. ``leave`` ends it."""

    def __init__(self, frames: Sequence[FrameType]) -> None:
        self._now: dict[tuple[Point, Chain], set[float]] = {}  # what was read in this round
        self._before: dict[tuple[Point, Chain], set[float]] = {}
        self._changing: set[Point] = set()
        self.rounds = TIMES  # since a branch ran for the first time, which may show in later rounds
        self._count = len(_taken)
        self._later: dict[CodeType, list[Point]] = {}
        if not _update():
            return
        _watches.append(self)
        waiting = (one for frame in frames for one in _code(frame.f_code).at.get(frame.f_lineno, ()))
        self._itself = {one for one in waiting if isinstance(one, Branch) and one.of_loop}
        self._each = {
            one
            for frame in frames
            for points in _code(frame.f_code).at.values()
            for one in points
            if isinstance(one, Branch) and one.each[0] <= frame.f_lineno <= one.each[1]
        }
        # The calls themselves are not kept: their variables would live on.
        self._later = {frame.f_code: _still_to_come(frame) for frame in frames}
        if _can_trace():
            for frame in frames:
                _trace(frame)
            sys.settrace(_call)

    def end_round(self) -> None:
        """Compare what conditions read in the round that has ended with what they read in the one before."""
        if self not in _watches:
            return
        self.rounds = self.rounds + 1 if self._count == len(_taken) else 0
        self._count = len(_taken)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            points = self._later.get(frame.f_code)
            if points:
                _evaluated.update(points)
                _read(points, locals_of(frame), frame.f_globals, self.note)
            frame = frame.f_back
        for key, numbers in self._now.items():
            if self._before.setdefault(key, numbers) != numbers:
                self._changing.add(key[0])
                self._before[key] = numbers
        self._now = {}

    def note(self, point: Point, chain: Chain, number: float) -> None:
        """Note a number that a condition reads."""
        self._now.setdefault((point, chain), set()).add(number)

    def untaken(self) -> str:
        """Return a branch that may be taken later, "" if there is none."""
        if self not in _watches:
            return ""
        if sys.gettrace() is not _call:
            return _HIDDEN
        changing = {name for point in self._changing for name in point.gives}
        more = {""}
        while more:
            givers = (one for one in _points if not changing.isdisjoint(one.names))
            more = {name for one in givers for name in one.gives} - changing
            changing |= more
        for one in (point for point in _points if isinstance(point, Branch)):
            is_open = one in self._changing or not changing.isdisjoint(one.names)
            was_taken = one in _taken and (one.each == (0, 0) or one in self._each)
            if is_open and one in _evaluated and not was_taken and one not in self._itself:
                return f"line {one.line}, {one.text}"
        return ""

    def leave(self) -> None:
        """End watching the loop."""
        if self not in _watches:
            return
        _watches.remove(self)
        if not _watches and sys.gettrace() is _call:
            sys.settrace(None)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:  # what was traced keeps the variables of its last line
            locals_of(frame)
            frame = frame.f_back


def _still_to_come(frame: FrameType) -> list[Point]:
    """Return the points of a call that waits for a loop: those after it, and in loops around it."""
    code, line = _code(frame.f_code), frame.f_lineno
    around = [(first, last) for first, last in code.loops if first <= line <= last]
    begin, (first, last) = min(around, default=(line, 0))[0], max(around, default=(0, 0))
    points = [one for points in code.at.values() for one in points if one.line >= begin]
    return [one for one in points if not (one.behind and first <= one.line <= last)]  # those are seen when they run


@contextlib.contextmanager
def fetching() -> Iterator[None]:
    """A loader makes its next batch. How large items are is known otherwise (see loops.py): of its data set's functions
    only what they keep counts, and not which item it is.
    """
    global _fetching
    _fetching += 1
    try:
        yield
    finally:
        _fetching -= 1


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Look at what the program would not do now."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)


def forget() -> None:
    """Forget what was taken: the program has stepped for the first time, and has more in memory from now on."""
    _taken.clear()


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Return a call's variables. Before Python 3.13 a call that was looked at keeps what they held then: it forgets."""
    values = frame.f_locals
    copy = dict(values)
    of_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if of_function and sys.version_info < (3, 13) and sys.getrefcount(values) <= 3:  # else locals() has it, too
        values.clear()
    return copy


_watches: list[Watch] = []
_taken: set[Branch] = set()
_evaluated: set[Point] = set()  # those whose code runs
_points: list[Point] = []  # of all files: the branches, and what changes what their conditions read
_relevant: set[Point] = set()  # the same
_fetching = 0
_files: set[str] = set()
_modules: tuple[int, str] = (0, "")  # how many, and the last one


def _update() -> list[Point]:
    """Return the points of the modules that are imported now."""
    global _modules, _files
    modules = len(sys.modules), next(reversed(sys.modules))
    if modules != _modules:
        _modules = modules
        files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
        files = {file for file in files if file.endswith(".py") and _is_program(file)}
        if files != _files:
            _files = files
            _of_code.clear()
            points = [point for file in files for point in file_of(file).points]
            needed: set[str] = set()
            more: set[Point] = {one for one in points if isinstance(one, Branch)}
            _relevant.clear()
            while more:
                _relevant.update(more)
                needed |= {name for one in more for name in one.names}
                more = {one for one in points if one not in _relevant and not needed.isdisjoint(one.gives)}
            _points[:] = sorted(_relevant, key=lambda one: one.line)
    return _points


# Tracing.

_COPIES = (3, 11) <= sys.version_info < (3, 13)
_copy_back: Any = ctypes.pythonapi.PyFrame_LocalsToFast if _COPIES else None
if _COPIES:
    _copy_back.argtypes, _copy_back.restype = [ctypes.py_object, ctypes.c_int], None
_references = sys.getrefcount


def _can_trace() -> bool:
    """Whether nothing else traces: neither the compiler nor a debugger is to be disturbed."""
    return os.environ.get("TORCHDYNAMO_DISABLE") == "1" and sys.gettrace() in (None, _call)


class _Code:
    """What is looked for in a function's code: by the line the conditions, and by line or instruction the branches."""

    def __init__(self, code: CodeType, file: File | None) -> None:
        self.code = code
        points = [] if file is None else file.of_function(code.co_firstlineno, code.co_name)
        points = [one for one in points if one in _relevant]
        self.loops = [] if file is None else file.loops
        self.keeps = _COPIES and bool(code.co_flags & inspect.CO_OPTIMIZED and code.co_nlocals)
        self.at: dict[int, list[Point]] = {}
        self.by_line: dict[int, list[Branch]] = {}
        self.by_instruction: dict[int, list[Branch]] = {}
        parts = []
        for one in points:
            self.at.setdefault(one.line, []).append(one)
            if isinstance(one, Branch) and one.has_lines:
                for line in range(one.begin[0], one.end[0] + 1):
                    self.by_line.setdefault(line, []).append(one)
            elif isinstance(one, Branch) and one.begin > (0, 0):  # else it is never taken
                parts.append(one)
        if parts and sys.version_info >= (3, 11):  # before, nothing says that a part of a line has run
            for number, (line, last, column, end) in enumerate(code.co_positions()):
                begin, end_at = (line or 0, column or 0), (last or 0, end or 0)
                within = [one for one in parts if one.begin <= begin and end_at <= one.end]
                if within:
                    self.by_instruction[2 * number] = within


_of_code: dict[int, _Code] = {}  # by the number of the object, which is kept: equal code may be another file's


def _code(code: CodeType) -> _Code:
    if id(code) not in _of_code:
        is_program = stacks.is_program((code.co_filename, code.co_firstlineno, code.co_name))
        _of_code[id(code)] = _Code(code, file_of(code.co_filename) if is_program else None)
    return _of_code[id(code)]


def _trace(frame: FrameType) -> bool:
    """Trace the lines of a call, if there is anything to see."""
    code = _code(frame.f_code)
    if not code.at:
        return False
    frame.f_trace = _line
    frame.f_trace_opcodes = any(one not in _taken for found in code.by_instruction.values() for one in found)
    return True


def _call(frame: FrameType, _event: str, _argument: Any) -> Any:
    try:
        code = frame.f_code
        known = _of_code.get(id(code)) or _code(code)
        traced = bool(known.at) and _trace(frame)
        if known.keeps:
            _release(frame)
        return _line if traced else None
    except Exception:  # must not fail the program. Untraced, no loop is cut
        sys.settrace(None)


def _line(frame: FrameType, event: str, _argument: Any) -> Any:
    try:
        _see(frame, event)
        return _line
    except Exception:
        sys.settrace(None)


def _see(frame: FrameType, event: str) -> None:
    code = _code(frame.f_code)
    if event == "line":
        line = frame.f_lineno
        _taken.update(code.by_line.get(line, ()))
        points = code.at.get(line)
        if points:
            _evaluated.update(points)
            values, others = frame.f_locals, frame.f_globals
            points = [one for one in points if not any(_is_false(test, values, others) for test in one.behind)]
            for watch in _watches:
                _read(points, values, others, watch.note)
            del values
    elif event == "opcode":
        _taken.update(code.by_instruction.get(frame.f_lasti, ()))
    if code.keeps:
        _release(frame)


def _release(frame: FrameType) -> None:
    """Let a traced call keep none of its variables. Python 3.11 and 3.12 copy them for each event, and back."""
    values = frame.f_locals
    if _references(values) <= 3:  # else locals() has it, too
        _copy_back(frame, 0)  # after which the interpreter does not
        values.clear()


_known: dict[str, bool] = {}


def _is_program(file: str) -> bool:
    if file not in _known:
        _known[file] = stacks.is_program((file, 1, ""))
    return _known[file]


# What conditions read.


def _read(
    points: Sequence[Point],
    variables: Mapping[str, Any],
    others: Mapping[str, Any],
    note: Callable[[Point, Chain, float], None],
) -> None:
    numbers: dict[Chain, list[float]] = {}  # many points read the same
    for point in points:
        for chain in point.reads:
            if _fetching and chain[0] != "self" and chain[0] in variables:
                continue
            if chain not in numbers:
                numbers[chain] = list(_numbers(chain, variables, others))
            for number in numbers[chain]:
                note(point, chain, number)


def _numbers(chain: Chain, variables: Mapping[str, Any], others: Mapping[str, Any]) -> Iterator[float]:
    """Yield the number that a chain of attributes and keys leads to, or how much a container there has."""
    value = _value(chain, variables, others)
    if chain[-1] == ("lr",):  # of an optimizer, which a schedule changes at some later step
        yield time.monotonic()
    elif isinstance(value, (bool, int, float)):
        yield float(value) if value == value and abs(value) < 1e300 else 0.0
    elif isinstance(value, _CONTAINERS):
        yield from (float(kind.__len__(value)) for kind in _CONTAINERS if isinstance(value, kind))
    elif (callable(value) and _is_changing(value)) or _is_used_up(value):
        yield time.monotonic()
    else:  # what a library's object returns goes by its numbers, such as the steps of a schedule
        owner: Any = getattr(value, "__self__", None)
        for one in (value, owner):
            if _is_tensor(one) and one.numel() == 1 and not one.is_inference():
                yield float(one._version)  # a counter may be a tensor, whose number is on a GPU
        module = sys.modules.get(type(owner).__module__)
        if not _is_program(getattr(module, "__file__", None) or ""):
            numbers = getattr(owner, "__dict__", {}).values()
            yield from (float(one) for one in numbers if type(one) in (int, float) and abs(one) < 1e300)


def _is_tensor(value: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


_CONTAINERS: tuple[Any, ...] = (list, dict, set, tuple, collections.deque)


def _is_false(test: ast.expr, variables: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether a condition is false, as far as plain values show it."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        value = _plain(test.operand, variables, others)
        return value is not _UNKNOWN and bool(value)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _COMPARISONS:
        a, b = (_plain(one, variables, others) for one in (test.left, test.comparators[0]))
        with contextlib.suppress(TypeError):
            return _UNKNOWN not in (a, b) and not _COMPARISONS[type(test.ops[0])](a, b)
    value = _plain(test, variables, others)
    return value is not _UNKNOWN and not value


_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    **{ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: operator.is_, ast.IsNot: operator.is_not},
    **{ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge},
}


def _plain(node: ast.expr, variables: Mapping[str, Any], others: Mapping[str, Any]) -> Any:
    chain = chain_of(node)
    value = node.value if isinstance(node, ast.Constant) else _value(chain, variables, others) if chain else _UNKNOWN
    return value if value is None or type(value) in (bool, int, float, str) else _UNKNOWN


_UNKNOWN: object = object()


def _value(chain: Chain, variables: Mapping[str, Any], others: Mapping[str, Any]) -> Any:
    """Return what a chain of attributes and keys leads to, unless code of the program's would have to run."""
    first, *rest = chain
    value = variables.get(first, others.get(first, getattr(builtins, str(first), _UNKNOWN)))
    for part in rest:
        if isinstance(part, str):
            found: Any = inspect.getattr_static(type(value), part, None)
            if isinstance(found, property) and _is_program(getattr(found.fget, "__code__", _read.__code__).co_filename):
                return _UNKNOWN
            try:
                value = getattr(value, part)
            except Exception:  # a library's property may fail as it likes
                return _UNKNOWN
        elif type(value) not in (list, tuple) and not isinstance(value, dict):
            return _UNKNOWN
        else:
            try:  # get() makes no item of a defaultdict
                value = dict.get(value, part[0], _UNKNOWN) if isinstance(value, dict) else value[part[0]]
            except (LookupError, TypeError):
                return _UNKNOWN
    return value


def _is_used_up(value: Any) -> bool:
    """Whether a loop over a value takes from it what the next one does not have."""
    return hasattr(type(value), "__next__") and not type(value).__module__.startswith("torch.")


def _is_changing(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    owner = owner if isinstance(owner, type) else type(owner)
    name = getattr(function, "__name__", "")
    modules = (getattr(function, "__module__", None) or "", owner.__module__)
    if owner is dict and name == "pop":  # of options, by their names
        return False
    if name in _CHANGING or any(one.startswith("numpy.random") for one in modules):
        return True
    roots = {one.partition(".")[0].lstrip("_").removesuffix("_abc") for one in modules} & sys.stdlib_module_names
    return not roots <= {*_STABLE, *(("os", "posix") if name in _OF_PROCESS else ())}


def is_comprehension(frame: FrameType) -> bool:
    """Whether a call is at the loop of a comprehension."""
    if frame.f_code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>"):
        return True
    if sys.version_info < (3, 12):  # where they are no calls of their own
        return False
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    return (positions[0], positions[2]) in file_of(frame.f_code.co_filename).comprehensions
