# SPDX-License-Identifier: Apache-2.0
"""A second import path for a module."""

from __future__ import annotations

import sys
from types import ModuleType


def alias(package: str, **modules: ModuleType) -> None:
    """Make ``import package.name`` return a loaded module, and its public submodules, instead of loading them again."""
    for name, module in modules.items():
        inside = module.__name__ + "."
        below = {other[len(inside) :]: found for other, found in list(sys.modules.items()) if other.startswith(inside)}
        sys.modules[f"{package}.{name}"] = module
        sys.modules.update(
            {f"{package}.{name}.{rest}": found for rest, found in below.items() if not rest.startswith("_")}
        )
