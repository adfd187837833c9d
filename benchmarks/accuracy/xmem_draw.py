"""Draws 100 more runs of the xMem artifact, half for development and half unseen, and prints them.

    XMEM=FOLDER python benchmarks/accuracy/xmem_draw.py

The rule, which was committed before the first of these runs was read:

- The frame is xmem_frame.txt of the recordings: the runs that a listing of three folders of the artifact shows,
  plot/data/001-Anova/CNN/001 (the first 94 of 286 by name), plot/data/002-Monte Carlo/CNN/001 (all 80) and
  plot/data/002-Monte Carlo/Transformer/001 (all 69).
- Of runs of the same model, optimiser, batch and card only the first by name counts, and none that is as one of the 50
  of FOLDER/runs.csv.
- Of each stratum, as many as `COUNTS` says, by a seed. In the order of the draw, those at even places are for
  development, those at odd places are unseen: predicted once, after the last change.
"""

from __future__ import annotations

import csv
import os
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests_py.recordings import Recording  # noqa: E402

FOLDERS = {
    "A-CNN": "plot/data/001-Anova/CNN/001",
    "M-CNN": "plot/data/002-Monte Carlo/CNN/001",
    "M-TRF": "plot/data/002-Monte Carlo/Transformer/001",
}
COUNTS = {"A-CNN": 20, "M-CNN": 52, "M-TRF": 28}
CARDS = {"0": "NVIDIA-GeForce-RTX-4060", "1": "NVIDIA-GeForce-RTX-3060"}


def configuration(name: str) -> str:
    """Return the model, optimiser, batch and card of a run, by its folder's name, which ends in a number of its own."""
    return name.rsplit("_", 1)[0]


def drawn() -> list[tuple[str, str, str]]:
    """Return the half, the stratum and the path of each run that is drawn."""
    with Path(os.environ["XMEM"], "runs.csv").open(encoding="utf-8", newline="") as file:
        seen = {configuration(row["path"].split("/")[-3]) for row in csv.DictReader(file)}
    frame: dict[str, list[str]] = {}
    for line in sorted(Recording("accuracy/xmem_frame.txt").read_text().splitlines()):
        stratum, name = line.split()
        if configuration(name) not in seen:
            seen.add(configuration(name))
            frame.setdefault(stratum, []).append(name)
    chosen = []
    for stratum, count in COUNTS.items():
        for place, name in enumerate(random.Random(f"54 {stratum}").sample(frame[stratum], count)):
            card = CARDS[configuration(name).split("_")[3]]
            path = f"{FOLDERS[stratum]}/{name}/{card}/evaluation_result.json"
            chosen.append(("unseen" if place % 2 else "development", stratum, path))
    return chosen


if __name__ == "__main__":
    for one in drawn():
        print(*one, sep=",")
