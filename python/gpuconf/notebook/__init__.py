# SPDX-License-Identifier: Apache-2.0
"""``%load_ext gpuconf``: GPU memory in IPython and Jupyter notebooks.

``%gpu`` shows the GPUs and their memory, ``%gpu limit 6GiB`` limits it, and ``%%gpumem`` shows what a cell used. ``%gpu
help`` lists all commands. ``%unload_ext gpuconf`` removes them.
"""

from __future__ import annotations

import weakref

from IPython.core.interactiveshell import InteractiveShell

from ._extension import Extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

_loaded: weakref.WeakKeyDictionary[InteractiveShell, Extension] = weakref.WeakKeyDictionary()


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the magics to an IPython shell. IPython calls this for ``%load_ext gpuconf``."""
    if shell not in _loaded:
        _loaded[shell] = Extension(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Restore what :func:`load_ipython_extension` changed. IPython calls this for ``%unload_ext gpuconf``."""
    extension = _loaded.pop(shell, None)
    if extension is not None:
        extension.undo()


def __dir__() -> list[str]:
    return __all__
