"""How near the predictions of the programs of JAX are, for benchmarks/reports/accuracy.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests_py.recordings import Recording

NEAR, POOL_NEAR = 0.005, 0.02


def rates() -> dict[str, str]:
    """Return the rates of the first predictions, of those after the changes, and of the unseen rows."""
    asked = json.loads(Recording("accuracy/drawn_jax/rows.json").read_text())
    recorded, first, found = (
        {one["row"]: one for one in json.loads(Recording(f"accuracy/drawn_jax/{name}").read_text())["rows"]}
        for name in ("recorded.json", "first.json", "predicted.json")
    )
    rows = [row | {"recorded": recorded[row["row"]]} for row in asked["rows"] if row["row"] in recorded]
    rows = [row | {"first": first.get(row["row"]), "found": found.get(row["row"])} for row in rows]
    ran = [row for row in rows if "peak" in row["recorded"]]
    return {
        "jax_first": _rate([row | {"found": row["first"]} for row in ran if not row["unseen"]]),
        "jax_last": _rate([row for row in ran if row["found"] and not row["unseen"]]),
        "jax_unseen": _rate([row for row in ran if row["found"] and row["unseen"]]),
    }


def _peak(found: dict[str, Any]) -> int:
    return max(found["allocated"], found["compiling"])


def _is_near(row: dict[str, Any]) -> bool:
    return abs(_peak(row["found"]) / row["recorded"]["peak"] - 1) <= NEAR


def _is_pool_near(row: dict[str, Any]) -> bool:
    return abs(row["found"]["reserved"] / row["recorded"]["pool"] - 1) <= POOL_NEAR


def _rate(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "none yet"
    steps = [row for row in rows if _when(row) == "steps"]
    of_steps = f"{sum(map(_is_near, steps))} of {len(steps)} whose steps need most"
    return f"{sum(map(_is_near, rows))} of {len(rows)} peaks ({of_steps}), {sum(map(_is_pool_near, rows))} pools"


def _when(row: dict[str, Any]) -> str:
    recorded = row["recorded"]
    if recorded["peak"] > recorded["compiled"]:
        return "steps"
    return "compilation" if recorded["compiled"] > recorded["initialized"] else "initialization"
