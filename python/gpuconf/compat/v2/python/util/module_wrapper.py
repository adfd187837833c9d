# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.util.module_wrapper``: the number of warnings, which programs lower. gpuconf gives no such
warnings.
"""

from __future__ import annotations

from ....._missing import watch

__all__ = ["_PER_MODULE_WARNING_LIMIT"]

_PER_MODULE_WARNING_LIMIT = 1


def __dir__() -> list[str]:
    return __all__


watch(globals())
