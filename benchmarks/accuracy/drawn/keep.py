"""Adds to recorded.json what record.py has written, without the traces, and to first.json the first predictions of a
draw.

    python benchmarks/accuracy/drawn/keep.py FILE.jsonl...
    python benchmarks/accuracy/drawn/keep.py --first FOLDER

The folder has the answers of predict.py before the first change that the recording gave rise to.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent.parent))

from benchmarks.accuracy.drawn import program  # noqa: E402
from tests_py.recordings import Recording  # noqa: E402

PEAKS = ("allocated", "reserved")


def main() -> None:
    """Write one of the files."""
    if sys.argv[1] == "--first":
        answers = {one["row"]: Path(sys.argv[2]) / f"{one['row']}.json" for one in program.rows()}
        kept = {number: shortened(json.loads(path.read_text())) for number, path in answers.items() if path.exists()}
        earlier = json.loads(Recording("accuracy/drawn/first.json").read_text())["rows"]
        there = {one["row"] for one in earlier}
        write(
            "accuracy/drawn/first.json",
            {"rows": earlier + [{"row": number, **one} for number, one in kept.items() if number not in there]},
        )
        return
    earlier = json.loads(Recording("accuracy/drawn/recorded.json").read_text())
    rows: dict[int, dict[str, Any]] = {}
    contexts, versions = earlier["contexts"], earlier["versions"]
    for path in sys.argv[1:]:
        for line in Path(path).read_text().splitlines():
            found = json.loads(line)
            if found.get("versions") and found["versions"] not in versions:
                versions.append(found["versions"])
            if "context" in found:
                known = found["context"] in {one["context"] for one in contexts}
                contexts += [context(found)] if "marks" in found and not known else []
            elif found.get("steps") or "allocated" not in rows.get(found["row"], {}):
                rows[found["row"]] = row(found)
    rows |= {one["row"]: one for one in earlier["rows"]}
    write(
        "accuracy/drawn/recorded.json",
        {"versions": versions, "contexts": contexts, "rows": [rows[number] for number in sorted(rows)]},
    )


def write(name: str, found: dict[str, Any]) -> None:
    """Write a file with a line for each row."""
    lists = [
        f'"{key}": [\n' + ",\n".join("  " + json.dumps(one) for one in value) + "\n]" for key, value in found.items()
    ]
    Recording(name).write_text("{" + ",\n".join(lists) + "}\n")


def row(found: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a row: bytes of PyTorch's counters, and of NVML beside them."""
    kept = {"row": found["row"]}
    if not found.get("steps"):
        return kept | {"error": found["error"].splitlines()[0][:200]}
    last, stats = found["steps"][-1], found["stats"]
    beside = last["used"]["process"] - last["reserved"] if "process" in last.get("used", {}) else None
    seconds = last["seconds"] - found["steps"][-2]["seconds"]
    kept |= {"allocated": stats["allocated_bytes.all.peak"], "reserved": stats["reserved_bytes.all.peak"]}
    kept |= {"requested": stats["requested_bytes.all.peak"], "segments": stats["segment.all.peak"], "beside": beside}
    return kept | {
        "retries": stats["num_alloc_retries"],
        "step": round(seconds, 4),
        "gpu": found.get("versions", {}).get("gpu"),
    }


def context(found: dict[str, Any]) -> dict[str, Any]:
    """Return what NVML counted beside PyTorch's allocator, before and after a library's first calls."""
    sizes = [one["used"]["process"] - one["reserved"] for one in found["marks"] if "process" in one["used"]]
    return {"context": found["context"], "bare": sizes[0], "after": sizes[-1]}


def shortened(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a prediction."""
    if not answer.get("processes") or answer["ran"]["status"]:
        return {"error": (answer.get("why_no_verdict") or answer.get("failed", ""))[-200:]}
    most = max(answer["processes"], key=lambda one: one["allocated"])
    kept = {name: most[name] for name in (*PEAKS, "least", "most")}
    kept["convolutions"] = any(one["what"] == "workspaces of cuDNN" for one in answer["beside"])
    return kept | {"notes": answer["notes"], "seconds": answer["seconds"]}


if __name__ == "__main__":
    main()
