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
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests_py.recordings import Recording  # noqa: E402

KEPT = ROOT / "build" / "accuracy" / "xmem"
RESULTS = Recording("accuracy/xmem.json")
DRAWN = Recording("accuracy/xmem_drawn.csv")  # an unseen run has no figures until it is predicted
SETS = ("given", "development", "unseen")
MIB = 1 << 20
PEERS = ("xMem", "DNNMem", "SchedTune")
MANY = 15  # of a Transformer's batch: repeats of smaller ones differ by up to 16 %
ZERO_GRAD = {"CNN": "1", "Transformer": "2"}  # where the recorded loops call it, as run.py numbers the places

Row = dict[str, Any]

TEXT = """## The runs of xMem

50 recorded runs of the public artifact of the paper xMem (arXiv 2510.21048; Stone-ResearchLife/xMem), of PyTorch 2.6 on
an RTX 3060 and an RTX 4060 (benchmarks/accuracy/xmem.py): the most that NVML counted on the card, less its first
sample. A prediction is what `gpuconf plan` says that PyTorch reserves on the card, and one fitted constant for each
card and family:
{constants}.
xMem and DNNMem have the framework's own memory measured on the card in the same run. All 50 were used for the changes:
what the rule for workspaces copies was chosen by them, among 36 variants and others before. No run is unseen.
Relative error of the {ran} runs that ran, median / mean / worst:

{errors}

Verdicts: {verdicts}.
The *first* prediction took cuDNN's workspaces from trees that were fitted to an H200, reserved memory without the
card's limit, and a doubt of four times the largest tensor for workspaces.

The fact that is missing for CNNs: which workspaces cuDNN 9.1 requests on cards of compute capability 8.6 and 8.9, above
all for gradients of filters of one element. `make gpu-workspaces` records them in a quarter of an hour on such a card.

Those that are more than {far} % off:

{misses}
"""
FAR = 2.5
MISSES = {
    "VGG16_Adagrad_551_RTX3060": "it fills the card, where what is left depends on each workspace before. The range is "
    "{low:,} to {high:,} MiB. The model, 528 MiB, may be in the first sample, as it is for ConvNeXt",
    "VGG19_Adam_339_RTX3060": "the model, 548 MiB, may be in the first sample, as it is for ConvNeXt",
    "MnasNet_AdamW_717_RTX3060": "not explained: the record is below the range of {low:,} to {high:,} MiB",
    "ConvNeXtBase_AdamW_300_RTX3060": "the model, 338 MiB, is in the first sample",
    "ConvNeXtTiny_Adam_200_RTX3060": "the model, 109 MiB, is in the first sample",
}
BY_MODEL = {
    "MnasNet": "workspaces of gradients of filters of one element, which the rule takes to be none, and the range for "
    "up to one sum for each image: {low:,} to {high:,} MiB",
    "RegNetX400MF": "as MnasNet: {low:,} to {high:,} MiB",
}
SMALL = "a small batch: repeats of such runs differ by up to 16 %"


