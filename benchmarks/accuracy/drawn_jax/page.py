"""The section of benchmarks/reports/accuracy.md on the programs of JAX."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import table
from tests_py.recordings import Recording

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
NEAR, POOL_NEAR = 0.005, 0.02
REASONS = json.loads((HERE / "reasons.json").read_text())

TEXT = """## Programs of JAX

The {rows} programs below were drawn by a rule (benchmarks/accuracy/drawn_jax/draw.py), and recorded on 2026-11-27 on an
{gpu} with driver {driver}, Python {python}, JAX {jax}, flax {flax}, equinox {equinox}, optax {optax} and diffrax
{diffrax}, with `XLA_PYTHON_CLIENT_PREALLOCATE=false`. The rows with their settings, the program and the recorder were
committed before the first recording and the first prediction. The rule:

{rules}

{recorded}

*Recorded* is `peak_bytes_in_use` of `memory_stats()` at the end, and *pool* is `peak_pool_bytes`, what the allocator
had of the card. Both contain what XLA's autotuning takes to try kernels while it compiles: *when* is the phase that
reached the peak. The prediction is the larger of a plan's `allocated` and `compiling`, and of the pool `reserved`.
*Temporaries* are the largest that a function of the step has, by `memory_analysis()` on the card and in the rehearsal.
Sizes are in MiB.

A peak that was reached while XLA compiled is no need: XLA tries kernels of cuDNN with workspaces of any size, and
leaves out those for which there is no memory. A plan counts what it knows of it (inputs, results and the workspace of
cuBLAS), and misses workspaces of cuDNN: so these rows are predicted too low, by up to 97 %, while the temporaries of
their steps mostly agree.

**First predictions**, before these recordings led to any change: {first}

**After the changes**, for the rows that were used for them: {after}

**Unseen rows**, which were not used and were predicted after the last change: {unseen} By gpuconf as it was
before the changes: {unseen_first}

The changes: with `XLA_PYTHON_CLIENT_PREALLOCATE=false` the trace is replayed through an allocator that grows in regions
that double, and splits a free chunk only if the rest is large, as XLA's does; a call's results are counted before its
temporaries, the largest first; what the autotuning takes at least for products of matrices and convolutions is counted
beside the peak of the calls; the range of a CUDA context is that of JAX.

{runs}

{reasons}

**Temporaries** of all functions of a step: {temporaries}

