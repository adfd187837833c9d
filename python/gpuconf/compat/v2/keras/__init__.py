# SPDX-License-Identifier: Apache-2.0
"""``tf.keras``: its settings, and those of optimizers.

There are no layers and models here: they need TensorFlow, or Keras 3 with another backend.
"""

from __future__ import annotations

from ...._missing import watch
from . import backend, callbacks, config, mixed_precision, optimizers, utils

__all__ = ["__version__", "backend", "callbacks", "config", "mixed_precision", "optimizers", "utils"]

__version__ = "3.15.1"  # the version of Keras that comes with TensorFlow 2.21


def __dir__() -> list[str]:
    return __all__


watch(globals())
