# SPDX-License-Identifier: Apache-2.0
"""A program that is an installed package: what a command of the environment, or ``python -m``, runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from ..._core import stacks
from ..._core.stacks import Frame
from ..._typing import Any

_RUN_PROGRAMS = ("torch", "lightning", "pytorch_lightning", "accelerate", "transformers")  # libraries, with commands


def package_of(main: str | None, calls: Iterable[Frame]) -> str:
    """Return the folder of the package that is the program, "" if the program is the user's own file.

    ``main`` is the file that Python runs. ``calls`` are some of the program: a package may run a file of the user's.
    """
    module = getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", "")
    if not module and main and os.path.dirname(os.path.abspath(main)) == os.path.dirname(sys.executable):
        from importlib.metadata import entry_points  # seldom needed

        commands = entry_points(group="console_scripts", name=os.path.basename(main))
        module = next((one.module for one in commands), "")
    name = module.partition(".")[0]
    package: Any = sys.modules.get(name)
    folders = list(getattr(package, "__path__", ()))
    if name in _RUN_PROGRAMS or not folders or "-packages" + os.sep not in folders[0]:
        return ""
    if any(call[0] != main and stacks.is_program(call) for call in calls):
        return ""
    return os.path.join(folders[0], "")
