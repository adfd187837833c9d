# SPDX-License-Identifier: Apache-2.0
"""Others write undisturbed while a rehearsal changes the same files."""

from collections.abc import Callable
from typing import Any

from test_cover_kinds import FULL


def test_others_write_undisturbed(name: str, in_each: Callable[..., Any]) -> None:
    result = in_each("outside_in", name, at_once=5, seconds=60 if FULL else 3)
    assert result["wrong"] == {}  # each file holds what its writer outside wrote, and nothing else
    assert result["elsewhere"] == {}
    assert result["steps"] > 20
    # Inside, a change may fail because a file moved at that moment, but each kind of change works.
    done = {what.partition(":")[0] for what, count in result["inside"].items() if what.endswith(": done") and count}
    assert done == {"append", "write", "replace", "rename", "unlink", "read", "list", "truncate", "chmod"}
