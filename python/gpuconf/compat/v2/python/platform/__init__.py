# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.platform``."""

from __future__ import annotations

from . import build_info

__all__ = ["build_info"]


def __dir__() -> list[str]:
    return __all__
