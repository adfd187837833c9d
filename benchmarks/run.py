"""Measure everything and write docs/benchmarks.md.

make bench
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import allocator, c_abi, config_calls, import_time, out_of_memory, placement, recording  # noqa: E402
from benchmarks.report import cpu, table  # noqa: E402

PAGE = """# Benchmarks

Written by `make bench` on {date}: {cpu}, {cores} cores, {system}, CPython {python}, {go}.
Load average {load} at the start. Figures within a table come from one run in which the contenders take turns; medians. The
ratios are what counts: another machine has other nanoseconds.

## Import

{imports}

## Calls from Python

{calls}

## Operations

Each eager operation and each run takes its memory and gives it back. A graph is placed before its first run.

{operations}

{products}

{graphs}

## The C symbols

One thread; the loops are compiled C (`benchmarks/c_abi.c`). Each figure is one call.

{abi}

## Recording and planning

An allocation and its free, with a recording and without. An entry is made under the allocator's own lock and takes no other. Most
of what it costs is one reading of the processor's counter, 10 to 20 ns on a virtual machine: where the goal is missed from C, it
is by that.

{recording}

`gpuconf.plan` of a churn of 1000 live blocks, 512 B to 8 MiB, from a file:

{plans}

## Running out of memory

An allocation that fails, in a pool with a hole between any two blocks: the search for memory that could be moved, the cause, and
the report as an exception's text.

{failures}

## The allocator's core

ns for one allocation or one free, with lock, statistics and free by address, no C and no Python around it
(`tests_go/bfc/bench_test.go`; the laws are in `tests_go/traces`). The tree is shaped like torch's caching allocator, red-black
by size and address; the list is the plain best fit that also serves the random tests as an oracle.
[allocator-benchmarks.md](allocator-benchmarks.md) has the allocators of others.

{laws}

p99.9 is what all but a thousandth of the operations stay below, from the first one of a new allocator on, the clock's own time
included. A tree of few free blocks is in the cache, and then it is not slow: the first two laws keep the mean down.

The same churn (512 B to 1 MiB) with more and more live blocks. The records of a million blocks do not fit into the cache, and an
operation visits several of them, one after the other:

{slope}

## What no clock tells

{proven}
"""

# What is not measured but tested, goals and all.
PROVEN = [
    (
        "limits passed, leaks and wrong statistics in random operations while the driver fails",
        "0",
        "`make soak`: 10^7; 10^5 of them in `make test`",
    ),
    ("Go memory taken by an operation", "0", "`AllocsPerRun` in `tests_go/bfc` and `tests_go/devmgr`"),
    ("words that a search for a size reads", "<= 5", "counted in builds with `-tags invariants`, as tests are"),
    (
        "large requests of a transformer-like job that need granules moved, without slack",
        "<= 3 %",
        "`tests_go/bfc/stitch_test.go`",
    ),
    ("the same with 1.25 times the live peak", "0", "`tests_go/bfc/stitch_test.go`"),
    ("driver calls of an iteration from its third time on", "0", "`tests_go/bfc/stitch_test.go`"),
    ("failures in 1000 more rounds of what was served once", "0", "`tests_go/bfc/stitch_test.go`"),
    ("causes, each with its advice, of out-of-memory reports", ">= 8", "`tests_go/devmgr/outofmemory_test.go`"),
    ("driver calls that failed in a test", "all", "`tests_go/devmgr/failurewalk_test.go`, `tests_go/cuda`"),
    ("addresses of one sequence in two processes", "the same", "`tests_py/test_simulate.py`"),
]


def main() -> None:
    facts = {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "go": subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }
    print("import ...", flush=True)
    facts["imports"] = table(import_time.measure())
    print("calls from Python ...", flush=True)
    facts["calls"] = table(config_calls.measure())
    print("operations ...", flush=True)
    facts.update(zip(("operations", "products", "graphs"), map(table, placement.measure()), strict=True))
    print("the C symbols ...", flush=True)
    facts["abi"] = table(c_abi.measure())
    print("recording and plans ...", flush=True)
    facts["recording"] = table(recording.measure())
    facts["plans"] = table(recording.plans())
    print("running out of memory ...", flush=True)
    facts["failures"] = table(out_of_memory.measure())
    print("the allocator's core ...", flush=True)
    laws, slope = allocator.measure()
    page = ROOT / "docs" / "benchmarks.md"
    page.write_text(PAGE.format(**facts, laws=table(laws), slope=table(slope), proven=proven()))
    print(f"\n{page.read_text()}\nwrote {page.relative_to(ROOT)}")


def proven() -> str:
    return table([dict(zip(("what", "goal", "shown by"), row, strict=True)) for row in PROVEN])


if __name__ == "__main__":
    main()
