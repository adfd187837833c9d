# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1.random``: the seed, which has no effect."""

from __future__ import annotations

from ..._core.built_in_errors import raise_built_in
from ..._missing import watch
from ._seed import set_random_seed

__all__ = ["set_random_seed"]

raise_built_in(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
