# SPDX-License-Identifier: Apache-2.0
"""``tf.keras``: its settings, and those of optimizers.

There are no layers and models here: they need TensorFlow, or Keras 3 with another backend.
"""

from __future__ import annotations

from ...._missing import watch
from . import backend, callbacks, config, mixed_precision, optimizers, utils
from .mixed_precision import DTypePolicy

__all__ = [
    "DTypePolicy",
    "__version__",
    "backend",
    "callbacks",
    "config",
    "mixed_precision",
    "optimizers",
    "utils",
    "version",
]

__version__ = "3.15.1"  # the version of Keras that comes with TensorFlow 2.21


def version() -> str:
    """Return ``__version__``."""
    return __version__


def __dir__() -> list[str]:
    return __all__


watch(globals())
