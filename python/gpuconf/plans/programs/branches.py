# SPDX-License-Identifier: Apache-2.0
"""What a loop does only now and then, such as ``if step % 500 == 0: validate()``, and whether it has done it.

A branch counts if it depends on how often something ran, and does more than print and log. It may stand in the loop, or
in a function of the program that the loop calls. Lines are traced only in such code.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType

from ..._core import stacks
from ..._typing import Any

# Functions that take no memory of a GPU worth a wait.
_QUIET: tuple[str, ...] = ("print", "log", "info", "debug", "warning", "write", "flush", "append", "item", "format")
_QUIET += ("time", "perf_counter", "join", "len", "int", "float", "str", "round", "max", "min", "update")
_QUIET += ("add_scalar", "add_scalars", "set_postfix", "set_postfix_str", "set_description")

Line = tuple[str, int]  # a file, and a line of it; the line's negative, if it cannot be seen whether it runs


class Watch:
    """The branches of one loop, whose calls are given. ``leave`` ends it."""

    def __init__(self, frames: Sequence[FrameType]) -> None:
        self.expected: dict[Line, str] = {}
        for frame in frames:
            self.expected |= _of_loop(frame)
        if not self.expected and not any(map(_functions, _files())):
            return  # tracing keeps the arguments of calls alive, which a program without such branches is spared
        if os.environ.get("TORCHDYNAMO_DISABLE") != "1" or sys.gettrace() not in (None, _call):
            return  # the compiler, or a debugger, is not to be disturbed: what the loop shows has to do
        _watches.append(self)
        for frame in frames:
            frame.f_trace = _line
        sys.settrace(_call)

    def untaken(self) -> str:
        """Return a branch that was not taken yet, "" if there is none."""
        lines = sorted(line for line in self.expected if line not in _taken)
        return f"line {abs(lines[0][1])}, {self.expected[lines[0]]}" if lines else ""

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
_taken: set[Line] = set()
_of_code: dict[CodeType, dict[Line, str]] = {}


def _call(frame: FrameType, _event: str, _argument: Any) -> Any:
    code = frame.f_code
    branches = _of_code.get(code)
    if branches is None:
        branches = _of_code[code] = _of_function(code)
    if not branches:
        return None
    for watch in _watches:
        watch.expected |= branches
    return None if branches.keys() <= _taken else _line


def _line(frame: FrameType, event: str, _argument: Any) -> Any:
    if event == "line":
        _taken.add((frame.f_code.co_filename, frame.f_lineno))
    return _line


# The source.


@functools.cache
def _tree(file: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _of_loop(frame: FrameType) -> dict[Line, str]:
    """Return the branches in the loop that a frame is at."""
    file = frame.f_code.co_filename
    loops = [
        node
        for node in ast.walk(_tree(file))
        if isinstance(node, (ast.For, ast.AsyncFor)) and node.lineno <= frame.f_lineno <= (node.iter.end_lineno or 0)
    ]
    if not loops:
        return {}
    loop = max(loops, key=lambda node: node.lineno)
    return _branches(file, loop.body, {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)})


def _of_function(code: CodeType) -> dict[Line, str]:
    """Return the branches in a function of the program."""
    file, first = code.co_filename, code.co_firstlineno
    if not stacks.is_program((file, first, code.co_name)):
        return {}
    return _functions(file).get((first, code.co_name), {})


def _files() -> list[str]:
    """Return the files of the program's modules."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return [file for file in files if file and file.endswith(".py") and stacks.is_program((file, 1, ""))]


@functools.cache
def _functions(file: str) -> dict[tuple[int, str], dict[Line, str]]:
    """Return the branches of each function in a file that has any, by its first line and name."""
    functions = {}
    for node in ast.walk(_tree(file)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            branches = _branches(file, node.body, set())
            if branches:
                functions[min([node.lineno, *(one.lineno for one in node.decorator_list)]), node.name] = branches
    return functions


def _branches(file: str, body: Sequence[ast.stmt], counters: set[str]) -> dict[Line, str]:
    """Return the first lines of branches that depend on these names, or on what the code counts, with the condition."""
    inner = list(_inside(body))
    counters = counters | {ast.unparse(node.target) for node in inner if isinstance(node, ast.AugAssign)}
    conditions: dict[Line, str] = {}
    for node in inner:
        for field in ("body", "orelse"):
            statements: Any = getattr(node, field, None)
            for number, one in enumerate(statements if isinstance(statements, list) else ()):
                if not isinstance(one, ast.If) or not _depends(one.test, counters):
                    continue
                parts = [one.body, one.orelse]
                if isinstance(one.body[-1], ast.Continue):
                    parts.append(statements[number + 1 :])
                for part in filter(_does_work, parts):
                    line = part[0].lineno
                    conditions[file, line if line != one.lineno else -line] = f"if {ast.unparse(one.test)}"
    return conditions


def _inside(statements: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield what runs in these statements, and the list of them: functions that they define run elsewhere."""
    yield ast.Module(list(statements), [])
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


def _depends(test: ast.expr, counters: set[str]) -> bool:
    """Whether a condition is about how often something ran: the rest of a division, or a comparison with a counter."""
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not isinstance(node.left, ast.Constant):
            return True
        if isinstance(node, ast.Compare):
            sides = (one for side in (node.left, *node.comparators) for one in ast.walk(side))
            if any(isinstance(one, ast.expr) and ast.unparse(one) in counters for one in sides):
                return True
    return False


def _does_work(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements call something that may take memory of a GPU."""
    for node in (inner for one in statements for inner in ast.walk(one)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name not in _QUIET:
                return True
    return False
