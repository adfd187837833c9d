# SPDX-License-Identifier: Apache-2.0
"""``tf.compat``: gpuconf under TensorFlow's versioned names."""

from __future__ import annotations

from .._missing import watch
from . import v1, v2
from ._text import as_bytes, as_str, as_str_any, as_text, path_to_str

__all__ = ["as_bytes", "as_str", "as_str_any", "as_text", "path_to_str", "v1", "v2"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
