# SPDX-License-Identifier: Apache-2.0
"""The modules of ``tensorflow.python`` that programs import to look at GPUs."""

from __future__ import annotations

from . import client, framework, platform

__all__ = ["client", "framework", "platform"]


def __dir__() -> list[str]:
    return __all__
