# SPDX-License-Identifier: Apache-2.0
"""PyTorch, CuPy and Numba on gpuconf's pools, with shared limits and accounting.

``gpuconf.configure()`` sets up all of them. To set up one library, call one of these before that library uses the GPU:

- ``gpuconf.allocators.torch.install()``
- ``gpuconf.allocators.cupy.install()``
- ``gpuconf.allocators.numba.install()``, or the variable ``NUMBA_CUDA_MEMORY_MANAGER`` set to
  ``gpuconf.allocators.numba``

Inside ``with gpuconf.device("GPU:1"):`` a thread's allocations count against that logical GPU's limit, and the
libraries' current device is the GPU that holds it. Importing this package does not import the libraries.
"""

from __future__ import annotations

from types import ModuleType

__all__ = ["cupy", "numba", "torch"]


TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import cupy, numba, torch
else:

    def __getattr__(name: str) -> ModuleType:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it has {', '.join(__all__)}")
        import importlib

        return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    """List the modules whose library is installed, because ``inspect.getmembers`` and pydoc import every listed
    name.
    """
    from .._core.import_hook import installed

    return [name for name in __all__ if installed(name)]
