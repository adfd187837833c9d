"""Measure everything and write benchmarks/reports/benchmarks.md.

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

from benchmarks import (  # noqa: E402
    allocator,
    c_abi,
    config_calls,
    covers,
    guard,
    ledger,
    out_of_memory,
    placement,
    pytest_plugin,
    recording,
    rehearsals,
    simulated_torch,
    start,
)
from benchmarks.live_figures import ROUNDS as FIGURE_ROUNDS  # noqa: E402
from benchmarks.live_figures import measure as measure_figures  # noqa: E402
from benchmarks.report import cpu, table  # noqa: E402

PAGE = """# Benchmarks

Written by `make bench` on {date}: {cpu}, {cores} cores, {system}, CPython {python}, {go}. Load average {load} at the
start.

The figures in a table are medians of one run in which the contenders take turns. Compare the
ratios: absolute times differ between machines.

## Start

Whole processes in turns, on a simulated GPU: a bare interpreter, and what the others take beyond it.
`EARLIER` names a Python that has an earlier gpuconf, which adds a column.

{start}

## The pytest plugin

Whole runs of a suite that uses none of it, in turns: without gpuconf, with gpuconf and
`-p no:gpuconf`, and with the plugin. The least processor time of 31 rounds each, because other
programs only add to it. Most of the difference is the start: pytest reads the list of files of each
package that has a plugin, and imports the plugin.

{pytest}

## Calls from Python

Programs configure devices once, so those calls have no goal; scopes and allocations do.

{calls}

## Operations

Each eager operation and each run allocates and frees its memory. A graph is placed before its first
run.

{operations}

