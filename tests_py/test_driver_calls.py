"""How many of a real card's answers the simulated one gives, to a program of driver and NVML calls: never fewer than before.

The recording, driver_calls/h200.jsonl.gz, is of 2026-11-26: an NVIDIA H200 with driver 580.159.04.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from driver_calls import compare

FOLDER = Path(compare.__file__).resolve().parent
DIFFERING = 0.288  # of the answers that both have


def record(out: Path, *options: str) -> dict[compare.Call, compare.Answer]:
    command = [sys.executable, "-m", "gpuconf", "run", "--simulate", "H200:driver=13.0", "--", sys.executable, FOLDER / "record.py"]
    subprocess.run([*command, "--out", out, *options], check=True, capture_output=True, timeout=200)
    return compare.read(out)


def test_the_simulated_card_answers_as_the_real_one_no_less_often(tmp_path: Path) -> None:
    many = record(tmp_path / "many.jsonl.gz", "--jobs", "2", "--programs", "253")
    alone = record(tmp_path / "alone.jsonl.gz", "--jobs", "1", "--part", "full")
    found = compare.Comparison(compare.read(FOLDER / "h200.jsonl.gz"), many | alone)
    assert len(found.both) > 29_000  # were the recorder or the recording cut short, nothing would differ either
    assert len({unit for unit, *_ in found.both if unit.startswith("programs.")}) > 250
    assert len(found.differing) / len(found.both) < DIFFERING
