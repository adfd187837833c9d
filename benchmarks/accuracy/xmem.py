"""Predicts the recorded runs of the paper xMem, and prints how far off it is, beside the paper's own estimates.

    XMEM=FOLDER TORCH_2_6=PYTHON python benchmarks/accuracy/xmem.py [--again [PART-OF-A-NAME...]] [--rows]

FOLDER has runs.csv, the recorded runs, and run.py, which is one of them with synthetic data. PYTHON has gpuconf,
PyTorch 2.6.0 (CUDA 12.4), torchvision 0.21.0 and transformers 4.51.3. What is predicted is kept in
build/accuracy/xmem.

A prediction is what the plan says that PyTorch reserves on the card, and a constant of the card and the family: what a
process takes of the card beside it after its first sample, which is the median over the runs that ran.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.accuracy.run import environment  # noqa: E402

KEPT = ROOT / "build" / "accuracy" / "xmem"
MIB = 1 << 20
PEERS = ("xMem", "DNNMem", "SchedTune")
MANY = 15  # of a Transformer's batch: repeats of smaller ones differ by up to 16 %
ZERO_GRAD = {"CNN": "1", "Transformer": "2"}  # where the recorded loops call it, as run.py numbers the places

Row = dict[str, Any]


def main() -> None:
    """Predict what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", nargs="*", help="predict the rows with these words in their names again")
    parser.add_argument("--rows", action="store_true", help="print each row, too")
    asked = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    folder = Path(os.environ["XMEM"])
    with (folder / "runs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["name"] = f"{row['model'].split('/')[-1]}_{row['optimiser']}_{row['batch']}_{row['gpu'].replace(' ', '')}"
        kept = KEPT / f"{row['name']}.json"
        again = asked.again is not None and (not asked.again or any(word in row["name"] for word in asked.again))
        if again or not kept.exists():
            kept.write_text(json.dumps(planned(folder, row)))
            print(row["name"], file=sys.stderr, flush=True)
        row["plan"] = json.loads(kept.read_text())
        row["recorded"], row["ran"] = int(row["ground_bytes"]), row["real_oom"] == "False"
    predict(rows)
    if asked.rows:
        print_rows(rows)
    print_errors(rows)
    print_verdicts(rows)


def planned(folder: Path, row: Row) -> dict[str, Any]:
    """Return what `gpuconf plan` says of a run."""
    words = [os.environ["TORCH_2_6"], str(folder / "run.py"), row["model"], row["optimiser"], row["batch"]]
    options = ["--json", "--gpu", row["gpu"].replace(" ", ""), "--seconds", "300"]
    done = subprocess.run(
        [words[0], "-m", "gpuconf", "plan", *options, "--", *words, "--zero-grad", ZERO_GRAD[row["family"]]],
        capture_output=True,
        text=True,
        env=environment(),
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{row['name']}: {done.stderr[-500:]}") from None
    if answer["why_no_verdict"]:
        raise SystemExit(f"{row['name']}: {answer['why_no_verdict']}")
    return answer


def reserved(row: Row) -> int:
    """Return what the plan says that PyTorch reserves on the card."""
    defaults = [one for one in row["plan"]["cards"] if one["setting"] == "default"]
    return int(defaults[0]["reserved"] or row["plan"]["processes"][0]["reserved"])


def predict(rows: Iterable[Row]) -> None:
    """Add the predictions. Those of runs that ran out are not compared."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["gpu"], row["family"]), []).append(row)
    for key, group in groups.items():
        constant = statistics.median(row["recorded"] - reserved(row) for row in group if fitted(row))
        print(f"constant of {' and '.join(key)}s: {constant / MIB:.0f} MiB")
        for row in group:
            row["gpuconf"] = reserved(row) + constant


def fitted(row: Row) -> bool:
    """Whether a constant may be fitted to a run."""
    return row["ran"] and not row["model"].startswith("ConvNeXt") and (row["family"] == "CNN" or many(row))


def many(row: Row) -> bool:
    """Whether it is a Transformer whose repeats agree."""
    return row["family"] == "Transformer" and int(row["batch"]) >= MANY


def off(row: Row, who: str = "gpuconf") -> float:
    """Return the relative error in percent."""
    estimate = float(row["gpuconf" if who == "gpuconf" else f"{who}_bytes"])
    return 100 * (estimate / float(row["recorded"]) - 1)


def verdict(row: Row) -> str:
    """Return the plan's verdict with PyTorch's defaults."""
    return str(next(one["verdict"] for one in row["plan"]["cards"] if one["setting"] == "default"))


def print_rows(rows: Iterable[Row]) -> None:
    """Print each run, in MiB."""
    for row in rows:
        card = next(one for one in row["plan"]["cards"] if one["setting"] == "default")
        error = f"{off(row):+7.2f} %" if row["ran"] else "ran out  "
        ranges = "  ".join(f"{name} {value / MIB:7.0f}" for name, value in card.items() if isinstance(value, int))
        figures = f"{row['recorded'] / MIB:7.0f} {row['gpuconf'] / MIB:7.0f}"
        print(f"{row['name']:44} {figures} {error} {ranges} {verdict(row)}")


def print_errors(rows: Iterable[Row]) -> None:
    """Print the errors over the runs that ran: median, mean and worst."""
    ran = [row for row in rows if row["ran"]]
    groups: dict[str, Callable[[Row], bool]] = {
        "all": lambda _: True,
        "CNNs without ConvNeXt": lambda row: row["family"] == "CNN" and not row["model"].startswith("ConvNeXt"),
        "ConvNeXt": lambda row: row["model"].startswith("ConvNeXt"),
        f"Transformers, batch of {MANY} or more": many,
        "Transformers, smaller batches": lambda row: row["family"] == "Transformer" and not many(row),
    }
    print("| runs | gpuconf | " + " | ".join(PEERS) + " |")
    print("|---|---|" + "---|" * len(PEERS))
    for name, chosen in groups.items():
        cells = []
        for who in ("gpuconf", *PEERS):
            errors = [abs(off(row, who)) for row in ran if chosen(row)]
            cells.append(f"{statistics.median(errors):.2f} / {statistics.mean(errors):.2f} / {max(errors):.1f} %")
        print(f"| {name}, {len(errors)} | {' | '.join(cells)} |")


def print_verdicts(rows: Iterable[Row]) -> None:
    """Print how often each verdict was given, and for which runs it was wrong."""
    counts: dict[tuple[bool, str], int] = {}
    for row in rows:
        counts[row["ran"], verdict(row)] = counts.get((row["ran"], verdict(row)), 0) + 1
    for (ran, said), count in sorted(counts.items()):
        print(f"{'ran' if ran else 'ran out'}, {said}: {count}")
    wrong = [row["name"] for row in rows if verdict(row) == ("does not fit" if row["ran"] else "fits")]
    print(f"wrong: {', '.join(wrong) or 'none'}")


if __name__ == "__main__":
    main()
