# SPDX-License-Identifier: Apache-2.0
"""``tf.compat``: gpuconf under TensorFlow's versioned names."""

from . import v1, v2  # noqa: F401
from ._names import make_modules

make_modules()
