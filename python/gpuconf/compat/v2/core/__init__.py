# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.core``."""

from __future__ import annotations

from . import protobuf

__all__ = ["protobuf"]


def __dir__() -> list[str]:
    return __all__
