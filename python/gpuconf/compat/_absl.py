# SPDX-License-Identifier: Apache-2.0
"""``compat.v1.flags`` and ``compat.v1.app``, which are Abseil's."""

from __future__ import annotations

import sys

from .._typing import Any

try:
    from absl import flags as _flags
except ImportError as _error:
    raise ImportError(f"tf.flags is Abseil's: install it with pip install absl-py ({_error})", name="absl") from None


FLAGS = _flags.FLAGS


def __getattr__(name: str) -> Any:
    """Return Abseil's name."""
    return getattr(_flags, name)


def run(main: Any = None, argv: Any = None) -> None:
    """Parse the flags, leave those that are unknown, run ``main``, and exit."""
    from absl import app

    def known(arguments: list[str]) -> list[str]:
        return list(FLAGS(arguments, known_only=True))

    app.run(main=main or sys.modules["__main__"].main, argv=argv, flags_parser=known)
