"""A simulated H200 answers a program of driver and NVML calls as a real one did, but for what driver_calls/differences.json lists.

The recording, driver_calls/h200.jsonl.gz, is of 2026-11-26: an NVIDIA H200 with driver 580.159.04.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from driver_calls import compare

FOLDER = Path(compare.__file__).resolve().parent
RECORDING = FOLDER / "h200.jsonl.gz"


def record(out: Path, *options: str) -> dict[compare.Call, compare.Answer]:
    """On a busy machine, too."""
    simulated = [sys.executable, "-m", "gpuconf", "run", "--simulate", "H200:driver=13.0", "--"]
    command = [*simulated, sys.executable, FOLDER / "record.py", "--out", out, "--patience", "8", "--seconds", "240", *options]
    environment = {**os.environ, "GPUCONF_SIMULATE_PLAIN_NAMES": "1"}
    subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment)
    return compare.read(out)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> compare.Comparison:
    folder = tmp_path_factory.mktemp("calls")
    many = record(folder / "many.jsonl.gz", "--jobs", "2", "--programs", "253")
    alone = record(folder / "alone.jsonl.gz", "--jobs", "1", "--part", "full")
    return compare.Comparison(compare.read(RECORDING), many | alone)


def test_the_simulated_card_answers_as_the_real_one(comparison: compare.Comparison) -> None:
    assert [compare.as_text(*one) for one in comparison.unlisted.items()] == []


def test_many_answers_are_compared(comparison: compare.Comparison) -> None:
    """Were the recorder or the recording cut short, nothing would differ either."""
    assert len(comparison.both) > 30000
    assert len({unit for unit, *_ in comparison.both if unit.startswith("programs.")}) > 250
    assert len(comparison.differing) < 2110  # 6.9 %; it was 28.8 % before the card was asked


def test_each_listed_difference_is_there(comparison: compare.Comparison) -> None:
    seen = [compare.as_text(*one) for one in comparison.differing.items()]
    listed: dict[str, list[str]] = json.loads(compare.ACCEPTED.read_text())
    patterns = [pattern.replace("[", "[[]") for one in listed.values() for pattern in one]
    assert [pattern for pattern in patterns if not any(fnmatchcase(text, pattern) for text in seen)] == []
