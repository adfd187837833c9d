# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.framework``."""

from __future__ import annotations

from ....._missing import watch
from . import config, ops

__all__ = ["config", "ops"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
