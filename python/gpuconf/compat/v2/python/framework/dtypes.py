# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.framework.dtypes``: the types of elements, by the path that public code imports them from."""

from __future__ import annotations

import sys

from ....._missing import error_for
from ....._typing import Any
from ...._dtypes import NAMES, DType, as_dtype

__all__ = ["DType", "as_dtype", *NAMES]

TYPE_CHECKING = False
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return a type of elements, such as ``float32``."""
        if name in NAMES:
            return as_dtype(name)
        raise error_for(__name__, name, sys._getframe(1))


def __dir__() -> list[str]:
    return __all__
