# SPDX-License-Identifier: Apache-2.0
"""``%gpu fits``: whether what a cell does fits on cards, by a rehearsal of the cell on a simulated one, or, with
``--fresh``, of all cells of the notebook in a new process.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tempfile
from collections.abc import Iterator

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from .. import errors
from .._typing import Any
from ..plans.plan import plan
from ..plans.programs.block import RehearsedBlock, rehearse
from ..plans.programs.needs import alike, parse

# ``%gpu fits``: whether what a cell does fits on cards, by a rehearsal of the cell on a simulated one.


class Fitting:
    """The rehearsal of a cell of one shell."""

    def __init__(self) -> None:
        self._block: RehearsedBlock | None = None

    def begin(self, gpu: str) -> None:
        """Rehearse the rest of the cell.

        Raises as :func:`gpuconf.rehearse` does, and MissingPackageError without PyTorch.
        """
        self.after(None)
        block = rehearse(gpu)
        block.__enter__()
        self._block = block

    def after(self, result: Any) -> None:
        """Show the answer after the cell. IPython calls this."""
        block, self._block = self._block, None
        if block is not None:
            error = None if result is None else result.error_in_exec
            block.__exit__(type(error) if error is not None else None, error, None)
            display(block.result)


_MAGIC = re.compile(r"%gpu\s+fits(\s+--fresh)?(?:\s+(.*)|$)")
_OF_CODE = ("time", "timeit", "capture", "prun", "gpumem")  # magics of cells whose body is Python of the notebook
_SCRIPT = """from gpuconf.plans.programs.cells import run
if __name__ == "__main__":
    run({!r})
"""


def whole_cell(lines: list[str]) -> list[str]:
    """Transform a cell that begins with ``%gpu fits --fresh``, or with cards of which PyTorch takes other kernels on
    some: the rest of it is for new processes only.
    """
    match = _MAGIC.match(lines[0]) if lines else None
    if match is None or not (match[1] or _differ(match[2] or "")):
        return lines
    words = f"fits --fresh {match[2] or ''}".strip()
    return [f"get_ipython().run_cell_magic('gpu', {words!r}, {''.join(lines[1:]) or chr(10)!r})\n"]


def _differ(cards: str) -> bool:
    """Whether a list of cards needs several rehearsals."""
    try:
        return len(alike(parse(cards))) > 1
    except errors.InvalidArgumentError:
        return False


class FreshFitting:
    """Rehearsals of the cells of one shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._failed: set[int] = set()
        self._in_history = True

    def before(self, info: Any) -> None:
        """Note whether the cell is in the history: those of an .ipy file are not. IPython calls this."""
        self._in_history = info.store_history

    def after(self, result: Any) -> None:
        """Note a cell that failed. IPython calls this."""
        if not result.success and result.execution_count is not None:
            self._failed.add(result.execution_count)

    def show(self, gpu: str, body: str) -> None:
        """Rehearse the cells that have run, and one with this body.

        Raises as :func:`gpuconf.plan` does, and SyntaxError.
        """
        history: Any = self._shell.history_manager
        former = list(enumerate(history.input_hist_raw))[1:]  # it numbers cells from 1 on
        if self._in_history:
            del former[-1:]  # which is this one
        now = len(former) + 1
        # The former are of before the extension was loaded.
        failed = self._failed | set(getattr(history, "exceptions", ()))
        cells, notes = [], []
        for number, raw in [*((number, raw) for number, raw in former if number not in failed), (now, f"\n{body}")]:
            name = f"In[{number}]"
            text, left_out = self._python(raw)
            cells.append((name, text))
            notes += [f"{name}, line {line}: {what}" for line, what in left_out]
        skipped = [f"In[{number}]" for number, _ in former if number in failed]
        if skipped:
            print(f"left out, as they failed: {', '.join(skipped)}")
        for note in notes:
            print(f"left out, as only a notebook can run it: {note}")
        with tempfile.TemporaryDirectory(prefix="gpuconf-cells-") as folder:
            script = os.path.join(folder, "cells.py")
            with open(script, "w", encoding="utf-8") as file:
                file.write(_SCRIPT.format(cells))
            print(f"{', '.join(name for name, _ in cells)} run in new processes, and change nothing here")
            found = plan(command=[sys.executable, script], gpu=gpu)
        display(found)

    def _python(self, raw: str) -> tuple[str, list[tuple[int, str]]]:
        """Return a cell without what needs a shell, and that: the lines and their numbers."""
        text = self._shell.transform_cell(raw)
        blank = "\n" * (len(raw) - len(raw.lstrip("\n")))  # which IPython removes
        source = (blank + text.lstrip("\n")).encode()
        lines, left_out = source.splitlines(keepends=True), []
        for statement, call in reversed(list(_of_shell(ast.parse(source)))):
            kind, *words = _words(call)
            first, last = statement.lineno - 1, (statement.end_lineno or statement.lineno) - 1
            if kind == "run_cell_magic" and words[0] in _OF_CODE:
                return self._python("\n" * (first + 1) + words[2])
            instead = words[1] if kind == "run_line_magic" and words[0] == "time" and words[1] else "pass"
            if instead == "pass" and words[:1] not in (["gpu"], ["gpumem"]) and words != ["load_ext", "gpuconf"]:
                left_out.append((first + 1, (raw.splitlines()[first : first + 1] or [""])[0].strip()))
            before, after = lines[first][: statement.col_offset], lines[last][statement.end_col_offset :]
            lines[first : last + 1] = [before + instead.encode() + after, *[b"\n"] * (last - first)]
        return b"".join(lines).decode(), left_out[::-1]


def _of_shell(tree: ast.AST) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """Yield the innermost statements that call what IPython makes of magics and of commands, in order."""
    for node in ast.iter_child_nodes(tree):
        inner = list(_of_shell(node))
        if inner:
            yield from inner
        elif isinstance(node, ast.stmt):
            call = next((one for one in ast.walk(node) if isinstance(one, ast.Call) and _words(one)), None)
            if call is not None:
                yield node, call


def _words(call: ast.Call) -> list[str]:
    """Return the name of a shell's method that a call calls, and its arguments; none of another call."""
    function = call.func
    if not (isinstance(function, ast.Attribute) and ast.unparse(function.value) == "get_ipython()"):
        return []
    return [function.attr, *(str(one.value) for one in call.args if isinstance(one, ast.Constant))]
