# SPDX-License-Identifier: Apache-2.0
"""The modules of ``tensorflow.python`` that programs import to look at GPUs."""

from __future__ import annotations

from ...._missing import watch
from . import client, eager, framework, platform, util

__all__ = ["client", "eager", "framework", "platform", "util"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
