# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.eager``."""

from __future__ import annotations

from ....._missing import watch
from . import context

__all__ = ["context"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
