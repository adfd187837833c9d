# SPDX-License-Identifier: Apache-2.0
"""``tf.autograph.experimental``: what says that a function is not converted."""

from __future__ import annotations

from ...._missing import watch
from ...._typing import Any

__all__ = ["do_not_convert"]


def do_not_convert(func: Any = None) -> Any:
    """Return ``func``, or, without it, a decorator that does: no function is converted here."""
    return do_not_convert if func is None else func


def __dir__() -> list[str]:
    return __all__


watch(globals())
