# SPDX-License-Identifier: Apache-2.0
"""``tf.data.experimental``: only its constants."""

from __future__ import annotations

from ...._missing import watch

__all__ = ["AUTOTUNE"]

AUTOTUNE = -1


def __dir__() -> list[str]:
    return __all__


watch(globals())
