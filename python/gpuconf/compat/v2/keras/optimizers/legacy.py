# SPDX-License-Identifier: Apache-2.0
"""``tf.keras.optimizers.legacy``: names that raise ImportError, as in Keras 3."""

from __future__ import annotations

from ....._missing import watch
from ._optimizer import LegacyOptimizer

__all__ = ["SGD", "Adagrad", "Adam", "Ftrl", "Optimizer", "RMSprop"]

SGD = Adagrad = Adam = Ftrl = Optimizer = RMSprop = LegacyOptimizer


def __dir__() -> list[str]:
    return __all__


watch(globals())
