# SPDX-License-Identifier: Apache-2.0
"""Locks that survive a fork.

A lock held by another thread at a fork would stay locked forever in the child.
"""

from __future__ import annotations

import os
from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # here, in block.py and public.py: `import gpuconf` imports no file for private names

# The longest that a fork waits for another thread's import, in seconds. The import may be waiting for the forking
# thread.
_PATIENCE_S = 1.0


def module_lock(module: dict[str, Any], name: str) -> RLock:
    """Return a reentrant lock for the global ``name`` of a module, or an entry of another dict.

    A forked child replaces it.

    Use the lock by its global name, ``with _lock:``. If a thread forks inside such a block, the block also ends
    normally in the child, because it holds the old lock.
    """

    def replace() -> None:
        module[name] = RLock()

    os.register_at_fork(after_in_child=replace)
    return RLock()


def import_lock(module: dict[str, Any], name: str) -> RLock:
    """Return a lock like :func:`module_lock`'s for imports on first use.

    No other thread's fork comes while a thread holds it.

    Python's own lock of a module that is being imported would stay locked in the child, which would hang when it
    imports the module too.
    """
    lock = module_lock(module, name)

    def wait() -> None:
        module[name].acquire(timeout=_PATIENCE_S)

    def go_on() -> None:
        try:  # noqa: SIM105 - contextlib takes longer to import than gpuconf
            module[name].release()
        except RuntimeError:
            pass  # the wait failed

    os.register_at_fork(before=wait, after_in_parent=go_on)
    return lock
