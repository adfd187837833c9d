"""All work on a machine with a GPU, unattended: ``python tests_py/gpu/unattended.py --out FOLDER dist/gpuconf-*.whl``.

Needs Python and the NVIDIA driver; no network, no pip. What needs a library that is not installed is left out, by name.

Runs the cases, the benchmarks and the frameworks' tests as steps of at most 9 minutes each, in the order of importance.
Everything goes into FOLDER/gpu-results.json, which is complete after each step: a second call continues where the first
one stopped or was ended, and ``--again NAME`` repeats steps. ``--minutes`` ends a call where a machine is available for
less time. Recorded traces are saved in the same folder. The page is written from the results after each step.

Exits with code 1 if a step failed, 2 if steps are left for another call, and 3 if nothing can run on this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import platform
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import steps
from results import Results

ROOT = Path(__file__).resolve().parents[2]
BENCHMARK = ROOT / "benchmarks" / "gpu.py"
FRAMEWORKS = ROOT / "tests_py" / "gpu" / "frameworks.py"
LONGEST = 540.0  # seconds of one step
LONG = 300.0  # of the cases that go on for as long as they may

# What is learned first where the time may end: what the guard relies on, whether memory is right, then speed, then the
# long ones.
FIRST = (
    "the_resolvers_addresses_are_stable_and_unique",
    "the_guards_limit_is_exact_by_every_way_in",
    "our_sums_are_nvmls",
    "a_buffer_keeps_what_was_written",
    "the_limit_serves_every_byte",
    "growth_to_most_of_the_card",
)
LAST = ("stitching_keeps_every_canary", "a_million_hand_overs_lose_no_canary", "torch_streams_hand_memory_over_safely")
# Of the frameworks' tests: those of gpuconf in the libraries; and those that take minutes and depend least on the
# machine.
FRAMEWORKS_FIRST = ("test_torch", "test_segments", "test_guarded", "test_cupy", "test_numba")
FRAMEWORKS_LAST = ("test_numba_own", "test_caching_model")


def benchmark() -> Any:
    """benchmarks/gpu.py, for its contenders and its part of the page."""
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
    files = sorted(
        (ROOT / "tests_py" / "frameworks").rglob("test_*.py"), key=lambda path: (_rank(path.stem), path.stem)
    )
    frameworks = [
        steps.Step(
            f"frameworks' tests: {path.stem}",
            [sys.executable, str(FRAMEWORKS), str(path.relative_to(ROOT / "tests_py" / "frameworks"))],
            LONGEST,
        )
        for path in files
    ]
    return [
        steps.Step("gpuconf doctor", [sys.executable, str(ROOT / "tests_py" / "gpu" / "doctor.py")], 120.0),
        *(steps.of_case(name) for name in FIRST),
        *(steps.of_case(name) for name in middle),
        *bench,
        *(steps.of_case(name, LONG, least=LONG / 2) for name in LAST),
        *frameworks,
    ]


def _rank(file: str) -> int:
    return 0 if file in FRAMEWORKS_FIRST else 2 if file in FRAMEWORKS_LAST else 1


def main() -> int:
    """Run what is left, as far as the time goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", nargs="?", help="the wheel to test; else the gpuconf that this Python has")
    parser.add_argument("--out", type=Path, default=Path("gpu-results"), help="the folder of the results (gpu-results)")
    parser.add_argument("--page", type=Path, help="write the page there, too")
    parser.add_argument("--minutes", type=float, default=25.0, help="end after this time (25)")
    parser.add_argument(
        "--again", action="append", default=[], metavar="NAME", help="repeat the steps whose names contain this"
    )
    parser.add_argument("--only", default="", metavar="NAME", help="run only the steps whose names contain this")
    parser.add_argument("--turns", type=int, default=3, help="rounds of the benchmark (3)")
    options = parser.parse_args()
    if options.wheel and (reason := unusable(options.wheel)):
        print(reason, file=sys.stderr)
        return 3
    end = time.monotonic() + options.minutes * 60
    # The end of a job is like Ctrl-C: the step ends, the results stay.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        environment = steps.unpacked(options.wheel, stack) | {"GPU_TRACES": str(options.out.resolve())}
        module = benchmark()
        try:
            machine = module.machine(environment)
        except SystemExit as nothing:
            print(nothing, file=sys.stderr)
            return 3
        except KeyboardInterrupt:
            print("ended from outside before the first step", flush=True)
            return 2
        awake(stack)
        options.out.mkdir(parents=True, exist_ok=True)
        results = Results(options.out / "gpu-results.json", options.wheel, machine)
        todo = results.order([step for step in plan(module.CONTENDERS, options.turns) if options.only in step.name])
        pages = [path for path in (options.out / "gpu-results.md", options.page) if path]
        print(machine, flush=True)
        try:
            run_all(todo, results, environment, end, options.again, lambda: write(pages, results.page(module)))
        except KeyboardInterrupt:
            print("ended from outside; call again to continue", flush=True)
    left = sum(step.name not in results.steps for step in todo)
    failed = [name for name, step in results.steps.items() if step["result"] in ("FAILED", "timed out")]
    print(f"{len(results.steps)} steps done, {len(failed)} failed, {left} left")
    return 1 if failed else 2 if left else 0


def awake(stack: contextlib.ExitStack) -> None:
    """Hold the cards open: without persistence mode, the driver starts a card anew, for seconds, whenever no process
    uses it.
    """
    for path in Path("/dev").glob("nvidia[0-9]*"):
        with contextlib.suppress(OSError):
            stack.enter_context(path.open("rb", buffering=0))


def unusable(wheel: str) -> str:
    """Why this wheel cannot be used here, or nothing."""
    if not Path(wheel).is_file():
        return f"there is no wheel {wheel}"
    built_for = re.search(r"_(x86_64|aarch64)\.whl$", wheel)
    if built_for and built_for[1] != platform.machine():
        return f"{wheel} is for {built_for[1]}, and this machine is {platform.machine()}"
    return ""


def write(pages: list[Path], text: str) -> None:
    """Replace the page, which may be a copy that forbids writing."""
    for path in pages:
        beside = path.with_suffix(".new")
        beside.write_text(text)
        beside.replace(path)


def run_all(
    todo: list[steps.Step], results: Results, environment: dict[str, str], end: float, again: list[str], after_each: Any
) -> None:
    """Run the steps that have no result, as long as the time allows."""
    for step in todo:
        if step.name in results.steps and not any(text in step.name for text in again):
            continue
        remaining = end - time.monotonic()
        if remaining < min(step.least, step.limit):
            continue
        results.begin(step.name)
        found = steps.run(step, environment, min(step.limit, remaining))
        if found["result"] == "timed out" and remaining < step.limit:
            # It was cut short by the end of the call, not by its own limit: the next call begins with it.
            results.begin("")
            continue
        results.done(step.name, found)
        after_each()
        print(f"{found['result']:9}  {found['seconds']:6.1f} s  {step.name.replace('_', ' ')}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
