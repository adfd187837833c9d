"""``gpuconf plan`` of public training programs beside the programs run to their end: ``rule.md`` says which and how.

python benchmarks/programs/run.py FOLDER [NAME...] [--json FILE] [--below]

FOLDER has the checkouts. This interpreter has gpuconf, a PyTorch that is built for CUDA and what ``requirements.txt``
names.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CARDS = ["T4", "A100-40GB"]  # the first that holds it
LONGEST = 600  # seconds
PEAK = """
import atexit, runpy, sys, torch
def say():
    at = torch.cuda.is_initialized()
    figures = (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()) if at else (0, 0)
    print("PEAK", *figures, file=sys.stderr, flush=True)
atexit.register(say)
sys.path[0] = ""
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def pictures(folder: Path, count: int, size: int = 256) -> None:
    """Write JPEG files."""
    import numpy
    from PIL import Image

    folder.mkdir(parents=True)
    for number in range(count):
        picture = numpy.random.default_rng(number).integers(0, 255, (size, size, 3), dtype=numpy.uint8)
        Image.fromarray(picture).save(folder / f"{number}.jpg")


def text(path: Path, size: int) -> None:
    """Write text of random words, and of all letters, for a program that continues a sentence of its own."""
    import random
    import string

    words = [f"w{number}" for number in range(500)]
    path.parent.mkdir(parents=True, exist_ok=True)
    source = random.Random(0)
    lines = (" ".join(source.choices(words, k=12)) for _ in range(size // 50))
    path.write_text("\n".join([string.printable[:95], *lines]) + "\n", encoding="utf-8")


def prepare(one: dict[str, Any], checkouts: Path, folder: Path) -> Path:
    """Copy the program with its data into a folder, and return the folder in which it runs."""
    project = checkouts / one["project"].rpartition("/")[2]
    target = folder / "project"
    shutil.copytree(project, target, ignore=shutil.ignore_patterns(".git", "*.ipynb", "docs", "runs", "tests"))
    for path, (kind, *arguments) in one.get("data", {}).items():
        {"pictures": pictures, "text": text}[kind](target / path, *arguments)
    for command in one.get("before", []):
        environment = {**os.environ, "PYTHONPATH": str(HERE / "data")}
        options: dict[str, Any] = {"cwd": target / one["cwd"], "env": environment}
        subprocess.run([sys.executable, *command], check=True, capture_output=True, **options)
    return target / one["cwd"]


def gpuconf(
    one: dict[str, Any], checkouts: Path, *words: str, longest: int = LONGEST
) -> subprocess.CompletedProcess[str]:
    """Run a command of gpuconf in the program's folder, in a new copy of its project."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUCONF_", "CUDA_"))}
    with tempfile.TemporaryDirectory() as folder:
        cwd = prepare(one, checkouts, Path(folder))
        installed = [str(Path(folder, "project", path)) for path in one.get("path", [])]
        path = os.pathsep.join([str(HERE / "data"), *installed])
        environment = {**kept, "PYTHONPATH": path, "MPLBACKEND": "agg", "PYTHONWARNINGS": "ignore"}
        environment |= {"ITEMS": one["items"]} if "items" in one else {}
        command = [sys.executable, "-m", "gpuconf", *words]
        terminal, its = os.openpty()  # as a user's: some programs ask for its size
        try:
            termios.tcsetwinsize(its, (24, 80))
            options = {"stdin": its, "timeout": longest, "cwd": cwd, "env": environment}
            return subprocess.run(command, capture_output=True, text=True, check=False, **options)
        finally:
            os.close(terminal)
            os.close(its)


def whole(one: dict[str, Any], checkouts: Path, card: str) -> tuple[list[int], str]:
    """Return what the program allocated and reserved at most, run to its end on a card, and its last words."""
    words = ["run", "--simulate", card, "--values", "none", sys.executable, "-c", PEAK, *one["words"]]
    done = gpuconf(one, checkouts, *words)
    peaks = [line for line in done.stderr.splitlines() if line.startswith("PEAK ")]
    failed = "" if done.returncode == 0 else done.stderr[-2000:]
    return [int(word) for word in peaks[-1].split()[1:]] if peaks else [], failed


def planned(one: dict[str, Any], checkouts: Path, cards: str) -> tuple[dict[str, Any], float, str]:
    """Return the answer, its seconds, and the last words if there is none."""
    begin = time.monotonic()
    words = ["plan", "--json", "--gpu", cards, "--seconds", "280", "--", sys.executable, *one["words"]]
    done = gpuconf(one, checkouts, *words)
    return json.loads(done.stdout or "{}"), time.monotonic() - begin, done.stderr[-600:]


def compare(one: dict[str, Any], checkouts: Path) -> dict[str, Any]:
    """Return how the answer compares with a run: on the card that is said to hold it, with that card's memory."""
    for card in CARDS:
        answer, seconds, said = planned(one, checkouts, card)
        row: dict[str, Any] = {"card": card, "seconds": round(seconds)}
        if not answer.get("processes"):
            return {**row, "answered": False, "why": answer.get("why_no_verdict") or said[-300:]}
        row["verdict"] = answer["cards"][0]["verdict"] if answer["cards"] else ""
        if row["verdict"] != "does not fit":
            break
    process = max(answer["processes"], key=lambda one: one["allocated"])
    row["planned"] = [process["allocated"], process["reserved"]]
    row["answered"] = row["verdict"] in ("fits", "does not fit")
    row["why"] = "; ".join(filter(None, [answer["why_no_verdict"], *answer["unseen"]]))
    row["cut"] = [f"{one['iterations']} of {one['of']}" for one in answer["ran"]["cut"]]
    row["run"], row["failed"] = whole(one, checkouts, card if row["verdict"] == "fits" else f"{card}:no-limit")
    if row["run"]:
        row["differs"] = [round(a / b - 1, 4) for a, b in zip(row["planned"], row["run"], strict=True)]
    row["wrong"] = row["verdict"] == "fits" and "CUDA out of memory" in row["failed"]
    return row


def below(one: dict[str, Any], checkouts: Path, row: dict[str, Any]) -> dict[str, Any]:
    """Return the same for a card a tenth below the program's peak."""
    card = f"T4:{row['planned'][1] * 9 // 10 >> 20}MiB"
    answer, _, _ = planned(one, checkouts, card)
    verdict = answer["cards"][0]["verdict"] if answer.get("cards") else answer.get("why_no_verdict", "")
    ran_out = "CUDA out of memory" in whole(one, checkouts, card)[1]
    return {"card": card, "verdict": verdict, "ran out": ran_out, "wrong": verdict == "fits" and ran_out}


def main() -> None:
    """Compare, and print a line for each program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--below", action="store_true", help="on a card a tenth below the peak that results.json has")
    options = parser.parse_args()
    listed = json.loads((HERE / "programs.json").read_text(encoding="utf-8"))["programs"]
    found = {}
    for one in listed:
        name = f"{one['project']}: {one['program']}"
        if options.names and not any(part in name for part in options.names):
            continue
        try:
            if options.below:
                row = json.loads((HERE / "results.json").read_text(encoding="utf-8"))["programs"].get(name, {})
                if row.get("verdict") != "fits":
                    continue
                found[name] = below(one, options.folder, row)
            else:
                found[name] = compare(one, options.folder)
        except subprocess.TimeoutExpired as error:
            found[name] = {"answered": False, "why": f"not within {error.timeout:.0f} s"}
        print(name, json.dumps(found[name]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
