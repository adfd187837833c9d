"""Rehearses rows of rows.json by `gpuconf plan`, with the environment of the recording.

    PYTHON=COMMAND python benchmarks/accuracy/drawn_jax/predict.py [--unseen] [--again] [ROW...]

COMMAND has gpuconf, and the libraries of the recording. Answers are kept in build/accuracy/drawn_jax; see
drawn/predict.py.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.accuracy.drawn import predict  # noqa: E402
from benchmarks.accuracy.drawn_jax import record  # noqa: E402
from tests_py.recordings import Recording  # noqa: E402


class Program:
    """The rows that ended on the card."""

    @staticmethod
    def rows() -> list[dict[str, Any]]:
        """Return the rows with their models."""
        found = json.loads(Recording("accuracy/drawn_jax/rows.json").read_text())["rows"]
        ended = {
            one["row"]
            for one in json.loads(Recording("accuracy/drawn_jax/recorded.json").read_text())["rows"]
            if "peak" in one
        }
        return [one | {"model": f"{one['library']} {one['family']}"} for one in found if one["row"] in ended]


if __name__ == "__main__":
    os.environ |= record.ENVIRONMENT
    predict.HERE, predict.KEPT, predict.AT_ONCE = HERE, ROOT / "build" / "accuracy" / "drawn_jax", 1
    predict.program = Program  # type: ignore[assignment]
    predict.main()
