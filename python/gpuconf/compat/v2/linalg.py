# SPDX-License-Identifier: Apache-2.0
"""``tf.linalg``: the product of matrices."""

from __future__ import annotations

from ..._missing import watch
from ._ops import eye, matmul

__all__ = ["eye", "matmul"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
