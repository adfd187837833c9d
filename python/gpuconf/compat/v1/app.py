# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1.app``: Abseil's ``run``, as in TensorFlow. Importing it needs ``absl-py``."""

from __future__ import annotations

import sys

from ..._typing import Any
from . import flags

__all__ = ["flags", "run"]


def run(main: Any = None, argv: Any = None) -> None:
    """Parse the flags, leave those that are unknown, run ``main``, and exit."""
    from absl import app

    def known(arguments: list[str]) -> list[str]:
        return list(flags.FLAGS(arguments, known_only=True))

    app.run(main=main or sys.modules["__main__"].main, argv=argv, flags_parser=known)


def __dir__() -> list[str]:
    return __all__
