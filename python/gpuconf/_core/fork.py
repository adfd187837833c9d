"""Locks that survive a fork. A lock held by another thread at a fork would stay locked forever in the child."""

from __future__ import annotations

import os
import threading

from .._typing import Any


def module_lock(module: dict[str, Any], name: str) -> threading.RLock:
    """Return a reentrant lock for the global ``name`` of a module. A forked child replaces it with a new lock.

    Use the lock by its global name, ``with _lock:``. If a thread forks inside such a block, the block also ends normally in the
    child, because it holds the old lock.
    """

    def replace() -> None:
        module[name] = threading.RLock()

    os.register_at_fork(after_in_child=replace)
    return threading.RLock()
