"""The section of benchmarks/reports/accuracy.md on the programs that were drawn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.drawn import keep, predict, program
from benchmarks.report import table
from tests_py.recordings import Recording

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
MOST_ALLOCATED, MOST_RESERVED = 0.005, 0.02
CUTS = (-0.02, 0.0, 0.02)
MARGIN = 0.02  # gpuconf/plans/programs/needs.py
REASONS = json.loads((HERE / "reasons.json").read_text())

TEXT = """## Programs that were drawn

Others published the runs above. The {rows} programs below were drawn by a rule
(benchmarks/accuracy/drawn/draw.py), 62 of them first and 60 later, and recorded on 2026-11-26 and 2026-11-27 on {cards}
with driver 580.159.04, PyTorch {torch}, torchvision {torchvision}, timm {timm_recorded}, transformers {transformers}
and torch-geometric {torch_geometric}. The rows with their settings, the program and the recorder were committed before
the first recording and the first prediction of each draw; five lengths and a format of memory of the first draw were
corrected before these rows were recorded. The rule:

{rules}

{recorded}

**First predictions**, before the recordings of a draw led to any change:

- first draw: {first}
- second draw: {second}

The first draw had 20 unseen rows of its own. After the changes that its other rows gave rise to, 13 of these 20 were
within 0.5 % in allocated memory, and 14 within 2 % in reserved memory. They were then used, too.

**After the changes**, for all rows that were used for them: {after}

**Unseen rows** of the second draw, which were not used and were predicted after the last change: {unseen}

The changes after the first draw: the simulated PyTorch adds gradients in place where they meet; cuDNN's workspaces for
convolutions that copy tensors to channels last, for recurrent networks and attention follow rules that were read from a
recording of shapes (workspaces.jsonl, by workspaces.py); softmax of float16 under autocast runs; the range of a CUDA
context contains what was measured. After the second draw: memory lies where the driver of an H200 put it
(addresses.jsonl, by addresses.py); gradients of filters, and what `torch.backends.cudnn.benchmark` tries, follow trees
that were fitted to 12,941 convolutions (convolutions.jsonl, by convolutions.py and fit.py), whose shapes are those of
torchvision's and of 300 of timm's models, changed at random in a quarter of them;
`torch.backends.cudnn.allow_tf32 = False` chooses other workspaces. After that, the other convolutions in TensorFloat-32
with channels first, and the forward ones in plain float with channels last, follow such trees, too. The rows with these
types were predicted again, and eight others, which did not change. The unseen rows were known by then; how many of them
are within the limits did not change.

The recorded figures themselves vary little: 17 rows of the first draw were recorded a second time, on another H200.
Thirteen gave the same allocated and reserved peak, and the other four differ by at most 0.2 % in allocated and 0.9 % in
reserved memory.

Sizes are in MiB. *First* is the error of the first prediction. cuDNN chooses its kernels, and so the sizes of its
workspaces, by itself: nearly all large errors are those of programs with convolutions, or of programs whose sizes
depend on values.

{runs}

{reasons}

What the plan says of each row, as in the table above:

{cuts}

{below}

**Beside the allocator**, NVML counted for the recorded processes {beside}. With one tensor it was {bare} MiB, and after
a library's first calls this much more:

