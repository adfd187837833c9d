"""Says of models of timm whether they fit on an RTX 4090, at the largest batch that ran there and the next that failed.

    TIMM=FILE TORCH_2_9=PYTHON python benchmarks/accuracy/timm_fits.py development|unseen [--most N] [--again]
        [--keep first|last]

FILE is timm-fits.csv, after the published results of huggingface/pytorch-image-models. PYTHON has gpuconf, PyTorch
2.9.1 (CUDA 12.8) and timm 1.0.24. What is predicted is kept in build/accuracy/timm, and with --keep in timm.json, of
which benchmarks/reports/accuracy.md has a table.

The rule, which was committed before the first prediction: the models whose largest batch on the RTX 5090 is above that
on the RTX 4090, at the same size of images, so that what failed on the 4090 was memory. They are 85, which a seed puts
in an order; those at even places are for development, those at odd places are unseen: predicted once, after the last
change. As many of each as N, from the first on. timm's benchmark.py sets torch.backends.cudnn.benchmark, so that
PyTorch tries cuDNN's engines, and leaves out those for which there is no memory.
"""

from __future__ import annotations

import argparse
import csv
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

RESULTS = Recording("accuracy/timm.json")
HALVES = {"development": 43, "unseen": 42}
BATCHES = [1, *(each << power for power in range(9) for each in (2, 3)), 1024, 0]  # 0: none is tried before 1024
CASES = {"batch_fits": "ran", "next_larger_batch_that_failed": "failed"}


def drawn() -> list[dict[str, str]]:
    """Return the rows of the RTX 4090 in the order of the draw, each with its half."""
    rows: dict[str, dict[str, dict[str, str]]] = {}
    with Path(os.environ["TIMM"]).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["model"], {})[row["card"]] = row
    frame = []
    for _, cards in sorted(rows.items()):
        small, large = cards.get("4090"), cards.get("5090")
        same = small and large and small["img_size"] == large["img_size"]
        if small and large and same and int(large["batch_fits"]) > int(small["batch_fits"]):
            frame.append(small)
    random.Random("54 timm").shuffle(frame)
    return [row | {"half": list(HALVES)[place % 2]} for place, row in enumerate(frame)]


def planned(row: dict[str, str], batch: int, again: bool) -> dict[str, Any]:
    """Return what `gpuconf plan` says of a model at a batch."""
    model, size = row["model"], row["img_size"]
    before = BATCHES[BATCHES.index(batch) + 1]
    program = str(Path(__file__).with_name("timm_program.py"))
    words = [os.environ["TORCH_2_9"], program, model, size, str(batch), str(before)]
    return planning.on_card(planning.answer(f"timm/{model}_{size}_{batch}", "RTX4090", words, again=again))


def main() -> None:
    """Predict what is missing, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("half", choices=HALVES)
    parser.add_argument("--most", type=int, default=1000, help="how many models, in the order of the draw")
    parser.add_argument("--again", action="store_true", help="predict all anew")
    parser.add_argument("--keep", choices=("first", "last"), help="keep these predictions as the first or the last")
    asked = parser.parse_args()
    kept = {one["model"]: one for one in json.loads(RESULTS.read_text())} if RESULTS.path.exists() else {}
    found: list[dict[str, Any]] = []
    for row in [row for row in drawn() if row["half"] == asked.half][: asked.most]:
        batches = {case: int(row[column]) for column, case in CASES.items()}
        answers = {case: planned(row, batch, asked.again) for case, batch in batches.items()}
        found.append({"model": row["model"], "half": row["half"], "batches": batches, "last": answers})
    for one in found:
        print(one["model"], one["batches"], {case: answer["verdict"] for case, answer in one["last"].items()})
        if asked.keep:
            old = kept.get(one["model"], {})
            kept[one["model"]] = one | old | {asked.keep: one["last"]}
    if asked.keep:
        RESULTS.write_text(json.dumps(list(kept.values()), indent=1) + "\n")
    print(counts(found, "last"))


def counts(found: list[dict[str, Any]], when: str) -> dict[str, dict[str, int]]:
    """Return how often each verdict is given at the batch that ran, and at the one that failed."""
    counted: dict[str, dict[str, int]] = {case: {} for case in CASES.values()}
    for one in found:
        for case, answer in one[when].items():
            counted[case][answer["verdict"]] = counted[case].get(answer["verdict"], 0) + 1
    return counted


def text() -> str:
    """Return the table of the page, of the kept results."""
    if not RESULTS.path.exists():
        return "None has been predicted."
    kept = json.loads(RESULTS.read_text())
    lines = ["\n", "| models | at the batch that ran | at the next, which failed |", "|---|---|---|"]
    for half, models in HALVES.items():
        for when in ("first", "last"):
            some = [one for one in kept if one["half"] == half and when in one]
            counted = counts(some, when)
            cells = [", ".join(f"{n} {word}" for word, n in sorted(counted[case].items())) for case in CASES.values()]
            lines += [f"| {half}, {when}: {len(some)} of {models} | {' | '.join(cells)} |"] * bool(some)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
