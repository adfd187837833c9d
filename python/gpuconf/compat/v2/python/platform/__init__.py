# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.platform``."""

from __future__ import annotations

from ....._missing import watch
from . import build_info, tf_logging

__all__ = ["build_info", "tf_logging"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
