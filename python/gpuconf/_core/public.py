"""The public modules of public classes, as shown in pickles, tracebacks and ``help``."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType
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

_PUBLIC = ("gpuconf.compat.v1", "gpuconf.config", "gpuconf.errors", "gpuconf.memory")  # an alias keeps its class's module


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
