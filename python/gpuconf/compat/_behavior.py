# SPDX-License-Identifier: Apache-2.0
"""Whether shapes print as in TensorFlow 2: ``compat.v1.disable_v2_behavior`` changes it."""

from __future__ import annotations

_v2 = True


def v2_shapes() -> bool:
    """Whether an unknown size prints as ``None``, and not as ``?``."""
    return _v2


def set_v2_shapes(enabled: bool) -> None:
    """Change it, for the whole program."""
    global _v2
    _v2 = enabled
