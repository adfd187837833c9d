# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1.flags``: Abseil's flags, as in TensorFlow. Importing it needs ``absl-py``."""

from __future__ import annotations

try:
    from absl import flags as _flags
except ImportError as _error:
    raise ImportError(f"tf.flags is Abseil's: install it with pip install absl-py ({_error})", name="absl") from None

from ..._typing import Any

__all__ = ["FLAGS"]  # and Abseil's other names, which only its own documentation lists

FLAGS = _flags.FLAGS


def __getattr__(name: str) -> Any:
    """Return Abseil's name."""
    return getattr(_flags, name)


def __dir__() -> list[str]:
    return __all__
