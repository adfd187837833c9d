"""Exit codes, and the usage error."""

from __future__ import annotations

OK, ERROR, USAGE, DOES_NOT_FIT, INTERRUPTED = 0, 1, 2, 3, 130
DIFFERS = 3


class UsageError(Exception):
    """The command line is invalid."""
