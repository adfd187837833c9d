# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1.random``: random numbers, which are NumPy's. A seed makes them repeat."""

from __future__ import annotations

from ..._core.built_in_errors import raise_built_in
from ..._missing import watch
from ._ops import random_normal as normal
from ._ops import random_uniform as uniform
from ._ops import truncated_normal
from ._seed import set_random_seed

__all__ = ["normal", "set_random_seed", "truncated_normal", "uniform"]

raise_built_in(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
