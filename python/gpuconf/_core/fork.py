"""Locks and forks: a lock that another thread holds at a fork stays locked in the child, where that thread is not, for good."""

from __future__ import annotations

import os
import threading

from .._typing import Any


def module_lock(module: dict[str, Any], name: str) -> threading.RLock:
    """Return a reentrant lock to be kept as the global ``name`` of a module, which a forked child replaces by a new one.

    Use it by its name, ``with _lock:``. The thread that forks inside such a block leaves it in the child too: the block has the old
    lock.
    """

    def replace() -> None:
        module[name] = threading.RLock()

    os.register_at_fork(after_in_child=replace)
    return threading.RLock()
