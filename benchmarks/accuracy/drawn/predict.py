"""Rehearses rows of rows.json by `gpuconf plan`.

    PYTHON=COMMAND python benchmarks/accuracy/drawn/predict.py [--unseen] [--again] [ROW...]

COMMAND has gpuconf and the libraries of the recording. Without rows, all that are not kept in build/accuracy/drawn;
those that are unseen only with --unseen.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.accuracy.drawn import program  # noqa: E402

KEPT = ROOT / "build" / "accuracy" / "drawn"
CARD = "H200-141GB"  # that of the recordings
LONGEST = 300  # seconds of a row
AT_ONCE = 2


def main() -> None:
    """Rehearse the rows that the arguments name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", type=int)
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("--again", action="store_true")
    asked = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    rows = [
        one for one in program.rows() if one["row"] in asked.rows or (not asked.rows and one["unseen"] <= asked.unseen)
    ]
    if not asked.again:
        rows = [one for one in rows if not kept(one["row"]).exists()]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for row in pool.map(rehearse, rows):
            print(row, flush=True)


def kept(row: int) -> Path:
    """Return where the answer for a row is kept."""
    return KEPT / f"{row}.json"


def rehearse(row: dict[str, Any]) -> str:
    """Rehearse a row, and keep the answer. Returns a line."""
    dropped = ("GPUCONF_", "CUDA_", "PYTORCH_", "LD_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    environment |= {"PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1"}
    plan = [os.environ["PYTHON"], "-m", "gpuconf", "plan", "--json", "--gpu", CARD, "--seconds", str(LONGEST), "--"]
    words = [*plan, os.environ["PYTHON"], str(HERE / "program.py"), "--row", str(row["row"])]
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(words, capture_output=True, text=True, cwd=folder, env=environment)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        answer = {"failed": done.stderr[-2000:]}
    answer |= {"seconds": round(time.monotonic() - begin, 1), "errors": done.stderr[-2000:]}
    kept(row["row"]).write_text(json.dumps(answer))
    return f"{row['row']} {row['model']} {answer['seconds']} s, exit code {done.returncode}"


if __name__ == "__main__":
    main()
