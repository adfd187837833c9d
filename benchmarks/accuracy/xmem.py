"""Predicts the recorded runs of the paper xMem, and says how far off it is, beside the paper's own estimates.

    XMEM=FOLDER TORCH_2_6=PYTHON python benchmarks/accuracy/xmem.py [SET...] [--again [PART-OF-A-NAME...]] [--rows]
        [--keep first|last]

The sets are `given`, the 50 runs of FOLDER, and `development` and `unseen`, the 100 that xmem_draw.py draws. FOLDER has
runs.csv, recorded runs, and run.py, which is one of them with synthetic data. PYTHON has gpuconf,
PyTorch 2.6.0 (CUDA 12.4), torchvision 0.21.0 and transformers 4.51.3. What is predicted is kept in
build/accuracy/xmem, and with --keep in xmem.json, of which benchmarks/reports/accuracy.md has a section.

A prediction is what the plan says that PyTorch reserves on the card, and a constant of the card and the family: what a
process takes of the card beside it after its first sample, which is the median over the runs that ran.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.accuracy import planning  # noqa: E402
from tests_py.recordings import Recording  # noqa: E402

RESULTS = Recording("accuracy/xmem.json")
DRAWN = Recording("accuracy/xmem_drawn.csv")  # an unseen run has no figures until it is predicted
SETS = ("given", "development", "unseen")
MIB = 1 << 20
PEERS = ("xMem", "DNNMem", "SchedTune")
OURS = ("first", "last", "after")  # after: by the rule as it was limited when the unseen runs were known
MANY = 15  # of a Transformer's batch: repeats of smaller ones differ by up to 16 %
ZERO_GRAD = {"CNN": "1", "Transformer": "2"}  # where the recorded loops call it, as run.py numbers the places

Row = dict[str, Any]

WHERE = {"given": "50 given", "development": "50 drawn for development", "unseen": "50 drawn, unseen"}


def main() -> None:
    """Predict what is missing, and print the section."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help="given, development or unseen (all)")
    parser.add_argument("--again", nargs="*", help="predict the rows with these words in their names again")
    parser.add_argument("--rows", action="store_true", help="print each row, too")
    parser.add_argument("--keep", choices=OURS, help="keep these predictions as the first or the last")
    asked = parser.parse_args()
    folder = Path(os.environ["XMEM"])
    with (folder / "runs.csv").open(encoding="utf-8", newline="") as file:
        runs = [{"half": "given", **row} for row in csv.DictReader(file)] + list(
            csv.DictReader(DRAWN.read_text().splitlines())
        )
    rows = [predicted(folder, row, asked.again) for row in runs if row["half"] in (asked.sets or SETS)]
    if asked.keep:
        kept = {one["name"]: one for one in json.loads(RESULTS.read_text())}
        for row in rows:
            old = kept.get(row["name"], {})
            kept[row["name"]] = old | row | {asked.keep: row["last"]}
            kept[row["name"]]["last"] = row["last"] if asked.keep == "last" else old.get("last", row["last"])
        RESULTS.write_text(json.dumps(list(kept.values()), indent=1) + "\n")
    if asked.rows:
        print_rows(rows)
    print(text(rows))


def predicted(folder: Path, row: dict[str, str], again: Sequence[str] | None) -> Row:
    """Return what is kept of a run and its prediction."""
    name = f"{row['model'].split('/')[-1]}_{row['optimiser']}_{row['batch']}_{row['gpu'].replace(' ', '')}"
    words = [os.environ["TORCH_2_6"], str(folder / "run.py"), row["model"], row["optimiser"], row["batch"]]
    anew = again is not None and (not again or any(word in name for word in again))
    program = [*words, "--zero-grad", ZERO_GRAD[row["family"]]]
    found = planning.on_card(planning.answer(f"xmem/{name}", row["gpu"].replace(" ", ""), program, again=anew))
    return {
        "name": name,
        **{key: row[key] for key in ("half", "family", "model", "gpu")},
        "batch": int(row["batch"]),
        "recorded": int(row["ground_bytes"] or 0),
        "ran": row["real_oom"] == "False",
        **{who: float(row[f"{who}_bytes"] or 0) for who in PEERS},
        "last": {key: found[key] for key in ("reserved", "reserved_low", "reserved_high", "verdict")},
    }


