# SPDX-License-Identifier: Apache-2.0
"""Callbacks that run before or after a module is first imported."""

from __future__ import annotations

import sys
from collections.abc import Callable

from .fork import module_lock
from .import_finder import ImportFinder

_lock = module_lock(globals(), "_lock")
_waiting: dict[str, Callable[[], None]] = {}
_before: dict[str, Callable[[], None]] = {}
_right_after: dict[str, Callable[[], None]] = {}  # before those that wait


def _around(name: str, execute: Callable[[], None]) -> None:
    with _lock:
        first = _before.pop(name, None)
    if first is not None:
        first()
    execute()
    for callbacks in (_right_after, _waiting):
        with _lock:
            then = callbacks.pop(name, None)
        if then is not None:
            then()


_finder = ImportFinder(lambda name: name in _waiting or name in _before, _around)


def when_imported(name: str, then: Callable[[], None], *, keep: bool = False) -> None:
    """Call ``then`` once, after the first import of module ``name``, instead of an earlier callback, unless ``keep``
    lets that stay.

    If ``then`` raises, the import fails.
    """
    with _lock:
        _waiting[name] = _waiting.get(name, then) if keep else then
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
    """Report whether a top-level module can be imported. Does not import anything."""
    import importlib.util

    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
