"""How near the predictions of the programs that were drawn are, for benchmarks/reports/accuracy.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.accuracy.drawn import keep, predict, program
from tests_py.recordings import Recording

MOST_ALLOCATED, MOST_RESERVED = 0.005, 0.02


def rates() -> dict[str, str]:
    """Return the rates of the first predictions, of those after the changes, and of the unseen rows."""
    kept = json.loads(Recording("accuracy/drawn/recorded.json").read_text())
    recorded = {one["row"]: one for one in kept["rows"]}
    first = {one["row"]: one for one in json.loads(Recording("accuracy/drawn/first.json").read_text())["rows"]}
    rows = []
    for row in program.rows():
        path = predict.kept(row["row"])
        found = keep.shortened(json.loads(path.read_text())) if path.exists() else None
        rows.append(row | {"recorded": recorded.get(row["row"], {}), "found": found, "first": first.get(row["row"])})
    ran = [row for row in rows if "allocated" in row["recorded"]]
    compared = [row for row in ran if row["found"]]
    return {
        "drawn_first": _rate([row | {"found": row["first"]} for row in ran if row["first"]]),
        "drawn_last": _rate([row for row in compared if not _is_unseen(row)]),
        "drawn_unseen": _rate([row for row in compared if _is_unseen(row)]),
    }


def _is_unseen(row: dict[str, Any]) -> bool:
    return bool(row["unseen"] and "draw" in row)


def _off(found: float, recorded: float) -> float:
    return found / recorded - 1


def _is_near(row: dict[str, Any], what: str, most: float) -> bool:
    return what in row["found"] and abs(_off(row["found"][what], row["recorded"][what])) <= most


def _rate(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "none yet"
    count = len(rows)
    allocated = sum(_is_near(row, "allocated", MOST_ALLOCATED) for row in rows)
    exact = sum(
        "allocated" in row["found"] and row["found"]["allocated"] == row["recorded"]["allocated"] for row in rows
    )
    reserved = sum(_is_near(row, "reserved", MOST_RESERVED) for row in rows)
    return f"{allocated} of {count} allocated ({exact} to the byte), {reserved} reserved"
