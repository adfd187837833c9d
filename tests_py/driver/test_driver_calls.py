"""A simulated H200 answers a program of driver and NVML calls as a real one did, but for what
calls_differences.json lists.

Two recordings, of two NVIDIA H200 with driver 580.159.04: h200.jsonl of 2026-11-26, and h200_second.jsonl of
2026-11-27. The second one ends before some units, and has random programs of other seeds.
"""

import json
import os
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from recordings import Recording

from driver import compare_calls

RECORDER = Path(__file__).with_name("record_calls.py")
# How many calls are compared at least, and differ at most.
RECORDINGS = {"h200": (30000, 1980), "h200_second": (28000, 1800)}


def record(out: Path, *options: str) -> dict[compare_calls.Call, compare_calls.Answer]:
    """On a busy machine, too."""
    simulated = [sys.executable, "-m", "gpuconf", "run", "--simulate", "H200:driver=13.0", "--"]
    command = [*simulated, sys.executable, RECORDER, "--out", out, *"--patience 8 --seconds 240".split(), *options]
    environment = {**os.environ, "GPUCONF_SIMULATE_PLAIN_NAMES": "1"}
    subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment)
    return compare_calls.read(out)


@pytest.fixture(scope="module")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, compare_calls.Comparison]:
    folder = tmp_path_factory.mktemp("calls")
    many = record(folder / "many.jsonl.gz", "--jobs", "2", "--programs", "253")
    more = record(
        folder / "more.jsonl.gz", "--jobs", "2", "--part", "programs", "--first-program", "1000", "--programs", "1120"
    )
    alone = record(folder / "alone.jsonl.gz", "--jobs", "1", "--part", "full")
    return {
        name: compare_calls.Comparison(compare_calls.read(Recording(f"driver/{name}.jsonl").path), many | more | alone)
        for name in RECORDINGS
    }


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_simulated_card_answers_as_the_real_one(
    name: str, comparisons: dict[str, compare_calls.Comparison]
) -> None:
    assert [compare_calls.as_text(*one) for one in comparisons[name].unlisted.items()] == []


@pytest.mark.parametrize("name", RECORDINGS)
def test_many_answers_are_compared(name: str, comparisons: dict[str, compare_calls.Comparison]) -> None:
    """Were the recorder or the recording cut short, nothing would differ either."""
    least, most = RECORDINGS[name]
    comparison = comparisons[name]
    assert len(comparison.both) > least
    assert len({unit for unit, *_ in comparison.both if unit.startswith("programs.")}) > 230
    assert len(comparison.differing) < most  # 6.4 % and 6.2 %; it was 28.8 % before the card was asked


def test_each_listed_difference_is_there(comparisons: dict[str, compare_calls.Comparison]) -> None:
    seen = [compare_calls.as_text(*one) for comparison in comparisons.values() for one in comparison.differing.items()]
    listed: dict[str, list[str]] = json.loads(compare_calls.ACCEPTED.read_text())
    patterns = [pattern.replace("[", "[[]") for one in listed.values() for pattern in one]
    assert [pattern for pattern in patterns if not any(fnmatchcase(text, pattern) for text in seen)] == []
