# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.util``."""

from __future__ import annotations

from ....._missing import watch
from . import deprecation, module_wrapper

__all__ = ["deprecation", "module_wrapper"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
