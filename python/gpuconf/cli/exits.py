# SPDX-License-Identifier: Apache-2.0
"""Exit codes, and the usage error."""

from __future__ import annotations

OK, ERROR, USAGE = 0, 1, 2
CONDITION = 3  # there is no GPU, or a condition that the command checks does not hold
DOES_NOT_FIT = DIFFERS = CONDITION
TIMED_OUT = 124  # as timeout(1)
INTERRUPTED = 130

EMPTY = "the name of the program is empty"  # that of an unset variable


class UsageError(Exception):
    """The command line is invalid."""
