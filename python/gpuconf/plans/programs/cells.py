# SPDX-License-Identifier: Apache-2.0
"""Cells of a notebook as a program: a rehearsal runs them in a new process, as ``%gpu fits --fresh`` requests."""

from __future__ import annotations

import ast
import builtins
import codeop
import inspect
import linecache
import os
import sys
from collections.abc import Sequence

from ..._typing import Any
from .line import line


def run(cells: Sequence[tuple[str, str]]) -> None:
    """Run cells, each a name such as ``In[2]`` and its Python, in ``__main__``. The answer is for the last one."""
    names = sys.modules["__main__"].__dict__
    for name in [name for name in names if name in ("__file__", "run") or not name.startswith("__")]:
        del names[name]
    sys.argv, sys.path[0] = [""], ""
    if os.environ.get("MPLBACKEND", "").startswith("module://"):  # the kernel's, which draws in cells
        os.environ["MPLBACKEND"] = "Agg"
    vars(builtins).update(display=_display, get_ipython=_no_shell)
    compiler = codeop.Compile()  # a cell's __future__ imports count for later ones
    compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    loop: Any = None
    for name, text in cells:
        line.waits_for = "" if name == cells[-1][0] else cells[-1][0]
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        code = compiler(text, name, "exec")
        if code.co_flags & inspect.CO_COROUTINE:
            import asyncio

            loop = loop or asyncio.new_event_loop()
            loop.run_until_complete(eval(code, names))
        else:
            exec(code, names)


def _display(*things: Any, **named: Any) -> None:
    from IPython.display import display

    display(*things, **named)


def _no_shell() -> None:
    """Return None, as IPython's own does where there is no shell."""
