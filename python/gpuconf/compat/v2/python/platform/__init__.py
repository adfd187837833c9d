"""``tensorflow.python.platform``."""

from __future__ import annotations

from . import build_info

__all__ = ["build_info"]


def __dir__() -> list[str]:
    return __all__
