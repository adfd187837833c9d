# SPDX-License-Identifier: Apache-2.0
"""A rehearsal that a signal ends at a random moment leaves nothing: no process, folder, mount or change."""

import json
from collections.abc import Callable
from typing import Any

from test_cover_kinds import FULL


def test_a_rehearsal_that_is_ended_leaves_nothing(name: str, in_each: Callable[..., Any]) -> None:
    # The last one kills the launcher's first process while the second one makes the cover.
    result = in_each("kills_in", name, at_once=5, seeds=[*range(50 if FULL else 5), 1082])
    assert result["left"] == {}, json.dumps(result["left"], indent=1)[:10_000]
    assert result["ended"], "no signal came while the program ran"
