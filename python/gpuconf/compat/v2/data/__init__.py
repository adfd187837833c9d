# SPDX-License-Identifier: Apache-2.0
"""``tf.data``: only its constants. There are no datasets here."""

from __future__ import annotations

from ...._missing import watch
from . import experimental

__all__ = ["AUTOTUNE", "experimental"]

AUTOTUNE = -1


def __dir__() -> list[str]:
    return __all__


watch(globals())