{contexts}
"""


def text() -> str:
    """Return the section."""
    asked = json.loads(Recording("accuracy/drawn/rows.json").read_text())
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
    beside = sorted(row["recorded"]["beside"] // MIB for row in ran if row["recorded"]["beside"])
    bare = min(one["bare"] for one in kept["contexts"])
    contexts = [
        {"library": one["context"], "MiB": f"{(one['after'] - one['bare']) / MIB:.0f}"} for one in kept["contexts"]
    ]
    versions = asked["versions"]
    return TEXT.format(
        rows=len(rows),
        cards=" and ".join(sorted({f"an {one['gpu']}" for one in kept["versions"]})),
        torch=versions["torch"].partition("+")[0],
        torchvision=versions["torchvision"].partition("+")[0],
        timm_recorded=" and ".join(sorted({one["timm"] for one in kept["versions"]})),
        transformers=versions["transformers"],
        torch_geometric=versions["torch_geometric"],
        rules="\n".join(f"- {rule}" for rule in asked["rule"]),
        recorded=_recorded(rows, ran),
        first=_rate([row | {"found": row["first"]} for row in ran if row["first"] and "draw" not in row]),
        second=_rate([row | {"found": row["first"]} for row in ran if row["first"] and "draw" in row]),
        after=_rate([row for row in compared if not _is_unseen(row)]),
        unseen=_rate([row for row in compared if _is_unseen(row)]),
        runs=table([_row(row) for row in compared if "allocated" in row["found"]]),
        reasons="\n".join(_reasons(rows)),
        cuts=table(_cuts([row for row in compared if "allocated" in row["found"]])),
        below=_below([row for row in compared if "allocated" in row["found"]]),
        beside=f"{beside[0]} to {beside[-1]} MiB",
        bare=bare // MIB,
        contexts=table([one for one in contexts if one["library"] != "nothing"]),
    )


def _recorded(rows: Sequence[dict[str, Any]], ran: Sequence[dict[str, Any]]) -> str:
    failed = [row for row in rows if "error" in row["recorded"]]
    named = "; ".join(f"{row['model']}: {row['recorded']['error']}" for row in failed)
    return f"{len(ran)} of the {len(rows)} ran on the card." + (f" The others did not: {named}." if named else "")


def _is_unseen(row: dict[str, Any]) -> bool:
    return bool(row["unseen"] and "draw" in row)


def _off(found: float, recorded: float) -> float:
    return found / recorded - 1


def _percent(found: float, recorded: float) -> str:
    return f"{100 * _off(found, recorded):+.2f} %".replace("-0.00", "0.00").replace("+0.00", "0.00")


def _is_near(row: dict[str, Any], what: str, most: float) -> bool:
    return what in row["found"] and abs(_off(row["found"][what], row["recorded"][what])) <= most


def _rate(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "none yet."
    count = len(rows)
    allocated = sum(_is_near(row, "allocated", MOST_ALLOCATED) for row in rows)
    exact = sum(
        "allocated" in row["found"] and row["found"]["allocated"] == row["recorded"]["allocated"] for row in rows
    )
    reserved = sum(_is_near(row, "reserved", MOST_RESERVED) for row in rows)
    return (
        f"allocated within 0.5 %: {allocated} of {count} ({100 * allocated / count:.0f} %), of which {exact} to the "
        "byte; "
        f"reserved within 2 %: {reserved} of {count} ({100 * reserved / count:.0f} %)."
    )


def _row(row: dict[str, Any]) -> dict[str, str]:
    found, recorded, first = row["found"], row["recorded"], row["first"]
    settings = [row["precision"], row["optimizer"] if row["training"] else "inference", f"{row['batch']}"]
    settings += [name for name in ("checkpointing", "channels_last", "cudnn_benchmark") if row[name]] + [
        row["allocator"]
    ] * bool(row["allocator"])
    return {
        "row": f"{row['row']}" + (", unseen" if _is_unseen(row) else ""),
        "model": row["model"],
        "precision, optimizer, batch": ", ".join(settings),
        "allocated: predicted": f"{found['allocated'] / MIB:,.2f}",
        "recorded": f"{recorded['allocated'] / MIB:,.2f}",
        "off": _percent(found["allocated"], recorded["allocated"]),
        "first": _percent(first["allocated"], recorded["allocated"]) if first and "allocated" in first else "",
        "reserved: predicted": f"{found['reserved'] / MIB:,.0f}",
        "recorded ": f"{recorded['reserved'] / MIB:,.0f}",
        "off ": _percent(found["reserved"], recorded["reserved"]),
    }


def _reasons(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for row in rows:
        found = row["found"]
        if not found or "allocated" not in row["recorded"]:
            continue
        reason = REASONS.get(str(row["row"]), "the workspaces of cuDNN" if found.get("convolutions") else "not known")
        if "allocated" not in found:
            lines.append(f"- **{row['model']}** was not predicted: {REASONS.get(str(row['row']), found['error'])}.")
        elif not _is_near(row, "allocated", MOST_ALLOCATED):
            lines.append(
                f"- **{row['model']}**, {_percent(found['allocated'], row['recorded']['allocated'])}: {reason}."
            )
        elif not _is_near(row, "reserved", MOST_RESERVED):
            off = _percent(found["reserved"], row["recorded"]["reserved"])
            lines.append(f"- **{row['model']}**, reserved {off}: {reason}.")
    return lines


def _says(row: dict[str, Any], card: float) -> str:
    found = row["found"]
    setting = "expandable_segments" if row["allocator"].startswith("expandable") else "default"
    least, most = found["least"][setting], found["most"][setting] * (1 + MARGIN)
    if most <= card:
        return "depends" if any(note.startswith("depends on values") for note in found["notes"]) else "fits"
    return "does not fit" if least > card else "depends"


def _below(rows: Sequence[dict[str, Any]]) -> str:
    """Name the rows of which a plan says that they fit on a card that is smaller than their allocated peak."""
    cards = [(row, (1 + CUTS[0]) * row["recorded"]["allocated"]) for row in rows]
    fit = [(row, card) for row, card in cards if _says(row, card) == "fits"]
    tried = [row["model"] for row, card in fit if row["cudnn_benchmark"] and row["found"]["allocated"] > card]
    wrong = [row["model"] for row, _ in fit if row["model"] not in tried]
    lines = [
        f"Those that fit below their allocated peak are {', '.join(tried)}: torch.backends.cudnn.benchmark is on,",
        "and the peak, the predicted one, too, is that of a workspace that PyTorch only tries. "
        "On a smaller card it leaves such workspaces out.",
    ]
    return "\n".join(lines * bool(tried) + [f"*Fits* is wrong for {', '.join(wrong)}."] * bool(wrong))


def _cuts(rows: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    lines = []
    for what in ("allocated", "reserved"):
        for cut in CUTS:
            said = [_says(row, (1 + cut) * row["recorded"][what]) for row in rows]
            counts = {word: str(said.count(word)) for word in ("fits", "depends", "does not fit")}
            lines.append(
                {
                    "the card": f"the {what} peak {100 * cut:+.0f} %".replace("+0 %", "").strip(),
                    "runs": str(len(rows)),
                    **counts,
                }
            )
    return lines
