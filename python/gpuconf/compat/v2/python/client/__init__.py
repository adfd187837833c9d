# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.client``."""

from __future__ import annotations

from ....._missing import watch
from . import device_lib, session

__all__ = ["device_lib", "session"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
