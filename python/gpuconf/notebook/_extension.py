# SPDX-License-Identifier: Apache-2.0
"""Everything that the extension changes in a shell, and how to undo it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from IPython.core.interactiveshell import InteractiveShell

from .._typing import Any
from ._cells import Cells, without_first_line
from ._commands import Commands, SharedSimulation
from ._devices import ListFormatter
from ._fresh import Fitting, FreshFitting, whole_cell


class Extension:
    """The extension in one shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._undo: list[Callable[[], object]] = []
        cells = Cells(shell)
        fitting = Fitting()
        simulation = SharedSimulation()
        self._undo.append(simulation.end)
        fresh = FreshFitting(shell)
        commands = Commands(cells, fitting, fresh, simulation)
        self._add_magic(shell, "line", "gpu", commands.gpu)
        self._add_magic(shell, "line", "gpumem", cells.gpumem)
        self._add_magic(shell, "cell", "gpu", commands.gpu_cell)
        self._add_magic(shell, "cell", "gpumem", cells.gpumem_cell)
        for transform in (without_first_line, whole_cell):
            shell.input_transformers_cleanup.append(transform)
            self._undo.append(partial(_remove, shell.input_transformers_cleanup, transform))
        for before in (cells.before, fresh.before):
            shell.events.register("pre_run_cell", before)
            self._undo.append(partial(shell.events.unregister, "pre_run_cell", before))
        for function in (cells.after, fitting.after, fresh.after):
            shell.events.register("post_run_cell", function)
            self._undo.append(partial(shell.events.unregister, "post_run_cell", function))
        self._add_formatter(shell)
        self._add_completer(shell, commands.completions)

    def undo(self) -> None:
        """Restore the shell. What the user has replaced meanwhile stays."""
        while self._undo:
            self._undo.pop()()

    def _add_magic(self, shell: InteractiveShell, kind: str, name: str, function: Callable[..., Any]) -> None:
        magics = shell.magics_manager.magics[kind]
        before = magics.get(name)
        shell.register_magic_function(function, kind, name)  # type: ignore[arg-type]  # declared for a shell's own methods

        def restore() -> None:
            if magics.get(name) == function:
                del magics[name]
                if before is not None:
                    magics[name] = before

        self._undo.append(restore)

    def _add_completer(self, shell: InteractiveShell, complete: Callable[..., list[str]]) -> None:
        def completer(_: object, event: Any) -> list[str]:
            return complete(event.line)

        for key in ("%gpu", "gpu"):  # the second for automagic
            shell.set_hook("complete_command", completer, str_key=key)
            chain = shell.strdispatchers["complete_command"].strs[key].chain  # of (priority, method of the shell)
            ours = next(entry for entry in chain if getattr(entry[1], "__func__", None) is completer)
            self._undo.append(partial(_remove, chain, ours))

    def _add_formatter(self, shell: InteractiveShell) -> None:
        assert shell.display_formatter is not None
        formatter = shell.display_formatter.formatters["text/html"]
        before = formatter.type_printers.get(list)
        ours = ListFormatter(before)
        formatter.for_type(list, ours)

        def restore() -> None:
            if formatter.type_printers.get(list) is ours:
                formatter.pop(list)
                if before is not None:
                    formatter.for_type(list, before)

        self._undo.append(restore)


def _remove(things: list[Any], thing: object) -> None:
    if thing in things:
        things.remove(thing)
