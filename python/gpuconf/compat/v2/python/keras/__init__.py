# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.keras``: the session of ``backend``, as in ``compat.v1.keras``. There is no Keras here."""

from __future__ import annotations

from ....._missing import watch
from ...._aliases import alias
from ....v1.keras import backend

__all__ = ["backend"]

alias(__name__, backend=backend)


def __dir__() -> list[str]:
    return __all__


watch(globals())
