# SPDX-License-Identifier: Apache-2.0
"""The branches in a program's source that may take memory of a GPU, and what their conditions read.

What sizes a tensor, chooses a function, or says how often something runs is a branch that is never taken: once what it
reads changes, nothing shows how far (``_Scope._sizes``; ``sizes.py`` has PyTorch's part). ``Watch`` in ``branches.py``
sees which branches run, and ``loops.py`` cuts no loop before.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..._typing import Any
from . import sizes

Chain = tuple[Any, ...]  # a name, and then attributes and, as tuples of one, keys

# Functions that take no memory of a GPU worth a wait, unless the program has its own of this name.
_QUIET: tuple[str, ...] = ("print", "len", "int", "float", "str", "round", "max", "min", "range", "enumerate", "zip")
_QUIET += ("isinstance", "hasattr", "format", "open", "repr", "bool", "super", "log", "info", "debug", "warning")
_QUIET += ("write", "flush", "item", "join", "time", "perf_counter", "set_postfix", "set_postfix_str")
_QUIET += ("set_description", "add_scalar", "add_scalars", "iter", "next")
_INERT = ("math", "time", "os", "sys", "logging", "json", "random", "datetime", "shutil", "pathlib", "csv", "warnings")
_OF_KIND = ("isinstance", "hasattr", "callable", "issubclass", "is_tensor")  # whose result no number changes
_LEAVES = (ast.Continue, ast.Return, ast.Break, ast.Raise)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CALLED = ("forward", "__call__")  # what a call of an object runs
_OF_TENSORS = ("shape", "size", "numel", "dim", "ndim", "dtype", "device")  # set where the tensor is made
# What is raised when something ends or is not there. Handlers of other errors do not run in a program that works.
_ENDS = (StopIteration, LookupError, ArithmeticError, ValueError, TypeError, AttributeError, EOFError)


@dataclass(eq=False)
class Point:
    """An expression that is evaluated at a line: what it reads, also by name, and whose values it gives."""

    line: int
    reads: list[Chain]
    names: set[str]
    gives: tuple[str, ...] = ()
    behind: Sequence[ast.expr] = ()  # conditions without which it is not evaluated


@dataclass(eq=False)
class Branch(Point):
    """A branch, and the condition under which it runs."""

    text: str = ""
    begin: tuple[int, int] = (0, 0)  # line and column
    end: tuple[int, int] = (0, 0)
    has_lines: bool = True  # whether it has lines of its own
    of_loop: bool = False  # whether it is how often a loop runs
    each: tuple[int, int] = (0, 0)  # lines of a loop for whose items it runs: it may run for another one later


@dataclass
class File:
    """The source of one file."""

    functions: dict[tuple[int, str], list[Point]] = field(default_factory=dict)  # by first line and name
    loops: list[tuple[int, int]] = field(default_factory=list)  # first and last lines
    comprehensions: set[tuple[int, int]] = field(default_factory=set)  # where what they go through stands

    def of_function(self, line: int, name: str) -> list[Point]:
        """Return the points of a function, or of the module."""
        return self.functions.get((0 if name == "<module>" else line, name), [])

    @property
    def points(self) -> Iterator[Point]:
        """All points."""
        return (one for points in self.functions.values() for one in points)


@functools.cache
def file_of(path: str) -> File:
    """Return what a file has."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return File()
    file = File()
    source = _Source(path, tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            file.loops.append((node.lineno, node.end_lineno or 0))
        elif isinstance(node, ast.comprehension):
            file.comprehensions.add((node.iter.lineno, node.iter.col_offset))
        elif isinstance(node, _FUNCTIONS):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            file.functions[first, node.name] = _Scope(source, node.name, node.body, node.args).points()
    file.functions[0, "<module>"] = _Scope(source, "", tree.body, None).points()
    return file


class _Source:
    """What all functions of a file share: their names, those of inert modules, and what is tested."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path = path
        self.functions: set[str] = set()
        self.classes: set[str] = set()
        self.chosen: set[str] = set()  # names of functions that an assignment chooses or makes
        self.imported: set[str] = set()
        self.inert: set[str] = set()
        self.tested: set[str] = set()  # names and attributes in conditions
        for node in ast.walk(tree):
            if isinstance(node, _FUNCTIONS):
                self.functions.add(node.name)
            elif isinstance(node, ast.Assign):
                if not isinstance(node.value, ast.Call) or _last(node.value.func) in ("partial", "get"):
                    self.chosen |= {one.id for one in node.targets if isinstance(one, ast.Name)}
            elif isinstance(node, ast.ClassDef):
                self.classes.add(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                module = getattr(node, "module", None)
                for one in node.names:
                    name = (one.asname or one.name).partition(".")[0]
                    self.imported.add(name)
                    if (module or one.name).partition(".")[0] in _INERT:
                        self.inert.add(name)
            elif isinstance(node, (ast.If, ast.IfExp, ast.BoolOp, ast.While)):
                self.tested |= _names_in(node if isinstance(node, ast.BoolOp) else node.test)

    def ends(self, errors: ast.expr) -> bool:
        """Whether a handler of these errors may run in a program that works."""
        names = [_last(one) for one in (errors.elts if isinstance(errors, ast.Tuple) else [errors])]
        known = [getattr(builtins, name, None) for name in names]
        of_library = any(isinstance(one, type) and issubclass(one, _ENDS) for one in known)
        return of_library or not self.classes.isdisjoint(names)

    def does_work(self, nodes: Sequence[ast.AST]) -> bool:
        """Whether code may take memory of a GPU, or sets what other code goes by."""
        for node in (inner for one in nodes for inner in ast.walk(one)):
            if isinstance(node, ast.Call):
                name = _last(node.func)
                if _root(node.func) not in self.inert and (name not in _QUIET or name in self.functions):
                    return True
            if isinstance(node, ast.Assign) and any(self._matters(one, node.value) for one in node.targets):
                return True
            if isinstance(node, ast.AugAssign):
                return True
        return False

    def _matters(self, target: ast.expr, value: ast.expr) -> bool:
        return _is_plain(value) or isinstance(target, ast.Attribute) or not self.tested.isdisjoint(_names_in(target))


class _Scope:
    """A function, or the module: its branches, and what else changes what conditions read."""

    def __init__(self, source: _Source, name: str, body: Sequence[ast.stmt], arguments: ast.arguments | None) -> None:
        self._source = source
        self._name = name
        self._operands: list[Point] = []
        names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)] if arguments else []
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        self._parameters = {name: number for number, name in enumerate(names)}
        self._parameters |= {one.arg: -1 for one in arguments.kwonlyargs} if arguments else {}
        self._nodes = list(_inside(body))
        shared = (one.names for one in self._nodes if isinstance(one, (ast.Global, ast.Nonlocal)))
        self._shared = {name for names in shared for name in names}  # variables that other functions read, too
        self._assigned: dict[str, list[ast.expr]] = {}
        self._tests: dict[ast.AST, list[ast.expr]] = {}  # by a statement, the conditions under which it runs
        self._around: dict[ast.AST, list[ast.For]] = {}  # by an expression, the loops around it
        for node in self._nodes:
            if isinstance(node, ast.For):
                for inner in _inside(node.body):
                    self._around.setdefault(inner, []).append(node)
            if isinstance(node, (ast.If, ast.While)):
                for inner in _inside([*node.body, *node.orelse]):
                    self._tests.setdefault(inner, []).append(node.test)
        self._chosen: set[ast.AST] = set()  # what is assigned or called, as a branch may choose it
        for node in self._nodes:
            if isinstance(node, ast.Call):
                self._chosen.add(node.func)
            for target, value in _assignments(node):
                self._chosen.add(value)
                for one in ast.walk(target):
                    if isinstance(one, ast.Name):
                        changed = self._tests.get(node, []) if isinstance(node, ast.AugAssign) else []
                        self._assigned.setdefault(one.id, []).extend([value, *changed])

    def points(self) -> list[Point]:
        """Return the branches, and what changes what they read."""
        found = [*self._branches(), *self._gives()]
        return [one for one in (*found, *self._operands) if one.reads or one.names]

    def _branches(self) -> Iterator[Branch]:
        for node in self._nodes:
            parts = self._sizes(node)
            if parts:
                test = ast.copy_location(ast.Tuple(list(parts), ast.Load()), parts[0])
                of_loop = isinstance(node, (ast.For, ast.AsyncFor))
                yield Branch(test.lineno, *self._read(test), text=_text_of(node), has_lines=False, of_loop=of_loop)
            for name in ("body", "orelse", "finalbody"):
                statements: Any = getattr(node, name, None)
                for number, one in enumerate(statements if isinstance(statements, list) else ()):
                    if isinstance(one, ast.If):
                        rest = statements[number + 1 :] if isinstance(one.body[-1], _LEAVES) else []
                        for part in (one.body, one.orelse, rest):
                            yield from self._branch(one.test, part, f"if {ast.unparse(one.test)}")
                    elif isinstance(one, ast.Match):
                        for case in one.cases:
                            test = ast.Tuple([one.subject, *([case.guard] if case.guard else [])], ast.Load())
                            ast.copy_location(test, one.subject)
                            head = case.guard or case.pattern
                            yield from self._branch(test, case.body, f"case {ast.unparse(case.pattern)}", head)
            if isinstance(node, ast.Try):
                yield from self._ends(node)
            elif isinstance(node, ast.While):
                yield from self._branch(node.test, node.body, f"while {ast.unparse(node.test)}")
            elif isinstance(node, ast.IfExp):
                for part in (node.body, node.orelse):
                    works = node in self._chosen and _is_plain(part) and not _is_text(part)
                    yield from self._branch(node.test, [part], ast.unparse(node), works=works)
            elif isinstance(node, ast.BoolOp):
                for number, operand in enumerate(node.values[1:], 1):
                    test = ast.copy_location(ast.Tuple(node.values[:number], ast.Load()), node.values[0])
                    yield from self._branch(test, [operand], ast.unparse(node))

    def _ends(self, node: ast.Try) -> Iterator[Branch]:
        """Yield the handlers that run when something has ended, or is not in a table."""
        parts: list[Any] = [one for one in _inside(node.body) if isinstance(one, ast.expr)]
        test = ast.copy_location(ast.Tuple(parts, ast.Load()), node.body[0])
        for handler in node.handlers:
            if handler.type is not None and self._source.ends(handler.type):
                yield from self._branch(test, handler.body, f"except {ast.unparse(handler.type)}", handler.type)

    def _sizes(self, node: ast.AST) -> Sequence[ast.expr]:
        """Return what decides about sizes, or which function runs: what reads it is a branch that is never taken."""
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            slices = [one for one in ast.walk(node.slice) if isinstance(one, ast.Slice)]
            return [bound for one in slices for bound in (one.lower, one.upper) if bound is not None]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return [b for a, b in ((node.left, node.right), (node.right, node.left)) if isinstance(a, ast.List)]
        if isinstance(node, (ast.For, ast.AsyncFor)):
            return [node.iter] if self._source.does_work(node.body) else []
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            parts = [part for one in node.generators for part in (one.iter, *one.ifs)]
            return parts if self._source.does_work([node]) else []
        if not isinstance(node, ast.Call):
            return []
        if isinstance(node.func, (ast.Subscript, ast.Call)):
            return [node.func]
        if isinstance(node.func, ast.Name) and node.func.id in self._source.chosen:
            return [node.func, *node.args, *(one.value for one in node.keywords)]
        return list(sizes.of_call(node, self._source.imported))

    def _branch(
        self,
        test: ast.expr,
        part: Sequence[ast.AST],
        text: str,
        head: ast.expr | ast.pattern | None = None,
        *,
        works: bool = False,
    ) -> Iterator[Branch]:
        """Yield a branch. ``head`` is what stands before it, if not the condition."""
        if not part or not (works or self._source.does_work(part)):
            return
        reads, names = self._conditions(test)
        first: Any = part[0]
        last: Any = part[-1]
        yield Branch(
            test.lineno,
            reads,
            names,
            text=_short(text),
            begin=(first.lineno, first.col_offset),
            end=(last.end_lineno, last.end_col_offset),
            has_lines=first.lineno > ((head or test).end_lineno or 0),
            each=self._each(test),
        )

    def _each(self, test: ast.expr) -> tuple[int, int]:
        """Return the lines of the innermost loop with whose items a condition compares something else."""
        read = _names_in(test)
        loops = [(one.lineno, one.end_lineno or 0, _names_in(one.target)) for one in self._around.get(test, ())]
        return max(((a, b) for a, b, items in loops if read & items and read - items), default=(0, 0))

    def _conditions(self, test: ast.expr) -> tuple[list[Chain], set[str]]:
        """Return what a condition reads in any case. What it reads after an ``and`` is a point of its own."""
        if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And):
            return self._read(test)
        reads, names = self._read(test.values[0])
        for number, operand in enumerate(test.values[1:], 1):
            name = f"{self._source.path}:{operand.lineno}:{operand.col_offset}"
            names.add(name)
            self._operands.append(
                Point(operand.lineno, *self._read(operand), gives=(name,), behind=test.values[:number])
            )
        return reads, names

    def _gives(self) -> Iterator[Point]:
        """Yield what changes attributes, results and arguments that conditions may read."""
        for node in self._nodes:
            if isinstance(node, ast.Return) and node.value is not None:
                yield self._point(node.value, f"{self._name}()")
            elif isinstance(node, (ast.If, ast.While)) and self._name:
                yield self._point(node.test, f"{self._name}()")
            elif isinstance(node, ast.Call):
                yield from self._given(node)
                if _last(node.func) == "setattr" and len(node.args) == 3 and isinstance(node.args[1], ast.Constant):
                    yield self._point(node.args[2], f".{node.args[1].value!s}")
            for target, value in _assignments(node):
                values = (value, *self._tests.get(node, ()))  # what was set at a step may be set again at another
                if isinstance(target, ast.Attribute):
                    yield from (self._point(one, f".{target.attr}") for one in values)
                elif isinstance(target, ast.Name) and (not self._name or target.id in self._shared):
                    yield from (self._point(one, f"global {target.id}") for one in values)

    def _given(self, call: ast.Call) -> Iterator[Point]:
        name = _last(call.func)
        if name in _QUIET or _root(call.func) in self._source.inert:
            return
        functions = [name] if name in self._source.functions else [name, *_CALLED]
        for parameter, value in [*enumerate(call.args), *((one.arg, one.value) for one in call.keywords)]:
            yield self._point(value, *(f"{function}({parameter})" for function in functions))

    def _is_object(self, called: ast.expr) -> bool:
        """Whether what is called may be an object of a class of the program's."""
        name, source = _last(called), self._source
        is_own = isinstance(called, ast.Name) or (isinstance(called, ast.Attribute) and _last(called.value) == "self")
        known = (source.functions, source.classes, source.imported, vars(builtins))
        return is_own and not any(name in names for names in known)

    def _point(self, value: ast.expr, *gives: str) -> Point:
        return Point(value.lineno, *self._read(value), gives=gives)

    def _read(self, test: ast.expr) -> tuple[list[Chain], set[str]]:
        """Return the chains that an expression reads, and the names of what else it depends on."""
        chains: dict[Chain, None] = {}
        names: set[str] = set()
        waiting: list[ast.AST] = [test]
        expanded: set[str] = set()
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Call) and _last(node.func) in _OF_KIND:
                continue
            if isinstance(node, ast.Compare) and all(isinstance(one, (ast.Is, ast.IsNot)) for one in node.ops):
                continue
            chain = chain_of(node)
            if chain is None:
                waiting.extend(ast.iter_child_nodes(node))
                if isinstance(node, ast.Call):
                    names |= {f"{_last(node.func)}()", f"__{_last(node.func)}__()"}  # len() calls __len__()
                    names |= {f"{one}()" for one in _CALLED if self._is_object(node.func)}
                continue
            if isinstance(node, ast.Subscript):
                waiting.append(node.value)
            chains[chain] = None
            names |= {f".{one}" for one in chain[1:] if isinstance(one, str)}
            names |= {f"{one}()" for one in chain[1:] if isinstance(one, str)}  # a property
            root = chain[0]
            if root in self._parameters:
                names |= {f"{self._name}({root})", f"{self._name}({self._parameters[root]})"}
            elif root not in self._assigned or root in self._shared:
                names.add(f"global {root}")
            if root not in expanded and not any(one in _OF_TENSORS for one in chain[1:]):
                expanded.add(root)
                waiting.extend(self._assigned.get(root, ()))
        return list(chains), names


def _inside(statements: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield what runs in these statements, and the list of them: functions that they define run elsewhere."""
    yield ast.Module(list(statements), [])
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield targets, and from what they are made."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def chain_of(node: ast.AST) -> Chain | None:
    """Return the name, attributes and constant keys of an expression that has nothing else."""
    parts: list[Any] = []
    while True:
        if isinstance(node, ast.Name):
            return node.id, *reversed(parts)
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            parts.append((node.slice.value,))
        else:
            return None
        node = node.value


def _names_in(node: ast.AST) -> set[str]:
    """Return the names and attributes of an expression."""
    return {
        one.id if isinstance(one, ast.Name) else one.attr
        for one in ast.walk(node)
        if hasattr(one, "ctx") and isinstance(one, (ast.Name, ast.Attribute))
    }


def _is_plain(value: ast.AST) -> bool:
    return isinstance(value, (ast.Name, ast.Attribute, ast.Constant))  # such as a length


def _is_text(value: ast.AST) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _text_of(node: ast.AST) -> str:
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return _short(f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}")
    return _short(ast.unparse(node))


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _root(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", "")
