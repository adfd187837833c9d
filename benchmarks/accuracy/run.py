"""Rehearses the programs of runs.json, compares their peaks with the recorded ones, and writes the report.

It is benchmarks/reports/accuracy.md.

    TORCH_2_6=PYTHON TORCH_2_9=PYTHON TORCH_2_11=PYTHON LIGER=FOLDER python benchmarks/accuracy/run.py [--again
    NAME...|--page]

Each PYTHON has gpuconf, that version of PyTorch, transformers, timm, accelerate, triton and liger-kernel. FOLDER is a
clone of
https://github.com/linkedin/Liger-Kernel with its history. Two scripts need older transformers: TRANSFORMERS_4_44 and
TRANSFORMERS_4_55 are folders with those (pip install --target). What is measured is kept in build/accuracy, and not
measured again.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.accuracy import page  # noqa: E402
from benchmarks.report import cpu  # noqa: E402

KEPT = ROOT / "build" / "accuracy"
RECORDINGS = ROOT / "tests_go" / "plan" / "rewind" / "testdata"
MIB = 1 << 20
TOOLS = ("rehearsed", "tracked", "weights")
LONGEST = 300  # seconds for a program under one of the tools


def main() -> None:
    """Measure what is missing, and write the page."""
    asked = json.loads((HERE / "runs.json").read_text())
    KEPT.mkdir(parents=True, exist_ok=True)
    again = sys.argv[2:] if sys.argv[1:2] == ["--again"] else []
    only_page = sys.argv[1:] == ["--page"]  # of what was measured
    for tool in TOOLS:
        for run in asked["runs"]:
            if tool != "rehearsed" and run["program"] == "liger":
                continue
            kept = KEPT / f"{run['name'].replace(' ', '_')}.{tool}.json"
            if run["name"] in again or (not kept.exists() and not only_page):
                print(run["name"], tool, flush=True)
                kept.write_text(json.dumps(measured(run, tool)))
            if kept.exists():
                run[tool] = json.loads(kept.read_text())
    found = [{**run, **recorded(run)} for run in asked["runs"] if "rehearsed" in run]
    machine = f"{cpu()}, {os.cpu_count()} cores, {platform.system()}"
    report = ROOT / "benchmarks" / "reports" / "accuracy.md"
    report.write_text(page.text(found, machine), encoding="utf-8")


def recorded(run: dict[str, Any]) -> dict[str, float]:
    """Return the recorded peaks in MiB."""
    if "recording" not in run:
        return {"recorded_allocated": run["allocated_mib"]}
    record = json.loads(gzip.decompress((RECORDINGS / run["recording"]).read_bytes()))
    signs = {"alloc": 1, "free_completed": -1}
    changes = [signs[row[0]] * row[2] for row in record["trace"] if row[0] in signs]
    blocks = [block for segment in record["segments_at_end"] for block in segment["blocks"]]
    live = sum(size for _, size, _, state in blocks if state.startswith("active")) - sum(changes)
    most = live
    for change in changes:
        live += change
        most = max(most, live)
    reserved = sum(segment["total_size"] for segment in record["segments_at_end"])
    return {"recorded_allocated": most / MIB, "recorded_reserved": reserved / MIB}


def measured(run: dict[str, Any], tool: str) -> dict[str, Any]:
    """Run a program under one of the tools."""
    python = os.environ["TORCH_" + run["torch"].replace(".", "_")]
    with tempfile.TemporaryDirectory() as folder:
        if tool == "weights":
            return weights(python, run, folder)
        words = program(run, Path(folder))
        if tool == "tracked":
            return printed(simulated(python, "tracked.py", *words), "TRACKED", folder)
        older = run.get("transformers", "").replace(".", "_")
        return rehearsed(python, words, run["card"], folder, os.environ[f"TRANSFORMERS_{older}"] if older else "")


def program(run: dict[str, Any], folder: Path) -> list[str]:
    """Return the words of a program, without Python's."""
    if run["program"] == "transformer":
        return [str(ROOT / "tests_py" / "frameworks" / "simulated" / "recorded_transformer.py"), *run["arguments"]]
    if run["program"] == "vit_giant":
        return [str(HERE / "vit_giant.py")]
    check_out(Path(os.environ["LIGER"]), run["commit"], folder / "liger")
    config = json.dumps(run["config"])
    return [
        str(HERE / "liger_program.py"),
        str(folder / "liger"),
        run["kernel"],
        run["provider"],
        str(run["x"]),
        config,
    ]


def check_out(repository: Path, commit: str, folder: Path) -> None:
    """Write the Python files of a commit into a folder. Scripts use some of its tests."""
    git = ["git", "-C", str(repository)]
    listed = subprocess.run(
        [*git, "ls-tree", "-r", "--name-only", commit, "src", "benchmark", "test"], capture_output=True, check=True
    )
    for name in listed.stdout.decode().splitlines():
        if name.endswith(".py"):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(subprocess.run([*git, "show", f"{commit}:{name}"], capture_output=True, check=True).stdout)


def environment() -> dict[str, str]:
    """Return this process's environment without what changes PyTorch or gpuconf."""
    dropped = ("GPUCONF_", "CUDA_", "PYTORCH_", "LD_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return kept | {"PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1"}


def rehearsed(python: str, words: list[str], card: str, folder: str, packages: str = "") -> dict[str, Any]:
    """Return the peaks in MiB that `gpuconf plan` finds, or that the program prints for itself in it.

    ``packages`` is a folder of packages that the program finds before those of its Python.
    """
    variables = environment() | ({"PYTHONPATH": packages} if packages else {})
    options = ["--json", "--gpu", card, "--seconds", str(LONGEST)]
    begin = time.monotonic()
    done = subprocess.run(
        [python, "-m", "gpuconf", "plan", *options, "--", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=variables,
    )
    found: dict[str, Any] = {"seconds": time.monotonic() - begin}
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return found | {"failed": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    found["version"] = answer["ran"]["torch"]
    if answer["ran"]["status"] or not answer["processes"]:
        return found | {"failed": answer["why_no_verdict"]}
    most = max(answer["processes"], key=lambda one: one["allocated"])
    own = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("MEMORY ")]
    found |= {"allocated": most["allocated"] / MIB, "reserved": most["reserved"] / MIB}
    found |= {"least": most["least"]["default"] / MIB, "most": most["most"]["default"] / MIB}
    return found | ({"allocated": float(own[0])} if own else {})


def printed(words: list[str], label: str, folder: str) -> dict[str, Any]:
    """Run a command that prints a label and a number of MiB. Returns it, or why there is none, and the seconds."""
    begin = time.monotonic()
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST, cwd=folder, env=environment())
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer within {LONGEST} s"}
    lines = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(f"{label} ")]
    if done.returncode or not lines:
        return {"failed": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]}
    return {"mib": float(lines[0]), "seconds": time.monotonic() - begin}


def simulated(python: str, name: str, *words: str) -> list[str]:
    """Return the words that run a program of this folder on a simulated GPU."""
    return [
        python,
        "-m",
        "gpuconf",
        "run",
        "--simulate",
        "H100-80GB",
        "--values",
        "none",
        python,
        str(HERE / name),
        *words,
    ]


def weights(python: str, run: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return what accelerate's estimate-memory makes of the program's model."""
    return printed(simulated(python, "estimated.py", run["program"], *run["arguments"]), "ESTIMATED", folder)


if __name__ == "__main__":
    main()
