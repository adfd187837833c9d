# SPDX-License-Identifier: Apache-2.0
"""``tf.experimental``: the switches of its NumPy."""

from __future__ import annotations

from ...._missing import watch
from . import numpy

__all__ = ["numpy"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
