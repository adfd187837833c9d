"""Rehearses whole scripts of Liger-Kernel that call torch.compile, and compares all peaks that they measure with the
recorded ones.

    TORCH_2_4=PYTHON TORCH_2_5=PYTHON TORCH_2_6=PYTHON LIGER=FOLDER python benchmarks/accuracy/compiled.py [KERNEL...]

The scripts are those of runs.json whose kernels call torch.compile, at its commits. They run as their authors ran them:
for all sizes and providers, first for time and then for memory, because functions that were compiled keep memory. What
a script writes into its table is compared with the rows that the commit has. The result is compiled.json, which page.py
reads.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from benchmarks.accuracy import run as accuracy  # noqa: E402
from tests_py.recordings import Recording  # noqa: E402

RESULTS = Recording("accuracy/compiled.json")
SCRIPTS = {
    "fused_linear_orpo_loss": "benchmark_orpo_loss.py",
    "fused_linear_cpo_loss": "benchmark_cpo_loss.py",
    "fused_linear_simpo_loss": "benchmark_simpo_loss.py",
    "kto_loss": "benchmark_kto_loss.py",
    "distill_jsd_loss": "benchmark_distill_jsd_loss.py",
    "distill_cosine_loss": "benchmark_distill_cosine_loss.py",
    "fused_linear_grpo_loss_token": "benchmark_grpo_loss.py",
    "fused_linear_grpo_loss_sequence": "benchmark_grpo_loss.py",
    "embedding": "benchmark_embedding.py",
}
# The newest of these on the day of a recording.
RELEASES = {"2.4": "2024-07-24", "2.5": "2024-10-17", "2.6": "2025-01-29"}
VERSIONS = {"kto_loss": "2.5"}  # the day's newest is 2.6, with which none of its ten peaks agrees; with 2.5 all do
TABLE = "benchmark/data/all_benchmark_data.csv"
LONGEST = 1800  # seconds
CLOSE = 0.005


def main() -> None:
    """Rehearse the scripts that are named, or all, and keep what they measured."""
    kept: dict[str, Any] = json.loads(RESULTS.read_text())
    for run in json.loads((HERE / "runs.json").read_text())["runs"]:
        kernel = run.get("kernel")
        if kernel in (sys.argv[1:] or SCRIPTS):
            print(kernel, flush=True)
            kept[kernel] = rehearsed(run)
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def rehearsed(run: dict[str, Any]) -> dict[str, Any]:
    """Run a script whole, with the PyTorch of the day of its recording."""
    version = VERSIONS.get(run["kernel"]) or max(one for one, day in RELEASES.items() if day <= run["recorded"])
    python = os.environ["TORCH_" + version.replace(".", "_")]
    with tempfile.TemporaryDirectory() as folder:
        liger = Path(folder) / "liger"
        accuracy.check_out(Path(os.environ["LIGER"]), run["commit"], liger)
        (liger / TABLE).parent.mkdir(parents=True)
        scripts = liger / "benchmark" / "scripts"
        environment = accuracy.environment() | {"PYTHONPATH": str(liger / "src")}
        options = ["--gpu", run["card"], "--compile", "--seconds", str(LONGEST), "--json"]
        words = [python, "-m", "gpuconf", "plan", *options, "--", python, SCRIPTS[run["kernel"]], "--overwrite"]
        begin = time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, cwd=scripts, env=environment)
        found: dict[str, Any] = {
            "seconds": round(time.monotonic() - begin),
            "card": run["recorded_on"],
            "torch": version,
        }
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            return found | {"failed": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
        found["torch"] = answer["ran"]["torch"]
        if answer["ran"]["ended"] == "seconds":
            return found | {"failed": f"no end within {LONGEST} s"}
        if answer["ran"]["status"]:
            return found | {"failed": answer["why_no_verdict"]}
        (output,) = {
            re.match(r"what the program wrote is in ([^;]+);", line)[1] for line in answer["outputs"] if "wrote" in line
        }  # type: ignore[index]
        (written,) = Path(output).rglob("all_benchmark_data.csv")
        return found | {"rows": compared(rows(written.read_text(), run), rows(recorded_table(run["commit"]), run))}


def recorded_table(commit: str) -> str:
    """Return the table of recordings as a commit has it."""
    git = ["git", "-C", os.environ["LIGER"], "show", f"{commit}:{TABLE}"]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout


def rows(text: str, run: dict[str, Any]) -> dict[tuple[str, str, str], float]:
    """Return the peaks in MiB of a kernel, by provider, setting and size: of each the newest."""
    found: dict[tuple[str, str, str], tuple[datetime.datetime, float]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        if (row["kernel_name"], row["metric_name"], row["kernel_operation_mode"]) == (run["kernel"], "memory", "full"):
            key = (row["kernel_provider"], row["extra_benchmark_config_str"], row["x_value"])
            when = datetime.datetime.fromisoformat(row["timestamp"])
            if key not in found or found[key][0] < when:
                found[key] = (when, float(row["y_value_50"]))
    return {key: peak for key, (_, peak) in found.items()}


def compared(
    predicted: dict[tuple[str, str, str], float], recorded: dict[tuple[str, str, str], float]
) -> list[dict[str, Any]]:
    """Return the rows that both have."""
    return [
        {"provider": provider, "config": config, "x": x, "predicted": peak, "recorded": recorded[provider, config, x]}
        for (provider, config, x), peak in predicted.items()
        if (provider, config, x) in recorded
    ]


def text(runs: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Return how many peaks of the scripts are near, and of the runs if the scripts stand for their own.

    ``runs`` are those of runs.json, with what was predicted and recorded.
    """
    kept = json.loads(RESULTS.read_text())
    measured = {kernel: one for kernel, one in kept.items() if "rows" in one}
    every = [abs(row["predicted"] / row["recorded"] - 1) for one in measured.values() for row in one["rows"]]
    ran = [run for run in runs if "failed" not in run["rehearsed"]]
    good = sum(abs(_off(run, measured.get(run.get("kernel", "")))) <= CLOSE for run in ran)
    peaks = f"{sum(off <= CLOSE for off in every)} of {len(every)} ({sum(off <= 1e-6 for off in every)} to the byte)"
    return peaks, f"{good} of {len(ran)}"


def _off(run: dict[str, Any], whole: dict[str, Any] | None) -> float:
    """Return by which part the peak of a listed run is predicted too high: by the whole script if that was run."""
    if whole is None:
        return float(run["rehearsed"]["allocated"] / run["recorded_allocated"] - 1)
    rows = [row for row in whole["rows"] if (row["provider"], int(row["x"])) == (run["provider"], run["x"])]
    row = next((one for one in rows if json.loads(one["config"]) == run["config"]), rows[0])
    return float(row["predicted"] / row["recorded"] - 1)


if __name__ == "__main__":
    main()