Beside NumPy, in turns. Both use NumPy's OpenBLAS
([How operations compute](../../docs/tensorflow.md#how-operations-compute)).

{peers}

Without a BLAS, gonum computes:

{products}

{graphs}

## The C symbols

Single-threaded; the loops are compiled C (`benchmarks/c_abi.c`). Each figure is the time of one
call.

{abi}

## Recording and planning

An allocation and its free, with and without a recording. An event is written under the allocator's
own lock; it takes no other lock. Most of its cost is one read of the processor's time counter, 10
to 20 ns on a virtual machine. This is the amount by which the calls from C miss the goal, where
they do.

{recording}

What `record(stacks=True)` adds to a recorded allocation and its free, and what a tag adds to an
unrecorded one. The stacks here are known after the first round; a new one takes about
five microseconds more.

{stacks}

`gpuconf.plan` of a million events: a churn of 1000 live blocks of 512 B to 8 MiB, and random sizes up
to 64 MiB with 16 GB live, after RMM's random benchmark.

{plans}

## PyTorch on simulated GPUs

Processor times of steps, in turns, the least of 15, with one thread; the memory is the process's peak beyond that of a
process that has imported PyTorch. `SIMULATED_TORCH` names a Python that has gpuconf and PyTorch. The first row is what
PyTorch itself needs: its kernels for CUDA run, and what they launch, fill and copy does nothing. With `values="none"`,
large tensors are not filled and copied either.

{simulated}

## Programs on simulated GPUs

How long `gpuconf plan --gpu H100-80GB -- python train.py` takes to answer for a Transformer (bfloat16 autocast,
gradients clipped, AdamW), and the most host memory of one of its processes. The random numbers of a model that is built
on the CPU are not drawn ([plan.md](../../docs/plan.md#a-program)).

{rehearsals}

What a cover ([plan.md](../../docs/plan.md#what-a-rehearsal-leaves-alone)) adds to a program that does nothing: medians
of {cover_rounds} rounds in turns. The copy of a mirror is as fast as the file system below it.

{covers}

## Running out of memory

An allocation that fails, in a pool with a hole between any two blocks. The time includes the search
for memory that could be remapped, finding the cause, and the report as the text of the exception.

{failures}

## The ledger

Grants and releases are calls of the core from Python. Other processes hold or publish something and
sleep; [sharing.md](sharing.md) says what a busy machine adds.

{ledger}

A process publishes the figures of its pools in the ledger, and the allocator keeps them up to date.
What that costs: a process in a ledger, one without a ledger, and one whose core is built without the
lines that write the figures. Times are of an allocation and its free, the fastest of {figure_rounds}
rounds in turn.

{figures}

## The guard

What [the guard](../../docs/guard.md) adds to calls of the CUDA driver, over the simulated driver, whose memory is the
host's. Three processes take turns: without the guard, and with it in both modes. Processor time of a
step, the fastest of {guard_rounds} rounds; the ratio is the median of the rounds' ratios.

{guard}

## The allocator's core

ns for one allocation or one free, including lock, statistics and free by address, called from Go
(`tests_go/pool/bfc/bench_test.go`; the workloads are in `tests_go/pool/traces`). The tree is organized like
PyTorch's caching allocator: red-black, by size and address. The list is the simple best fit that
the random tests also use as their model. [allocator-benchmarks.md](allocator-benchmarks.md)
compares with other allocators.

{laws}

p99.9 is the 99.9th percentile of all operations of a new allocator, including the time to read the
clock. A tree with few free blocks fits in the cache and is then fast, so the first two workloads
lower the mean.

The same churn (512 B to 1 MiB) with increasing numbers of live blocks. The tables of a million
blocks do not fit into the cache, and an operation reads several entries, one after the other:

{slope}

## Tested, not timed

{proven}
"""

# Properties that tests cover, with their goals, and no benchmark.
PROVEN = [
    (
        "exceeded limits, leaks and wrong statistics in random operations while the driver fails",
        "0",
        "`make soak`: 10^7; 10^5 of them in `make test`",
    ),
    ("Go memory allocated by an operation", "0", "`AllocsPerRun` in `tests_go/pool/bfc` and `tests_go/devices/devmgr`"),
    ("words read by a search for a size", "<= 5", "counted in builds with `-tags invariants`, as tests are"),
    (
        "large requests of a transformer-like job that need granules remapped, without slack",
        "<= 3 %",
        "`tests_go/pool/bfc/stitch_test.go`",
    ),
    ("the same with 1.25 times the live peak", "0", "`tests_go/pool/bfc/stitch_test.go`"),
    ("driver calls of an iteration from its third time on", "0", "`tests_go/pool/bfc/stitch_test.go`"),
    (
        "driver calls for each GiB of a pool that grows in steps of 1 GiB or more",
        "<= 40",
        "`tests_go/pool/bfc/stitch_test.go`",
    ),
    ("failures in 1000 repetitions of a sequence that succeeded once", "0", "`tests_go/pool/bfc/stitch_test.go`"),
    ("causes in out-of-memory reports, each with its advice", ">= 8", "`tests_go/devices/devmgr/outofmemory_test.go`"),
    (
        "driver calls that a test makes fail",
        "all",
        "`tests_go/devices/devmgr/failurewalk_test.go`, `tests_go/machine/cuda`",
    ),
    ("addresses of one sequence in two processes", "the same", "`tests_py/simulation/test_simulate.py`"),
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
    print("start ...", flush=True)
    facts["start"] = table(start.measure())
    facts["pytest"] = table(pytest_plugin.measure())
    print("calls from Python ...", flush=True)
    facts["calls"] = table(config_calls.measure())
    print("operations ...", flush=True)
    facts.update(zip(("operations", "peers", "products", "graphs"), map(table, placement.measure()), strict=True))
    print("the C symbols ...", flush=True)
    facts["abi"] = table(c_abi.measure())
    print("recording and plans ...", flush=True)
    facts["recording"] = table(recording.measure())
    facts["simulated"] = table(simulated_torch.measure())
    facts["rehearsals"] = table(rehearsals.measure())
    facts["covers"] = table(covers.measure())
    facts["cover_rounds"] = str(covers.ROUNDS)
    facts["stacks"] = table(recording.stacks())
    facts["plans"] = table(recording.plans())
    print("running out of memory ...", flush=True)
    facts["failures"] = table(out_of_memory.measure())
    print("the ledger ...", flush=True)
    facts["ledger"] = table(ledger.measure())
    facts["figures"] = table(measure_figures())
    print("the guard ...", flush=True)
    facts["guard"] = table(guard.measure())
    facts["guard_rounds"] = str(guard.ROUNDS)
    print("the allocator's core ...", flush=True)
    laws, slope = allocator.measure()
    page = ROOT / "benchmarks" / "reports" / "benchmarks.md"
    page.write_text(
        PAGE.format(**facts, figure_rounds=FIGURE_ROUNDS, laws=table(laws), slope=table(slope), proven=proven())
    )
    print(f"\n{page.read_text()}\nwrote {page.relative_to(ROOT)}")


def proven() -> str:
    return table([dict(zip(("what", "goal", "shown by"), row, strict=True)) for row in PROVEN])


if __name__ == "__main__":
    main()
