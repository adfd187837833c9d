# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.client``."""

from __future__ import annotations

from . import device_lib

__all__ = ["device_lib"]


def __dir__() -> list[str]:
    return __all__
