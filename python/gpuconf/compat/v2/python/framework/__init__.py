# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.framework``."""

from __future__ import annotations

from . import ops

__all__ = ["ops"]


def __dir__() -> list[str]:
    return __all__
