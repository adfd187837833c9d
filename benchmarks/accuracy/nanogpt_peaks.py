"""Predicts the peaks that modded-nanogpt's programs print at their end, on the first of eight H100s.

    NANOGPT=FOLDER TORCH_2_7=PYTHON TORCH_2_8=PYTHON python benchmarks/accuracy/nanogpt_peaks.py [--again] [--keep]

FOLDER is a checkout of KellerJordan/modded-nanogpt, whose `records` have a log of each run: the program's whole source,
PyTorch's version and both peaks. Each PYTHON has gpuconf and that release of PyTorch. nanogpt_program.py says how a
program is run here. What is predicted is kept in build/accuracy/nanogpt, and with --keep in nanogpt.json.

The rule, which was committed before the first prediction: the folders of logs of a released PyTorch, eight ranks, in
which no kernel is downloaded, and as many of the others as make ten, drawn by a seed. Of each folder the first log is
predicted; the record is the median of its logs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.accuracy import planning  # noqa: E402
from tests_py.recordings import Recording  # noqa: E402

RESULTS = Recording("accuracy/nanogpt.json")
PEAKS = re.compile(r"peak memory allocated: (\d+) MiB reserved: (\d+) MiB")
RELEASED = re.compile(r"Running PyTorch (2\.\d+)\.\d+\+cu\d+ ")
TEN, NEAR = 10, 0.02


def drawn() -> list[dict[str, Any]]:
    """Return the programs of the rule, each with its record."""
    folders: dict[str, list[tuple[str, str]]] = {}
    records = Path(os.environ["NANOGPT"]) / "records"
    for file in sorted(records.glob("track_[12]*/**/*.txt")):
        text = file.read_text(encoding="utf-8", errors="replace")
        if RELEASED.search(text) and PEAKS.search(text) and "|   7  NVIDIA H100" in text:
            folders.setdefault(str(file.parent.relative_to(records)), []).append((file.name, text))
    programs = []
    for folder, logs in sorted(folders.items()):
        peaks = [[int(peak) for peak in PEAKS.findall(text)[-1]] for _, text in logs]
        found = RELEASED.search(logs[0][1])
        programs.append(
            {"log": f"{folder}/{logs[0][0]}", "logs": len(logs), "torch": found and found[1]}
            | {"allocated": statistics.median(one[0] for one in peaks)}
            | {"reserved": statistics.median(one[1] for one in peaks), "downloads": "get_kernel(" in logs[0][1]}
        )
    alone = [one for one in programs if not one["downloads"]]
    others = [one for one in programs if one["downloads"]]
    return alone + random.Random("54 nanogpt").sample(others, TEN - len(alone))


def planned(program: dict[str, Any], again: bool) -> dict[str, Any]:
    """Return both peaks that a program prints in a rehearsal, in MiB, or why it prints none."""
    name = f"TORCH_{program['torch'].replace('.', '_')}"
    if program["downloads"]:
        return {"why": "a kernel is downloaded"}
    log = Path(os.environ["NANOGPT"]) / "records" / program["log"]
    words = [os.environ[name], str(Path(__file__).with_name("nanogpt_program.py")), str(log.resolve())]
    found = planning.answer(f"nanogpt/{log.stem}", "H100-80GB", words, "--compile", again=again)
    peaks = PEAKS.search(found["printed"])
    if peaks is None:
        return {"why": found["why_no_verdict"] or found["printed"][-200:]}
    return {"allocated": int(peaks[1]), "reserved": int(peaks[2])}


def main() -> None:
    """Predict what is missing, and print each program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true", help="predict all anew")
    parser.add_argument("--keep", action="store_true", help="keep these predictions for the page")
    asked = parser.parse_args()
    found = [program | {"predicted": planned(program, asked.again)} for program in drawn()]
    for one in found:
        print(one)
    if asked.keep:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")


def text() -> str:
    """Return the table of the page, of the kept results."""
    if not RESULTS.path.exists():
        return (
            "None of the other three has been predicted: after 500 s on two busy cores, PyTorch's compiler had not\n"
            "ended the first step of one, which has sixteen layers with FlexAttention."
        )
    kept = json.loads(RESULTS.read_text())
    lines = ["", "| program | MiB allocated | off | MiB reserved | off |", "|---|---|---|---|---|"]
    for one in [one for one in kept if "allocated" in one["predicted"]]:
        cells = []
        for peak in ("allocated", "reserved"):
            cells += [f"{one[peak]:,.0f}", f"{100 * (one['predicted'][peak] / one[peak] - 1):+.2f} %"]
        lines.append(f"| {Path(one['log']).parent.name}, PyTorch {one['torch']} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
