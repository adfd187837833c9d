"""Runs `gpuconf plan` for a program, and keeps what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = "300"


def answer(kept: str, gpu: str, program: Sequence[str], *options: str, again: bool = False) -> dict[str, Any]:
    """Return the answer for a program of a Python that has gpuconf, and what it printed. Both are kept below build."""
    file = ROOT / "build" / "accuracy" / f"{kept}.json"
    if again or not file.exists():
        dropped = ("GPUCONF_", "CUDA_", "PYTORCH_", "LD_")
        plan = (program[0], "-m", "gpuconf", "plan", "--json", "--gpu", gpu, "--seconds", SECONDS)
        done = subprocess.run(
            [*plan, *options, "--", *program],
            capture_output=True,
            text=True,
            env={name: value for name, value in os.environ.items() if not name.startswith(dropped)},
            check=False,
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            found = json.loads(done.stdout)
        except ValueError:
            raise SystemExit(f"{kept}: {done.stderr[-500:]}") from None
        file.write_text(json.dumps(found | {"printed": done.stderr}))
        print(kept, file=sys.stderr, flush=True)
    kept_answer: dict[str, Any] = json.loads(file.read_text())
    return kept_answer


def on_card(found: dict[str, Any]) -> dict[str, Any]:
    """Return what an answer says of its card under the allocator's defaults, or why it has no verdict."""
    why = found["why_no_verdict"]
    if found["ran"]["ended"] == "seconds":
        why = f"it had not ended after {SECONDS} s"
    if why:
        return {"verdict": "none", "why": why}
    card = next(one for one in found["cards"] if one["setting"] == "default")
    unlimited = found["processes"][0]["reserved"]
    keys = ("reserved", "reserved_low", "reserved_high")
    return {key: card.get(key) or unlimited for key in keys} | {
        key: card[key] for key in ("verdict", "needs_low", "needs_high", "usable_low")
    }