**Beside the pool**, NVML counted for the recorded processes {started} MiB after JAX had started, and {ended} MiB after
the last step.
"""


def text() -> str:
    """Return the section."""
    asked = json.loads(Recording("accuracy/drawn_jax/rows.json").read_text())
    kept = json.loads(Recording("accuracy/drawn_jax/recorded.json").read_text())
    recorded, first, found = (
        {one["row"]: one for one in json.loads(Recording(f"accuracy/drawn_jax/{name}").read_text())["rows"]}
        for name in ("recorded.json", "first.json", "predicted.json")
    )
    rows = [row | {"recorded": recorded[row["row"]]} for row in asked["rows"] if row["row"] in recorded]
    rows = [row | {"first": first.get(row["row"]), "found": found.get(row["row"])} for row in rows]
    ran = [row for row in rows if "peak" in row["recorded"]]
    versions = kept["versions"][0]
    beside = [row["recorded"]["beside"] for row in ran if row["recorded"]["beside"]]
    return TEXT.format(
        rows=len(asked["rows"]),
        gpu=versions["gpu"],
        rules="\n".join(f"- {rule}" for rule in asked["rule"]),
        recorded=_recorded(rows, ran),
        first=_rate([row | {"found": row["first"]} for row in ran if not row["unseen"]]),
        after=_rate([row for row in ran if row["found"] and not row["unseen"]]),
        unseen=_rate([row for row in ran if row["found"] and row["unseen"]]),
        unseen_first=_rate([row | {"found": row["first"]} for row in ran if row["unseen"]]),
        runs=table([_row(row) for row in ran if row["found"]]),
        reasons="\n".join(_reasons(ran)),
        temporaries=_temporaries([row for row in ran if row["found"]]),
        started=_range([one[0] for one in beside]),
        ended=_range([one[-1] for one in beside]),
        **{name: versions[name] for name in ("driver", "python", "jax", "flax", "equinox", "optax", "diffrax")},
    )


def _recorded(rows: Sequence[dict[str, Any]], ran: Sequence[dict[str, Any]]) -> str:
    limit, waiting = (
        sum(row["recorded"].get("error", "").startswith(text) for row in rows) for text in ("time", "not started")
    )
    return (
        f"{len(ran)} of the {len(rows)} ended on the card in the time that there was. {limit} were ended after a "
        "minute, most of "
        f"them while XLA compiled and tuned kernels for several programs at once, and {waiting} were not started."
    )


def _peak(found: dict[str, Any]) -> int:
    return max(found["allocated"], found["compiling"])


def _percent(found: float, recorded: float) -> str:
    return f"{100 * (found / recorded - 1):+.2f} %".replace("-0.00", "0.00").replace("+0.00", "0.00")


def _is_near(row: dict[str, Any]) -> bool:
    return abs(_peak(row["found"]) / row["recorded"]["peak"] - 1) <= NEAR


def _is_pool_near(row: dict[str, Any]) -> bool:
    return abs(row["found"]["reserved"] / row["recorded"]["pool"] - 1) <= POOL_NEAR


def _rate(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "none yet."
    steps = [row for row in rows if _when(row) == "steps"]
    return (
        f"the peak within 0.5 %: {sum(map(_is_near, rows))} of {len(rows)}, and of those whose steps need most, "
        f"{sum(map(_is_near, steps))} of {len(steps)}; the pool within 2 %: {sum(map(_is_pool_near, rows))} of "
        f"{len(rows)}."
    )


def _when(row: dict[str, Any]) -> str:
    recorded = row["recorded"]
    if recorded["peak"] > recorded["compiled"]:
        return "steps"
    return "compilation" if recorded["compiled"] > recorded["initialized"] else "initialization"


def _row(row: dict[str, Any]) -> dict[str, str]:
    found, recorded, first = row["found"], row["recorded"], row["first"]
    settings = [row["precision"], row["optimizer"] if row["training"] else "inference", f"{row['batch']}"]
    settings += [
        text for text in (row["checkpoint"] and f"checkpoint of {row['checkpoint']}", row["accumulation"]) if text
    ]
    settings += [name for name in ("donate", "scan") if row[name]]
    return {
        "row": f"{row['row']}" + (", unseen" if row["unseen"] else ""),
        "program": f"{row['library']} {row['family']}",
        "precision, optimizer, batch": ", ".join(settings),
        "predicted": f"{_peak(found) / MIB:,.2f}",
        "recorded": f"{recorded['peak'] / MIB:,.2f}",
        "off": _percent(_peak(found), recorded["peak"]),
        "first": _percent(_peak(first), recorded["peak"]) if first else "",
        "when": _when(row),
        "temporaries: off": _percent(max(found["temporary"]), max(recorded["temporary"])),
        "pool: predicted": f"{found['reserved'] / MIB:,.0f}",
        "recorded ": f"{recorded['pool'] / MIB:,.0f}",
        "off ": _percent(found["reserved"], recorded["pool"]),
    }


def _reasons(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for row in rows:
        name = f"{row['row']}, {row['library']} {row['family']}"
        if not row["found"] or "error" in row["found"]:
            lines.append(f"- **{name}** was not predicted: {(row['found'] or {}).get('error', 'not tried')}.")
        elif not _is_near(row):
            off = _percent(_peak(row["found"]), row["recorded"]["peak"])
            lines.append(f"- **{name}**, {off}: {REASONS.get(str(row['row']), 'not known')}.")
    return lines


def _temporaries(rows: Sequence[dict[str, Any]]) -> str:
    pairs = [pair for row in rows for pair in zip(row["found"]["temporary"], row["recorded"]["temporary"], strict=True)]
    large = [(found, recorded) for found, recorded in pairs if recorded >= MIB]
    near = sum(abs(found / recorded - 1) <= NEAR for found, recorded in large)
    more = max(found / recorded for found, recorded in large) - 1
    less = 1 - min(found / recorded for found, recorded in large)
    return (
        f"within 0.5 % for {near} of {len(large)}; at most {100 * more:.1f} % too much, and {100 * less:.0f} % too "
        "little."
    )


def _range(sizes: Sequence[int]) -> str:
    low, high = min(sizes) // MIB, max(sizes) // MIB
    return f"{low}" if low == high else f"{low} to {high}"
