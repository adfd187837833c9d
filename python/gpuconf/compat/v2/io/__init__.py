# SPDX-License-Identifier: Apache-2.0
"""``tf.io``: files of this machine."""

from __future__ import annotations

from ...._missing import watch
from . import gfile

__all__ = ["gfile"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
