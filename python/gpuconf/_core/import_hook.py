# SPDX-License-Identifier: Apache-2.0
"""Callbacks that run before or after a module is first imported."""

from __future__ import annotations

import sys
from _thread import _local
from collections.abc import Callable, Sequence
from types import ModuleType

from .._typing import Any
from .fork import module_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_lock = module_lock(globals(), "_lock")
_waiting: dict[str, Callable[[], None]] = {}
_before: dict[str, Callable[[], None]] = {}
_right_after: dict[str, Callable[[], None]] = {}  # before those that wait


class _Finder:
    """The first finder in ``sys.meta_path``.

    It finds nothing itself, but wraps the loaders that other finders return.
    """

    def __init__(self) -> None:
        self._looking = _local()  # the other finders may look up the same name again

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if (name not in _waiting and name not in _before) or getattr(self._looking, "name", None) == name:
            return None
        self._looking.name = name
        try:
            spec = self._ask_the_others(name, path, target)
        finally:
            self._looking.name = None
        if spec is not None and hasattr(spec.loader, "exec_module"):
            _wrap(name, spec.loader)
        return spec

    def _ask_the_others(self, name: str, path: Any, target: Any) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec: ModuleSpec | None = find(name, path, target)
                if spec is not None:
                    return spec
        return None


_finder = _Finder()


def _wrap(name: str, loader: Any) -> None:
    """Run the callbacks around the next ``exec_module`` of this loader object; nothing else about the loader
    changes.
    """
    execute = loader.exec_module

    def execute_and_follow_up(module: ModuleType) -> None:
        loader.exec_module = execute
        with _lock:
            first = _before.pop(name, None)
        if first is not None:
            first()
        execute(module)
        with _lock:
            second = _right_after.pop(name, None)
        if second is not None:
            second()
        with _lock:
            then = _waiting.pop(name, None)
        if then is not None:
            then()

    loader.exec_module = execute_and_follow_up


def when_imported(name: str, then: Callable[[], None]) -> None:
    """Call ``then`` once, after the first import of module ``name``. If ``then`` raises, the import fails."""
    with _lock:
        _waiting[name] = then
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)


def right_after_import(name: str, do: Callable[[], None]) -> None:
    """Like `when_imported`, before that callback. For one that is called while ``before_import``'s callback runs."""
    with _lock:
        _right_after[name] = do


def before_import(name: str, do: Callable[[], None], *, keep: bool = False) -> None:
    """Call ``do`` once, before module ``name`` is first imported, instead of an earlier callback, unless ``keep`` lets
    that stay.

    If ``do`` raises, the import fails.
    """
    with _lock:
        _before[name] = _before.get(name, do) if keep else do
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)


def forget(name: str) -> None:
    """Remove the callback for a module."""
    with _lock:
        _waiting.pop(name, None)


def installed(name: str) -> bool:
    """Whether a top-level module can be imported. Does not import anything."""
    import importlib.util

    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
