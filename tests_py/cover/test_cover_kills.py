# SPDX-License-Identifier: Apache-2.0
"""A rehearsal that a signal ends at a random moment leaves nothing: no process, folder, mount or change."""

from __future__ import annotations

import json

import adapter
import pytest
from test_cover_kinds import FULL, NAMES, allowed


@pytest.mark.parametrize("name", NAMES)
def test_a_rehearsal_that_is_ended_leaves_nothing(name: str) -> None:
    result = adapter.stage("kills_in", allowed(name), seeds=list(range(50 if FULL else 5)))
    assert result["left"] == {}, json.dumps(result["left"], indent=1)[:10_000]
    assert result["ended"], "no signal came before the program's own end"
