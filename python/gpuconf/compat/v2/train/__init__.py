# SPDX-License-Identifier: Apache-2.0
"""``tf.train``: the description of a cluster. There is no training here."""

from __future__ import annotations

from ...._core.public import name_after
from ...._missing import watch
from ._cluster_spec import ClusterSpec

__all__ = ["ClusterSpec"]

name_after(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
