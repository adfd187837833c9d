# SPDX-License-Identifier: Apache-2.0
"""``tf.keras.config``: the settings of ``backend`` under their newer names."""

from __future__ import annotations

from ...._missing import watch
from .backend import backend, epsilon, floatx, image_data_format, set_epsilon, set_floatx, set_image_data_format
from .mixed_precision import dtype_policy, set_dtype_policy

__all__ = [
    "backend",
    "dtype_policy",
    "epsilon",
    "floatx",
    "image_data_format",
    "set_dtype_policy",
    "set_epsilon",
    "set_floatx",
    "set_image_data_format",
]


def __dir__() -> list[str]:
    return __all__


watch(globals())
