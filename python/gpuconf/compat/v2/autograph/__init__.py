# SPDX-License-Identifier: Apache-2.0
"""``tf.autograph``: its switches, which are accepted. Functions run as Python, so there is nothing to convert."""

from __future__ import annotations

from ...._missing import watch
from . import experimental

__all__ = ["experimental", "set_verbosity"]


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Has no effect: nothing is converted, so there are no messages about it."""
    del level, alsologtostdout


def __dir__() -> list[str]:
    return __all__


watch(globals())
