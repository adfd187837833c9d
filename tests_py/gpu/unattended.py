"""All work on a machine with a GPU, unattended: ``python tests_py/gpu/unattended.py --out FOLDER dist/gpuconf-*.whl``.

Runs the cases, the benchmarks and the frameworks' tests as steps of at most 9 minutes each, in the order of importance. Everything
goes into FOLDER/gpu-results.json, which is complete after each step: a second call continues where the first one stopped, and
``--again NAME`` repeats steps. ``--minutes`` ends a call where a machine is available for less time. Recorded traces are saved
in the same folder. The page is written from the results. Exits with code 1 if a step failed, and 2 if steps are left for another
call.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import steps

ROOT = Path(__file__).resolve().parents[2]
BENCHMARK = ROOT / "benchmarks" / "gpu.py"
LONGEST = 540.0  # seconds of one step
SHORTEST = 30.0  # a step is not begun with less time

# What is learned first where the time may end: what the guard relies on, whether memory is right, then speed, then the long ones.
FIRST = (
    "the_resolvers_addresses_are_stable_and_unique",
    "the_guards_limit_is_exact_by_every_way_in",
    "our_sums_are_nvmls",
    "a_buffer_keeps_what_was_written",
    "the_limit_serves_every_byte",
)
LAST = ("a_million_hand_overs_lose_no_canary", "torch_streams_hand_memory_over_safely")


def benchmark() -> Any:
    """benchmarks/gpu.py, for its contenders and its page."""
    specification = importlib.util.spec_from_file_location("benchmark_on_a_gpu", BENCHMARK)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def plan(contenders: Any, turns: int) -> list[steps.Step]:
    """All steps, in the order in which they run."""
    cases = steps.all_cases()
    middle = [name for name in cases if name not in FIRST + LAST]
    bench = [
        steps.Step(f"bench {turn + 1}: {task}", [sys.executable, str(BENCHMARK), "--task", task], 120.0)
        for turn in range(turns)
        for task in contenders
    ]
    bench.append(steps.Step("bench: limit", [sys.executable, str(BENCHMARK), "--task", "limit"], 120.0))
    frameworks = [sys.executable, str(ROOT / "tests_py" / "gpu" / "frameworks.py")]
    return [
        *(steps.of_case(name) for name in FIRST),
        *(steps.of_case(name) for name in middle),
        *bench,
        *(steps.of_case(name, LONGEST) for name in LAST),
        steps.Step("frameworks' tests", frameworks, LONGEST),
    ]


def page(results: dict[str, Any], module: Any) -> str:
    """docs/gpu-results.md."""
    done = results["steps"]
    count = {
        result: sum(step["result"] == result for step in done.values()) for result in ("passed", "left out", "FAILED", "timed out")
    }
    lines = ["# On a GPU", "", f"Written by `make gpu-all` on {results['machine']}.", ""]
    lines += [", ".join(f"{number} {result}" for result, number in count.items()) + ".", ""]
    lines += ["| step | result | s | figures |", "|---|---|---|---|"]
    for name, step in done.items():
        if name.startswith("bench"):
            continue
        figures = step.get("figures") or {}
        told = ", ".join(f"{key} {_number(value)}" for key, value in figures.items()) if isinstance(figures, dict) else str(figures)
        lines.append(f"| {name.replace('_', ' ')} | {step['result']} | {step['seconds']:.1f} | {told or step.get('why', '')} |")
    rounds: dict[str, list[dict[str, float]]] = {}
    for name, step in done.items():
        if name.startswith("bench ") and step["result"] == "passed":
            rounds.setdefault(name.partition(": ")[2], []).append(step["figures"])
    if rounds:
        lines += ["", *module.lines_of(rounds, done.get("bench: limit", {}).get("figures"))]
    return "\n".join(lines) + "\n"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def save(results: dict[str, Any], path: Path) -> None:
    """Replace the file at once, so that a call that is ended leaves a whole one."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(results, indent=1) + "\n")
    beside.replace(path)


def load(path: Path, wheel: str | None, machine: str) -> dict[str, Any]:
    """The results so far, if they are of this wheel; else none."""
    digest = hashlib.sha256(Path(wheel).read_bytes()).hexdigest() if wheel else ""
    if path.exists():
        results = json.loads(path.read_text())
        if results["schema"] == 1 and results["wheel"] == digest:
            return dict(results)
    return {"schema": 1, "wheel": digest, "machine": machine, "steps": {}}


def main() -> int:
    """Run what is left, as far as the time goes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", nargs="?", help="the wheel to test; else the gpuconf that this Python has")
    parser.add_argument("--out", type=Path, default=Path("gpu-results"), help="the folder of the results (gpu-results)")
    parser.add_argument("--page", type=Path, help="write the page there; else beside the results")
    parser.add_argument("--minutes", type=float, default=25.0, help="begin no step beyond this time (25)")
    parser.add_argument("--again", action="append", default=[], metavar="NAME", help="repeat the steps whose names contain this")
    parser.add_argument("--only", default="", metavar="NAME", help="run only the steps whose names contain this")
    parser.add_argument("--turns", type=int, default=3, help="rounds of the benchmark (3)")
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60
    options.out.mkdir(parents=True, exist_ok=True)
    module = benchmark()
    with contextlib.ExitStack() as stack:
        environment = steps.unpacked(options.wheel, stack) | {"GPU_TRACES": str(options.out.resolve())}
        results = load(options.out / "gpu-results.json", options.wheel, module.machine(environment))
        todo = [step for step in plan(module.CONTENDERS, options.turns) if options.only in step.name]
        left = run_all(todo, results, environment, end, options)
    (options.page or options.out / "gpu-results.md").write_text(page(results, module))
    failed = [name for name, step in results["steps"].items() if step["result"] in ("FAILED", "timed out")]
    print(f"{len(results['steps'])} steps done, {len(failed)} failed, {left} left")
    return 1 if failed else 2 if left else 0


def run_all(todo: list[steps.Step], results: dict[str, Any], environment: dict[str, str], end: float, options: Any) -> int:
    """Run the steps that have no result; how many are left for another call."""
    done = results["steps"]
    again = {step.name for step in todo if any(text in step.name for text in options.again)}
    left = 0
    for step in todo:
        if step.name in done and step.name not in again:
            continue
        remaining = end - time.monotonic()
        if remaining < min(SHORTEST, step.limit):
            left += 1
            continue
        found = steps.run(step, environment, min(step.limit, remaining))
        if found["result"] == "timed out" and remaining < step.limit:
            left += 1  # it was cut short by the end of the call, not by its own limit
            continue
        done[step.name] = found
        save(results, options.out / "gpu-results.json")
        print(f"{found['result']:9}  {found['seconds']:6.1f} s  {step.name.replace('_', ' ')}", flush=True)
    return left


if __name__ == "__main__":
    os.environ.pop("GPUCONF_SIMULATE", None)
    sys.exit(main())
