# SPDX-License-Identifier: Apache-2.0
"""Whether the steps of a program repeat: then what comes later takes no more memory than what was seen."""

from __future__ import annotations

from collections.abc import Sequence

TIMES = 3
_LONGEST = 16  # steps of a cycle, such as those of two optimizers in turn


def repeat(steps: Sequence[object], times: int = TIMES) -> bool:
    """Whether the last steps are the same cycle of steps, so many times."""
    for length in range(1, min(_LONGEST, len(steps) // times) + 1):
        last = steps[-length:]
        if all(steps[-length * n : len(steps) - length * (n - 1)] == last for n in range(2, times + 1)):
            return True
    return False
