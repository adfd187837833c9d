# SPDX-License-Identifier: Apache-2.0
"""``tf.compat``: gpuconf under TensorFlow's versioned names."""

from __future__ import annotations

from .._missing import watch
from . import v1, v2

__all__ = ["v1", "v2"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
