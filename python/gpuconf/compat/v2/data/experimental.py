# SPDX-License-Identifier: Apache-2.0
"""``tf.data.experimental``: its constants, and options that are stored."""

from __future__ import annotations

from ...._core.public import name_after
from ...._missing import watch
from ._options import AutoShardPolicy, AutotuneOptions, DistributeOptions, OptimizationOptions, ThreadingOptions

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "AutoShardPolicy",
    "AutotuneOptions",
    "DistributeOptions",
    "OptimizationOptions",
    "ThreadingOptions",
]

AUTOTUNE = INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2

name_after(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
