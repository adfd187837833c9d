"""Draws the programs of rows.json. It was run once, before the first prediction and before the recording.

    python benchmarks/accuracy/drawn_jax/draw.py

Needs jax (on the CPU), flax, equinox, optax and diffrax. The rule is RULE; the seed makes the same draws with the same
versions, which rows.json names.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent.parent))

from tests_py.recordings import Recording  # noqa: E402

SEED = 20261127
COUNT = 40
LEAST, MOST = 200 << 20, 20 << 30  # bytes
WORK = 2e13  # floating-point operations of a step
SECONDS = 60  # for the check of a row
AT_ONCE = 2
RULE = [
    "The family, the library and the settings are drawn as in draw.py, each by itself. What a row cannot use is then "
    "set to none.",
    "A draw is kept if XLA compiles its step for the CPU within 60 s, which then needs 200 MiB to 20 GiB (arguments, "
    "outputs that "
    "are not donated arguments, and temporaries) and at most 2e13 floating-point operations; otherwise the next is "
    "drawn. A family "
    "that is there five times is not drawn again. Nothing was dropped for another reason.",
    "A third of the rows, drawn by the same seed, is unseen: it is predicted after the last change that the others "
    "gave rise to.",
]


def main() -> None:
    """Write rows.json, or print what a row needs on the CPU."""
    if len(sys.argv) > 1:
        print(json.dumps(needs(json.loads(sys.argv[1]))))
        return
    made = random.Random(SEED)
    rows: list[dict[str, Any]] = []
    dropped: list[str] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while len(rows) < COUNT:
            full = {one["family"] for one in rows if sum(one["family"] == other["family"] for other in rows) >= 5}
            draws = (row for row in iter(lambda: drawn(made), None) if row["family"] not in full)
            for row, found in pool.map(checked, [next(draws) for _ in range(AT_ONCE)]):
                why = unusable(found)
                print(len(rows), row["family"], row["library"], why or found, flush=True)
                if why:
                    dropped.append(f"{row['library']} {row['family']}: {why}")
                elif len(rows) < COUNT:
                    rows.append(row | {"cpu_bytes": found["bytes"]})
    unseen = set(made.sample(range(len(rows)), len(rows) // 3))
    rows = [{"row": number} | row | {"unseen": number in unseen} for number, row in enumerate(rows)]
    versions = {name: version(name) for name in ("jax", "flax", "equinox", "optax", "diffrax")}
    head = json.dumps({"rule": RULE, "versions": versions, "dropped": dropped}, indent=2)[:-2]
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    Recording("accuracy/drawn_jax/rows.json").write_text(f'{head},\n  "rows": [\n{lines}\n  ]\n}}\n')


def drawn(made: random.Random) -> dict[str, Any]:
    """Draw a row."""
    from benchmarks.accuracy.drawn_jax import models, program

    row: dict[str, Any] = {
        "library": made.choice(list(models.LIBRARIES)),
        "family": made.choice(list(models.FAMILIES)),
        "training": made.random() < 0.8,
        "batch": made.choice((8, 16, 32, 64, 128, 512)),
        "width": made.choice((256, 512, 768, 1024, 2048)),
        "depth": made.choice((2, 4, 6, 8, 12)),
        "length": made.choice((128, 256, 512, 1024)),
        "size": made.choice((32, 64, 128, 224)),
        "vocabulary": made.choice((8_192, 32_000, 50_257)),
        "cell": made.choice(("LSTM", "GRU", "plain")),
        "option": made.random() < 0.5,  # bottlenecks, or checkpoints of the solver
        "precision": made.choice(("float32", "bfloat16", "mixed")),
        "optimizer": made.choice(list(program.OPTIMIZERS)),
        "checkpoint": made.choice(("", "", "blocks", "blocks, but for products", "loss")),
        "scan": made.random() < 0.5,
        "donate": made.random() < 0.6,
        "accumulation": made.choice(("", "", "", "scan", "loop", "MultiSteps")),
        "vmap": made.choice(("", "", "", "", "", "models", "items")),
        "step": made.choice(("one function", "one function", "one function", "two functions", "gradient compiled")),
        "jitted_init": made.random() < 0.6,
        "inputs": made.choice(("host", "gpu", "once")),
    }
    if not row["training"]:
        row |= {"checkpoint": "", "accumulation": "", "step": "one function", "donate": False}
        row["vmap"] = row["vmap"] if row["vmap"] == "models" else ""
    if row["family"] == "recurrent" and row["library"] == "jax.numpy" and row["cell"] == "GRU":
        row["cell"] = "plain"  # which is what models.py has
    return row


def checked(row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a row, and what it needs or an error."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    words = [sys.executable, __file__, json.dumps(row)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, env=environment)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
    except subprocess.TimeoutExpired:
        return row, {"error": f"not within {SECONDS} s"}
    lines = done.stderr.strip().splitlines()
    return row, found or {"error": lines[-1][:160] if lines else f"exit code {done.returncode}"}


def needs(row: dict[str, Any]) -> dict[str, Any]:
    """Compile the functions of a row's step for the CPU, and return the bytes and the operations of the largest."""
    from benchmarks.accuracy.drawn_jax import program

    sizes, work = [], 0.0
    for function, arguments in program.Program(row).compiled():
        lowered = function.lower(*arguments)
        work += lowered.cost_analysis().get("flops", 0)
        if work > WORK:
            return {"bytes": LEAST, "work": work}  # without the compilation
        size = lowered.compile().memory_analysis()
        sizes.append(
            size.argument_size_in_bytes + size.output_size_in_bytes - size.alias_size_in_bytes + size.temp_size_in_bytes
        )
    return {"bytes": max(sizes), "work": work}


def unusable(found: dict[str, Any]) -> str:
    """Return why a row cannot be used, or an empty string."""
    if "error" in found:
        return str(found["error"])
    if not LEAST <= found["bytes"] <= MOST:
        return f"{found['bytes'] >> 20:,} MiB"
    return f"{found['work']:.1e} operations" if found["work"] > WORK else ""


if __name__ == "__main__":
    main()
