# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1.keras``: the session of ``keras.backend``. There is no Keras here."""

from __future__ import annotations

from ...._missing import watch
from . import backend

__all__ = ["backend"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
