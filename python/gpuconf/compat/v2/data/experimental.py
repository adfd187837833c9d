# SPDX-License-Identifier: Apache-2.0
"""``tf.data.experimental``: its constants, and options that are stored."""

from __future__ import annotations

from ...._core.public import name_after
from ...._missing import watch
from ._options import AutoShardPolicy, AutotuneOptions, DistributeOptions, OptimizationOptions, ThreadingOptions

__all__ = [
    "AUTOTUNE",
    "AutoShardPolicy",
    "AutotuneOptions",
    "DistributeOptions",
    "OptimizationOptions",
    "ThreadingOptions",
]

AUTOTUNE = -1

name_after(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
