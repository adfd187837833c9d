# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.framework``."""

from __future__ import annotations

from ..... import errors
from ....._missing import watch
from ...._aliases import alias
from . import config, dtypes, gpu_util, ops

__all__ = ["config", "dtypes", "errors", "errors_impl", "gpu_util", "ops"]

errors_impl = errors

alias(__name__, errors=errors, errors_impl=errors)


def __dir__() -> list[str]:
    return __all__


watch(globals())
