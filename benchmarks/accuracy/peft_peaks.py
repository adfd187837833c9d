"""Predicts the reserved memory of PEFT's published trainings of Llama-3.2-3B on an L40S.

    TORCH_2_13=PYTHON python benchmarks/accuracy/peft_peaks.py development|unseen [--again] [--keep first|last]

PYTHON has gpuconf, PyTorch 2.13.0 (CUDA 13), transformers 5.13.1 and peft 0.21.2. The configurations and the recorded
peaks are in peft.json of the recordings, after huggingface/peft, method_comparison/MetaMathQA; what is predicted is
kept there, too. The record is the most that PyTorch had reserved at the end of a step; how long its texts were is not
published, but at most 768 tokens.

The rule, which was committed before the first prediction: of the 32 runs 15 are drawn by a seed and unseen, predicted
once, after the last change. The others are for development.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.accuracy import planning  # noqa: E402
from tests_py.recordings import Recording  # noqa: E402

RESULTS = Recording("accuracy/peft.json")


def halves(names: list[str]) -> dict[str, list[str]]:
    """Return the names of the runs of each half."""
    unseen = random.Random("54 peft").sample(sorted(names), 15)
    return {"development": sorted(set(names) - set(unseen)), "unseen": unseen}


def main() -> None:
    """Predict what is missing, and print each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("half", choices=("development", "unseen"))
    parser.add_argument("--again", action="store_true", help="predict all anew")
    parser.add_argument("--keep", choices=("first", "last"), help="keep these predictions as the first or the last")
    asked = parser.parse_args()
    kept: dict[str, Any] = json.loads(RESULTS.read_text())
    for name in halves(list(kept))[asked.half]:
        run = kept[name]
        words = [os.environ["TORCH_2_13"], str(Path(__file__).with_name("peft_program.py")), json.dumps(run["adapter"])]
        found = planning.on_card(planning.answer(f"peft/{name}", "L40S", words, again=asked.again))
        if asked.keep:
            run[asked.keep] = found
        off = f"{100 * (found['reserved'] / run['recorded'] - 1):+.2f} %" if "reserved" in found else found["why"]
        print(f"{name:50} {run['recorded'] >> 20:6} {off} {found['verdict']}")
    if asked.keep:
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def text() -> str:
    """Return the table of the page, of the kept results."""
    kept: dict[str, Any] = json.loads(RESULTS.read_text())
    lines = ["\n", "| runs | within 10 % | below the record | off: least, median, most |", "|---|---|---|---|"]
    for half, names in halves(list(kept)).items():
        for when in ("first", "last"):
            runs = [kept[name] for name in names if "reserved" in kept[name].get(when, {})]
            off = sorted(100 * (run[when]["reserved"] / run["recorded"] - 1) for run in runs)
            if off:
                near, below = sum(abs(one) <= 10 for one in off), sum(one < 0 for one in off)
                figures = f"{off[0]:+.1f} %, {off[len(off) // 2]:+.1f} %, {off[-1]:+.1f} %"
                lines.append(f"| {half}, {when}: {len(off)} of {len(names)} | {near} | {below} | {figures} |")
    return "\n".join(lines) if len(lines) > 3 else "None has been predicted."


if __name__ == "__main__":
    main()
