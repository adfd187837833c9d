# SPDX-License-Identifier: Apache-2.0
"""``tf.math``: the few functions that check a device."""

from __future__ import annotations

from ..._missing import watch
from ._ops import add, add_n, divide, exp, multiply, pow, reduce_max, reduce_mean, reduce_sum, sqrt, square, subtract  # noqa: A004

__all__ = [
    "add",
    "add_n",
    "divide",
    "exp",
    "multiply",
    "pow",
    "reduce_max",
    "reduce_mean",
    "reduce_sum",
    "sqrt",
    "square",
    "subtract",
]


def __dir__() -> list[str]:
    return __all__


watch(globals())