def many(row: Row) -> bool:
    """Whether it is a Transformer whose repeats agree."""
    return bool(row["family"] == "Transformer" and row["batch"] >= MANY)


def convnext(row: Row) -> bool:
    """Whether it is a network whose first sample has the model."""
    return bool(row["model"].startswith("ConvNeXt"))


GROUPS: dict[str, Callable[[Row], bool]] = {
    "all": lambda _: True,
    "CNNs but ConvNeXt": lambda row: row["family"] == "CNN" and not convnext(row),
    f"Transformers, batch of {MANY} or more": many,
}


def constants(rows: Sequence[Row], when: str) -> dict[tuple[str, str], int]:
    """Return the median of what runs took beside the reserved memory, by card and family, of runs that were seen."""
    found: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        if row["ran"] and row["half"] != "unseen" and not convnext(row) and (row["family"] == "CNN" or many(row)):
            found.setdefault((row["gpu"], row["family"]), []).append(row["recorded"] - row[when]["reserved"])
    return {key: int(statistics.median(sizes)) for key, sizes in found.items()}


def errors(rows: Sequence[Row], who: str) -> dict[str, float]:
    """Return the relative errors in percent, by run. ``who`` is a peer, "first" or "last"."""
    beside = {} if who in PEERS else constants([row for row in rows if who in row], who)

    def estimate(row: Row) -> float:
        return float(row[who] if who in PEERS else row[who]["reserved"] + beside.get((row["gpu"], row["family"]), 0))

    return {row["name"]: 100 * (estimate(row) / row["recorded"] - 1) for row in rows if row["ran"] and who in row}


def text(rows: Sequence[Row] | None = None) -> str:
    """Return the table of the page, of the kept results without rows."""
    rows = [row for row in (json.loads(RESULTS.read_text()) if rows is None else rows) if row["recorded"]]
    columns = {"gpuconf, " + who: errors(rows, who) for who in OURS} | {who: errors(rows, who) for who in PEERS}
    lines = [f"| runs that ran | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    for half, where in WHERE.items():
        for name, chosen in GROUPS.items():
            some = [row["name"] for row in rows if row["ran"] and row["half"] == half and chosen(row)]
            cells = [_figures([abs(found[one]) for one in some if one in found], some) for found in columns.values()]
            lines += [f"| {where}: {name}, {len(some)} | {' | '.join(cells)} |"] * bool(some)
    verdicts = [
        f"{where}, {who}: {_verdicts(some, who)}"
        for half, where in WHERE.items()
        for who in OURS
        if (some := [row for row in rows if row["half"] == half and "verdict" in row.get(who, {})])
    ]
    beside = constants([row for row in rows if "after" in row], "after")
    said = [f"{size / MIB:+.0f} for {family}s on the {gpu}" for (gpu, family), size in beside.items()]
    return "\n".join([*lines, "", f"Verdicts. {'. '.join(verdicts)}. Constants, MiB: {', '.join(said)}."])


def _figures(sizes: Sequence[float], of: Sequence[str]) -> str:
    if not sizes:
        return "-"
    count = "" if len(sizes) == len(of) else f" ({len(sizes)})"
    return f"{statistics.median(sizes):.2f} / {statistics.mean(sizes):.2f} / {max(sizes):.1f} %{count}"


def _verdicts(rows: Sequence[Row], who: str) -> str:
    parts = []
    for ran, name in ((False, "ran out"), (True, "ran")):
        some = [row[who]["verdict"] for row in rows if row["ran"] is ran]
        counts = ", ".join(f"{some.count(one)} *{one}*" for one in sorted(set(some)))
        parts.append(f"of {len(some)} that {name} {counts}")
    return " and ".join(parts)


def print_rows(rows: Sequence[Row]) -> None:
    """Print each run, in MiB."""
    found = errors(rows, "last")
    for row in rows:
        error = f"{found[row['name']]:+7.2f} %" if row["ran"] else "ran out  "
        figures = "  ".join(f"{size / MIB:7.0f}" for size in row["last"].values() if isinstance(size, int))
        print(f"{row['name']:44} {row['recorded'] / MIB:7.0f} {error} {figures} {row['last']['verdict']}")


if __name__ == "__main__":
    main()
