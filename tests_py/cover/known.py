# SPDX-License-Identifier: Apache-2.0
"""What is different in a cover, by situation, with the reasons. What is not in this table fails the tests."""

from __future__ import annotations

import fnmatch

# Of 100 kinds, how many must behave in each situation as they do without a cover.
AT_LEAST = {"root": 98, "user": 95, "user with mounts below": 95, "supplementary group": 70, "landlock": 88}

# Reason: situations, and patterns of the names of kinds.
KNOWN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}


def reason(situation: str, kind: str) -> str:
    """Why a kind is different in a situation, or nothing."""
    for why, (situations, names) in KNOWN.items():
        if situation in situations and any(fnmatch.fnmatchcase(kind, name) for name in names):
            return why
    return ""
