"""The cases of ``cases``: blocks of Python on a machine, in the names of helpers.py and of the file's first lines.

== case 33: a title | 2xH100-80GB      the machine: simulated GPUs, or "cpu", or as it is
:: value = True  # case 34             a row: the block runs for each; "in": for each of these
get_growth(g0)                         g0 and g1 are the machine's GPUs
! ValueError, "text"                   the statement before raises this class, with a text that begins so
assert get_growth(g0) is None
"""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path
from typing import Any, NamedTuple

import gpuconf
import pytest

from . import helpers

FOLDER = Path(__file__).parent / "cases"
FIXTURES = ("monkeypatch", "caplog", "capsys", "tmp_path")


class Case(NamedTuple):
    """A block, with one of its rows."""

    path: Path
    line: int
    title: str
    machine: str
    first: str  # the file's first lines
    row: dict[str, Any]
    source: str


def read() -> list[Any]:
    """All cases, with their names."""
    found = []
    for path in sorted(FOLDER.glob("*.txt")):
        first, *blocks = re.split(r"^(?=== )", path.read_text(), flags=re.MULTILINE)
        names = {**vars(helpers), "pytest": pytest}
        exec(compiled(first, path, 1), names)
        line = 1 + first.count("\n")
        for block in blocks:
            heading, source = block.removeprefix("== ").split("\n", 1)
            title, _, machine = heading.partition(" | ")
            for number, row in enumerate(rows(re.findall(r"^:: (.*)", source, re.MULTILINE), names)):
                case = Case(path, line, title, machine, first, row, re.sub(r"^:: ", "# ", source, flags=re.MULTILINE))
                found.append(pytest.param(case, id=f"{path.stem}: {title}{f' ({number})' if row else ''}"))
            line += block.count("\n")
    return found


def rows(lines: list[str], names: dict[str, Any]) -> list[dict[str, Any]]:
    """What the names of a block's rows stand for, each time that it runs."""
    parameters: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        matched = re.match(r"([\w, ]+?) (=|in) (.*)", line)
        assert matched is not None, line
        target, kind, text = matched.groups()
        values = eval(f"[({text}\n)]" if kind == "=" else text, names)
        targets = target.split(", ")
        parameters.setdefault(target, []).extend(
            dict(zip(targets, value if len(targets) > 1 else (value,), strict=True)) for value in values
        )
    return [{k: v for part in each for k, v in part.items()} for each in itertools.product(*parameters.values())]


class Refusals(ast.NodeTransformer):
    """Puts what stands before a line with "!" into ``refused``, and both sides of a comparison into its message."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for _, statements in ast.iter_fields(node):
            if isinstance(statements, list):
                for at, each in enumerate(statements):
                    if isinstance(each, ast.Expr) and ast.unparse(each).startswith("refused("):
                        before = statements[at - 1]
                        item = ast.withitem(context_expr=each.value)
                        statements[at] = ast.copy_location(ast.With(items=[item], body=[before]), before)
                        statements[at - 1] = ast.copy_location(ast.Pass(), before)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        if isinstance(node.test, ast.Compare) and node.msg is None:
            shown = ast.Tuple([node.test.left, *node.test.comparators], ast.Load())
            node.msg = ast.copy_location(shown, node.test)
        return node


def compiled(text: str, path: Path, line: int) -> Any:
    """Code whose lines are the file's."""
    text = re.sub(r"^( *)! (.*)$", r"\1refused(\2)", text, flags=re.MULTILINE)
    tree = ast.increment_lineno(ast.parse(text, str(path)), line - 1)
    return compile(ast.fix_missing_locations(Refusals().visit(tree)), str(path), "exec")


@pytest.mark.parametrize("case", read())
def test_a_case(case: Case, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if case.machine == "cpu":
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    if case.machine:
        gpuconf.simulate("H100-80GB" if case.machine == "cpu" else case.machine)
    names = {**vars(helpers), "pytest": pytest}
    names |= {name: request.getfixturevalue(name) for name in FIXTURES if re.search(rf"\b{name}\b", case.source)}
    exec(compiled(case.first, case.path, 1), names)
    names |= case.row
    if re.search(r"\bg[01]\b", case.source):
        names |= {f"g{number}": gpu for number, gpu in enumerate(helpers.gpus())}
    exec(compiled(case.source, case.path, case.line + 1), names)
