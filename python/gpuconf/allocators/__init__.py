"""PyTorch, CuPy and Numba on gpuconf's pools: one set of limits and books for all of them.

``gpuconf.configure()`` is the short way. By hand, each before its library uses the GPU:

- ``gpuconf.allocators.torch.install()``
- ``gpuconf.allocators.cupy.install()``
- ``gpuconf.allocators.numba.install()``, or ``NUMBA_CUDA_MEMORY_MANAGER=gpuconf.allocators.numba``

Inside ``with gpuconf.device("GPU:1"):`` what a thread allocates comes out of that logical GPU's budget, and the libraries' current
device is the one that it lies on. Importing this package imports none of the libraries.
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
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    """List those whose library is installed: ``inspect.getmembers`` and pydoc import what is listed."""
    from .._core.import_hook import installed

    return [name for name in __all__ if installed(name)]
