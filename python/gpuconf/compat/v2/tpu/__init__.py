# SPDX-License-Identifier: Apache-2.0
"""``tf.tpu``: there are no TPUs, as on any machine with GPUs."""

from __future__ import annotations

from ...._missing import watch
from . import experimental

__all__ = ["experimental"]


def __dir__() -> list[str]:
    return __all__


watch(globals())
