# SPDX-License-Identifier: Apache-2.0
"""A finder for the first place in ``sys.meta_path``.

The startup code of ``gpuconf run`` imports this file from its folder, in any Python 3.6 or newer, without gpuconf.
So it imports next to nothing.
"""

import sys
from _thread import _local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from typing import Any


class ImportFinder:
    """Finds nothing itself, but wraps the loaders that other finders return for the modules that ``waits_for`` names.

    ``around(name, execute)`` takes the place of the module's execution, which ``execute()`` is.
    """

    def __init__(self, waits_for: "Callable[[str], bool]", around: "Callable[[str, Callable[[], None]], None]") -> None:
        self._waits_for, self._around = waits_for, around
        self._looking = _local()  # the other finders may look up the same name again

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "ModuleSpec | None":
        """Return what the other finders return."""
        if not self._waits_for(name):
            return None
        names = self._looking.__dict__.setdefault("names", set())
        if name in names:
            return None
        names.add(name)
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if finder is not self and find is not None else None
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        self._wrap(name, spec.loader)
                    return spec  # type: ignore[no-any-return]
        finally:
            names.discard(name)
        return None

    def _wrap(self, name: str, loader: "Any") -> None:
        """Change the next ``exec_module`` of this loader object, and nothing else about the loader."""
        execute = loader.exec_module

        def execute_with_others(module: "Any") -> None:
            loader.exec_module = execute
            self._around(name, lambda: execute(module))

        loader.exec_module = execute_with_others
