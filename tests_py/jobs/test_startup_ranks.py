"""The parts of a job's ranks where the core cannot load: the same table as the core's."""

from __future__ import annotations

import sys
from pathlib import Path

import gpuconf
import pytest

sys.path.insert(0, str(Path(gpuconf.__file__).parent / "_startup"))
import gpuconf_startup

sys.path.pop(0)

ROOT = Path(__file__).parents[2]
ROWS = [line for line in (ROOT / "tests_go/tf/config/ranks.table").read_text().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("row", ROWS)
def test_the_parts_of_ranks(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every GPU was given to as many ranks as the GPU with the most: 3 ranks on 2 GPUs had half of each."""
    before, _, after = row.partition(" : ")
    rank, ranks, gpus = before.split()
    for name, value in (("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", ranks)):
        monkeypatch.setenv(name, "" if value == "-" else value)
    assert [gpuconf_startup.limit_of_rank(840, ordinal, int(gpus)) for ordinal in range(int(gpus))] == [
        *map(int, after.split())
    ]
