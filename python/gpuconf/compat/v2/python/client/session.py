# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.client.session``: the sessions of ``compat.v1``."""

from __future__ import annotations

from ....._missing import watch
from ....v1._session import InteractiveSession, Session

__all__ = ["InteractiveSession", "Session"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