def main() -> None:
    """Predict what is missing, and print the section."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help="given, development or unseen (all)")
    parser.add_argument("--again", nargs="*", help="predict the rows with these words in their names again")
    parser.add_argument("--rows", action="store_true", help="print each row, too")
    parser.add_argument("--keep", choices=("first", "last"), help="keep these predictions as the first or the last")
    asked = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
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
    file = KEPT / f"{name}.json"
    if not file.exists() or (again is not None and (not again or any(word in name for word in again))):
        file.write_text(json.dumps(planned(folder, name, row)))
        print(name, file=sys.stderr, flush=True)
    answer = json.loads(file.read_text())
    card = next(one for one in answer["cards"] if one["setting"] == "default")
    unlimited = answer["processes"][0]["reserved"]
    figures = {key: card.get(key) or unlimited for key in ("reserved", "reserved_low", "reserved_high")}
    return {
        "name": name,
        **{key: row[key] for key in ("half", "family", "model", "gpu")},
        "batch": int(row["batch"]),
        "recorded": int(row["ground_bytes"] or 0),
        "ran": row["real_oom"] == "False",
        **{who: float(row[f"{who}_bytes"] or 0) for who in PEERS},
        "last": {**figures, "verdict": card["verdict"]},
    }


def planned(folder: Path, name: str, row: dict[str, str]) -> dict[str, Any]:
    """Return what `gpuconf plan` says of a run."""
    words = [os.environ["TORCH_2_6"], str(folder / "run.py"), row["model"], row["optimiser"], row["batch"]]
    options = ["--json", "--gpu", row["gpu"].replace(" ", ""), "--seconds", "300"]
    dropped = ("GPUCONF_", "CUDA_", "PYTORCH_", "LD_")
    done = subprocess.run(
        [words[0], "-m", "gpuconf", "plan", *options, "--", *words, "--zero-grad", ZERO_GRAD[row["family"]]],
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith(dropped)},
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{name}: {done.stderr[-500:]}") from None
    if answer["why_no_verdict"]:
        raise SystemExit(f"{name}: {answer['why_no_verdict']}")
    return answer


def many(row: Row) -> bool:
    """Whether it is a Transformer whose repeats agree."""
    return bool(row["family"] == "Transformer" and row["batch"] >= MANY)


def convnext(row: Row) -> bool:
    """Whether it is a network whose first sample has the model."""
    return bool(row["model"].startswith("ConvNeXt"))


GROUPS: dict[str, Callable[[Row], bool]] = {
    "all": lambda _: True,
    "CNNs without ConvNeXt": lambda row: row["family"] == "CNN" and not convnext(row),
    "ConvNeXt": convnext,
    f"Transformers, batch of {MANY} or more": many,
    "Transformers, smaller batches": lambda row: row["family"] == "Transformer" and not many(row),
}


def constants(rows: Sequence[Row], when: str) -> dict[tuple[str, str], int]:
    """Return the median of what runs took beside the reserved memory, by card and family."""
    found: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        if row["ran"] and not convnext(row) and (row["family"] == "CNN" or many(row)):
            found.setdefault((row["gpu"], row["family"]), []).append(row["recorded"] - row[when]["reserved"])
    return {key: int(statistics.median(sizes)) for key, sizes in found.items()}


def errors(rows: Sequence[Row], who: str) -> dict[str, float]:
    """Return the relative errors in percent, by run. ``who`` is a peer, "first" or "last"."""
    beside = {} if who in PEERS else constants(rows, who)

    def estimate(row: Row) -> float:
        return float(row[who] if who in PEERS else row[who]["reserved"] + beside[row["gpu"], row["family"]])

    return {row["name"]: 100 * (estimate(row) / row["recorded"] - 1) for row in rows if row["ran"]}


def text(rows: Sequence[Row] | None = None) -> str:
    """Return the section of the page, of the kept results without rows."""
    rows = json.loads(RESULTS.read_text()) if rows is None else rows
    whose = [who for who in ("first", "last") if who in rows[0]]
    columns = {"gpuconf, " + who: errors(rows, who) for who in whose} | {who: errors(rows, who) for who in PEERS}
    lines = [f"| runs | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    for name, chosen in GROUPS.items():
        some = [row["name"] for row in rows if row["ran"] and chosen(row)]
        cells = [_figures([abs(found[one]) for one in some]) for found in columns.values()]
        lines.append(f"| {name}, {len(some)} | {' | '.join(cells)} |")
    found = errors(rows, "last")
    far = sorted(
        (row for row in rows if abs(found.get(row["name"], 0)) > FAR), key=lambda row: -abs(found[row["name"]])
    )
    said = [
        f"{size / MIB:+.0f} MiB for {family}s on the {gpu}" for (gpu, family), size in constants(rows, "last").items()
    ]
    return TEXT.format(
        constants=", ".join(said),
        ran=len(found),
        errors="\n".join(lines),
        verdicts="; ".join(f"{who}, {_verdicts(rows, who)}" for who in whose),
        far=FAR,
        misses="\n".join(f"- {row['name']}, {found[row['name']]:+.1f} %: {_reason(row)}." for row in far),
    )


def _figures(sizes: Sequence[float]) -> str:
    return f"{statistics.median(sizes):.2f} / {statistics.mean(sizes):.2f} / {max(sizes):.1f} %"


def _verdicts(rows: Sequence[Row], who: str) -> str:
    parts = []
    for ran, name in ((False, "that ran out"), (True, "that ran")):
        some = [row[who]["verdict"] for row in rows if row["ran"] is ran]
        counts = ", ".join(f"{some.count(one)} *{one}*" for one in sorted(set(some)))
        parts.append(f"of {len(some)} {name} {counts}")
    return " and ".join(parts)


def _reason(row: Row) -> str:
    if row["family"] == "Transformer" and not many(row):
        return SMALL
    reason = MISSES.get(row["name"]) or BY_MODEL.get(row["model"], "not known")
    low, high = (round(row["last"][key] / MIB) for key in ("reserved_low", "reserved_high"))
    return reason.format(low=low, high=high)


def print_rows(rows: Sequence[Row]) -> None:
    """Print each run, in MiB."""
    found = errors(rows, "last")
    for row in rows:
        error = f"{found[row['name']]:+7.2f} %" if row["ran"] else "ran out  "
        figures = "  ".join(f"{size / MIB:7.0f}" for size in row["last"].values() if isinstance(size, int))
        print(f"{row['name']:44} {row['recorded'] / MIB:7.0f} {error} {figures} {row['last']['verdict']}")


if __name__ == "__main__":
    main()
