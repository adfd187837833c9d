# SPDX-License-Identifier: Apache-2.0
"""``tf.data``: its constants, and options that are stored. There are no datasets here."""

from __future__ import annotations

from ...._core.public import name_after
from ...._missing import watch
from . import experimental
from ._options import Options, ThreadingOptions

__all__ = ["AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "Options", "ThreadingOptions", "experimental"]

AUTOTUNE = INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2

name_after(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
