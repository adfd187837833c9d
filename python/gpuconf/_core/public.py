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
    "_plan": "gpuconf.plans.recordings.replay",
    "_trace": "gpuconf.memory",
    "_types": "gpuconf.config",
    "_visible": "gpuconf",
    "compat._proto.message": "gpuconf.compat._message",
    "compat.v1._config_proto": "gpuconf.compat._proto",
    "planning.fleet.cards": "gpuconf.plans.fleets.recorded_jobs",
    "planning.fleet.jobs": "gpuconf.plans.fleets.recorded_jobs",
    "planning.fleet.plan": "gpuconf.plans.fleets.fleet",
    "planning.out_of_memory": "gpuconf.plans.recordings.out_of_memory",
    "planning.plan": "gpuconf.plans.recordings.replay",
    "planning.sites": "gpuconf.plans.recordings.sites",
    "rehearsal.cards": "gpuconf.plans.programs.needs",
    "rehearsal.needs": "gpuconf.plans.programs.needs",
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
        now = _MOVED[self.__name__.partition(".")[2]]
        __import__(now)
        return getattr(sys.modules[now], name)


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
            from .._missing import elsewhere, reason

            module, _, own = name.rpartition(".")
            if why := reason(module, own) or elsewhere(module, own):
                raise ModuleNotFoundError(f"No module named {name!r}: {why}", name=name)


def explain_imports() -> None:
    """Let a failing import of a module below gpuconf say why."""
    if _MissingModules not in sys.meta_path:
        sys.meta_path.append(_MissingModules)
