# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.util.deprecation``: the switch that programs turn off."""

from __future__ import annotations

from ....._missing import watch

__all__ = ["_PRINT_DEPRECATION_WARNINGS"]

_PRINT_DEPRECATION_WARNINGS = True


def __dir__() -> list[str]:
    return __all__


watch(globals())
