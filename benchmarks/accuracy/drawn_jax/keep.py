"""Writes recorded.json of what record.py has written, and first.json or predicted.json of the answers of predict.py in
a folder.

    python benchmarks/accuracy/drawn_jax/keep.py FILE.jsonl
    python benchmarks/accuracy/drawn_jax/keep.py FOLDER first.json

first.json is of the time before the first change that the recording gave rise to.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent.parent))

from benchmarks.accuracy.drawn import keep  # noqa: E402

STEP = ("step", "slopes", "update", "forward")  # the functions of a step: program.py


def main() -> None:
    """Write one of the files."""
    if len(sys.argv) > 2:
        answers = {int(path.stem): json.loads(path.read_text()) for path in Path(sys.argv[1]).glob("*.json")}
        keep.write(
            f"accuracy/drawn_jax/{sys.argv[2]}",
            {"rows": [{"row": number, **shortened(answers[number])} for number in sorted(answers)]},
        )
        return
    lines = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    versions = [one["versions"] for one in lines if "versions" in one][:1]
    rows = sorted(map(row, lines), key=lambda one: int(one["row"]))
    keep.write("accuracy/drawn_jax/recorded.json", {"versions": versions, "rows": rows})


def row(found: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a row: bytes of JAX's counters, of XLA's analysis, and of NVML beside the pool."""
    marks = {one["after"]: one["stats"] for one in found.get("marks", [])}
    if "step 3" not in marks:
        return {"row": found["row"], "error": found["error"]}
    last = marks["step 3"]
    beside = [one["used"]["process"] - one["stats"]["pool_bytes"] for one in found["marks"] if "process" in one["used"]]
    peaks = {name: marks[name]["peak_bytes_in_use"] for name in ("initialized", "compiled")}
    kept = {"row": found["row"], **peaks, "peak": last["peak_bytes_in_use"], "pool": last["peak_pool_bytes"]}
    temporary = [one["temp_size_in_bytes"] for one in found["functions"]]
    return kept | {"temporary": temporary, "beside": beside, "seconds": found["seconds"]}


def shortened(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a prediction."""
    if not answer.get("processes") or answer["ran"]["status"]:
        return {"error": (answer.get("why_no_verdict") or answer.get("failed", ""))[-200:]}
    most = max(answer["processes"], key=lambda one: one["allocated"])
    kept = {name: most[name] for name in ("allocated", "reserved")} | {"compiling": most.get("compiling", 0)}
    return kept | {"temporary": [one["temporary"] for one in answer["functions"] if one["name"] in STEP]}


if __name__ == "__main__":
    main()
