# SPDX-License-Identifier: Apache-2.0
"""The public modules: those that classes name in pickles, tracebacks and ``help``; former ones; and those that are
missing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType
    from typing import Any
else:
    ModuleType = type(sys)  # `import gpuconf` imports this file, and next to nothing else

# Former modules of pickled classes, and the module that has each class now.
_MOVED = {
    "_configure": "gpuconf",
    "_memory_map": "gpuconf.memory",
    "_memory_stats": "gpuconf.memory",
    "_ops": "gpuconf",
    "_plan": "gpuconf.planning.plan",
    "_trace": "gpuconf.memory",
    "_types": "gpuconf.config",
    "_visible": "gpuconf",
}

# An alias keeps its class's module.
_PUBLIC = ("gpuconf.compat.v1", "gpuconf.config", "gpuconf.errors", "gpuconf.memory")


def name_after(module: str, names: Iterable[str]) -> None:
    """Make ``module`` the ``__module__`` of the classes among its public names."""
    namespace = vars(sys.modules[module])
    for name in names:
        found = namespace.get(name)
        if isinstance(found, type) and found.__module__.startswith("gpuconf.") and found.__module__ not in _PUBLIC:
            found.__module__ = module


class _Moved(ModuleType):
    """A stand-in for a removed module. It resolves names in the new module."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        __import__(_MOVED[self.__name__.rpartition(".")[2]])
        return getattr(sys.modules[_MOVED[self.__name__.rpartition(".")[2]]], name)


def load_old_pickles() -> None:
    """Let pickles load that name removed modules."""
    for old in _MOVED:
        name = f"gpuconf.{old}"
        sys.modules.setdefault(name, _Moved(name, "Its names have moved."))


class _MissingModules:
    """The last finder in ``sys.meta_path``. It finds nothing, but says why ``import gpuconf.keras`` fails."""

    @staticmethod
    def find_spec(name: str, _path: Any = None, _target: Any = None) -> None:
        if name.startswith("gpuconf."):
            from .._missing import reason

            module, _, own = name.rpartition(".")
            if why := reason(module, own):
                raise ModuleNotFoundError(f"No module named {name!r}: {why}", name=name)


def explain_imports() -> None:
    """Let a failing import of a module below gpuconf say why."""
    if _MissingModules not in sys.meta_path:
        sys.meta_path.append(_MissingModules)


# What runs on simulated GPUs, or of which a line says that it does not: simulated_torch knows what to do before their
# first import.
_SIMULATED = frozenset(("cupy", "jax", "llama_cpp", "tensorflow", "torch", "vllm"))


class _BeforeSimulated:
    """The first finder in ``sys.meta_path`` where ``GPUCONF_SIMULATE`` is set, until one of these libraries is
    imported.

    It finds nothing itself. Most processes import none of them, and simulated_torch takes longer than all else of this
    import.
    """

    @classmethod
    def find_spec(cls, name: str, _path: Any = None, _target: Any = None) -> Any:
        if name not in _SIMULATED:
            return None
        if cls in sys.meta_path:  # else another thread has been here
            sys.meta_path.remove(cls)
        from importlib.util import find_spec

        from . import simulated_torch

        if not simulated_torch.is_chosen():
            simulated_torch.choose_by_environment()
        return find_spec(name)


def prepare_simulated_libraries() -> None:
    """Let PyTorch run on the GPUs of ``GPUCONF_SIMULATE``.

    Raises FailedPreconditionError if it is imported already: the process would have two machines.
    """
    import os

    if not os.environ.get("GPUCONF_SIMULATE"):
        return
    if "torch" not in sys.modules and f"{__package__}.simulated_torch" not in sys.modules:
        if _BeforeSimulated not in sys.meta_path:
            sys.meta_path.insert(0, _BeforeSimulated)
        return
    from . import simulated_torch

    simulated_torch.choose_by_environment()
