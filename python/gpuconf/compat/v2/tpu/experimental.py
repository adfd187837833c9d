# SPDX-License-Identifier: Apache-2.0
"""``tf.tpu.experimental``: the functions that programs call after finding a TPU."""

from __future__ import annotations

from ...._missing import watch
from ...._typing import Any
from ..distribute.cluster_resolver import TPUClusterResolver

__all__ = ["initialize_tpu_system", "shutdown_tpu_system"]


def initialize_tpu_system(cluster_resolver: Any = None) -> None:
    """Raise ValueError, as on a machine without a TPU."""
    if cluster_resolver is None:
        TPUClusterResolver()


def shutdown_tpu_system(cluster_resolver: Any = None) -> None:
    """Raise ValueError, as on a machine without a TPU."""
    initialize_tpu_system(cluster_resolver)


def __dir__() -> list[str]:
    return __all__


watch(globals())
