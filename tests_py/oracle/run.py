"""Compare gpuconf with TensorFlow itself: ``make oracle``.

Without options: at least a million calls and ten million steps of allocators, some ten minutes. It ends with a summary
and fails where anything differs that is not on the list of differences. Then it writes
benchmarks/reports/conformance.md and the recorded agreement that ``make test`` replays.

    make oracle ORACLE_ARGS="--quick"           a twentieth of it, and writes nothing
    make oracle ORACLE_ARGS="--seed 7"          other random calls; the seed of a run is printed
    make oracle ORACLE_ARGS="--only strings"    one part
    make oracle ORACLE_ARGS="--record"          compares nothing, and records for make test only

The seed alone determines what is compared, so a run can be repeated.
"""

import argparse
import datetime
import os
import platform
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
# Read when TensorFlow is first imported, which several of the modules below do.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # with oneDNN the CPU has memory statistics, which a plain build lacks

from tensorflow_tests.run import HEADING

from oracle import (
    allocator,
    configuration,
    differences,
    messages,
    placement,
    planted,
    programs,
    record,
    sessions,
    strings,
)
from oracle.machine import Gpuconf
from oracle.outcomes import Tally
from oracle.tensorflow_side import TensorFlow, tf

PARTS = {
    "programs": 0,
    "messages": 500_000,
    "sessions": 0,
    "configuration": 700_000,
    "strings": 300_000,
    "placement": 40_000,
    "allocator": 15_000_000,
}
# Exact splitting must be the only one to serve a trace at least this many times as often as TensorFlow's rule.
AT_LEAST = 15


def main() -> None:
    """Compare, and print the result."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--only", choices=list(PARTS), action="append")
    arguments.add_argument("--record", action="store_true")
    options = arguments.parse_args()
    if options.record:
        write_records()
        return
    began = time.monotonic()
    tallies, exact = compare(options.seed, options.only or list(PARTS), 20 if options.quick else 1)
    lines = summary(tallies, exact)
    print("\n".join(["", *lines, f"seed {options.seed}, {time.monotonic() - began:.0f} s"]))
    if any(tally.not_equal for tally in tallies):
        sys.exit("gpuconf and TensorFlow differ: see NOT EQUAL above")
    if exact.theirs_failed_first < AT_LEAST * exact.ours_failed_first and exact.traces > 1000:
        sys.exit(f"exact splitting serves less than {AT_LEAST} times as often where TensorFlow's rule cannot: {exact}")
    if not options.quick and not options.only:
        write_records()
        write_page(lines, options.seed)


def write_records() -> None:
    """Record TensorFlow's results, for ``make test``."""
    theirs, ours = TensorFlow(), Gpuconf()
    calls = record.write(theirs, ours, tf.__version__)
    planted.write(theirs, ours)
    sessions.record(theirs, tf.__version__)
    print(
        f"recorded {calls} calls in {record.FILE.path.name}, and {len(planted.CASES)} cases in {planted.FILE.path.name}"
    )


def compare(seed: int, parts: list[str], divisor: int) -> tuple[list[Tally], allocator.Exact]:
    """Compare the parts; a divisor selects a fraction of each."""
    print(f"gpuconf against TensorFlow {tf.__version__}, seed {seed}", flush=True)
    tallies: list[Tally] = []
    exact = allocator.Exact()

    def begin(part: str, unit: str) -> Tally:
        tallies.append(Tally(part, unit, PARTS.get(part, 0) // divisor))
        return tallies[-1]

    if "programs" in parts:
        tally = begin("programs", "programs")
        programs.run(tally)
        print(tally, flush=True)
    if "messages" in parts:
        tally = begin("messages", "calls")
        messages.run(seed, tally.wanted, tally)
        print(tally, flush=True)
    if set(parts) & {"sessions", "configuration", "strings", "placement"}:
        theirs, ours = TensorFlow(), Gpuconf()
        if "sessions" in parts:
            tally = begin("sessions", "calls")
            sessions.run(theirs, ours, tally)
            print(tally, flush=True)
        for part, run in (("configuration", configuration.run), ("strings", strings.run), ("placement", placement.run)):
            if part in parts:
                tally = begin(part, "placements" if part == "placement" else "calls")
                run(theirs, ours, seed, tally.wanted, tally)
                print(tally, flush=True)
    if "allocator" in parts:
        allocators = allocator.Programs()
        tally = begin("golden traces", "steps")
        allocator.run_goldens(allocators, tally)
        print(tally, flush=True)
        tally = begin("allocator", "steps")
        exact = allocator.run(allocators, seed, tally.wanted, tally)
        allocators.close()
        print(tally, flush=True)
    return tallies, exact


def summary(tallies: list[Tally], exact: allocator.Exact) -> list[str]:
    """The result as a table in Markdown."""
    lines = ["| part | compared | equal | equal up to a listed difference | not equal |", "|---|---|---|---|---|"]
    lines += [
        f"| {t.part} ({t.unit}) | {t.compared:,} | {t.same:,} | {t.by_excuse.total():,} | {t.not_equal:,} |"
        for t in tallies
    ]
    met = sum((t.by_excuse for t in tallies), start=type(tallies[0].by_excuse)())
    lines += [
        "",
        "Listed differences that occurred: "
        + (", ".join(f"{name} {n:,}" for name, n in met.most_common()) or "none")
        + ".",
    ]
    if exact.traces:
        lines += [
            "",
            f"Exact splitting on {exact.traces:,} traces: both served all requests in {exact.same_to_the_end:,}; "
            f"TensorFlow failed first in {exact.theirs_failed_first:,}, gpuconf in {exact.ours_failed_first:,}.",
        ]
    return lines


_PAGE = """# Conformance: gpuconf compared with TensorFlow

Written by `make oracle`, which runs TensorFlow's own code (the `tensorflow-cpu` wheel) and gpuconf
in one process. It compares the result of each call: the value, or the class of the exception (the class
itself, not a subclass of it) and the beginning of its message.

TensorFlow {tensorflow}, Python {python}, {system}, {date}, seed {seed}.

{table}

What each part compares:

- **programs**: programs as people write them for TensorFlow (`tests_py/compat/programs`), unchanged, on
  TensorFlow and on gpuconf as `tensorflow`: what they print, and the exit code. Programs that print
  what this setup does not have (figures of GPU memory, results of GPU kernels, a build for CUDA) are
  left out; each says why.
- **configuration**: TensorFlow's real context and `tf.config`. The GPUs that gpuconf simulates are
  registered with TensorFlow as a device factory. Random sequences of valid and invalid calls,
  before and after initialization; every exception; the logical devices, their limits and growth.
  Checks that only exist natively in TensorFlow's GPU build (priorities, ordinals, too few GPUs,
  sizes) are reimplemented in that factory, so for them the comparison is with the reimplementation.
- **messages**: `ConfigProto` and every message that it contains. The table of their fields and enum
  constants is compared with the descriptors in the wheel. Random calls run on gpuconf's messages and
  on TensorFlow's: fields, lists, maps, oneofs, presence, copies, merges, errors. After each call
  the printed messages are compared. Where Protocol Buffers iterate over a map in random order,
  gpuconf prints its entries ordered by their keys.
- **sessions**: the scripts in `tests_py/oracle/sessions.txt`: sessions, default graphs, feeds,
  callables, control dependencies and `tf.errors`, line by line. Where gpuconf's message is its own,
  only the class of the error is compared; such lines begin with `~`.
- **strings**: TensorFlow's three device-string parsers, through scopes, nested scopes,
  `get_memory_info` and `reset_memory_stats`.
- **placement**: eager operations and v1 graphs on TensorFlow's own placer, with and without soft
  placement: (node, device) pairs. The GPU kernels are stand-ins. Copies between GPUs do not work in
  this setup, so for them only the device policies that refuse a copy are compared.
- **golden traces**: the traces of gpuconf's own tests, on TensorFlow's allocator.
- **allocator**: TensorFlow's `BFCAllocator` from the wheel's library, without retries. With
  TensorFlow's split rule, gpuconf returns the same addresses and statistics at each step and
  requests the same regions from the device. With exact splitting it serves the same requests, with
  no more memory in use, until the first request that only one of the two serves. Requests that
  never return in TensorFlow are left out: requests of 2304 bytes or less on a full device, and all
  requests after the size of the next region may have passed 2**64.

Not compared:

- The message of a TypeError that pybind11 raises because an argument does not fit a native function
  of TensorFlow (`TFE_GetMemoryInfo(): incompatible function arguments. ...`): it contains C++
  signatures and addresses. The class is compared.
- The text of gpuconf's messages after TensorFlow's text.

[differences.md](../../docs/differences.md) lists what is excused, and why. An excuse covers only the call and
the effect that its row describes. If the effect shows in later calls, TensorFlow runs again without
the cause and must return what gpuconf returns. `make test` tries every excuse with planted defects
that it must not cover (`tests_py/conformance/test_excuses.py`).

A part of the results is recorded in `benchmarks/data/tensorflow/recorded.json.xz`, and `make test` replays
it without TensorFlow.

## Public code

The programs of `tests_py/compat/programs` were chosen for the idioms that they show, so their rate says nothing about
other programs.
Therefore blocks of GPU configuration are cut out of public repositories, at most 8 out of each, by the rule in
`benchmarks/public_code/rule.md`, which is committed before the first repository is fetched, and run on TensorFlow and
on gpuconf. The blocks are not committed; `drawn.json` has the repositories and the counts. A block behaves as in
TensorFlow if it ends without an exception in both, or with one of the same class, on a machine without GPUs and on one
with two. Blocks that are first run before they are read are called unseen.

| draw | repositories | unseen blocks | as in TensorFlow when first run | print the same |
|---|---|---|---|---|
| first | 25 | 214 | 146 (68.2 %) | 130 of 131 |
| second | 105 | 198 | 189 (95.5 %) | 151 of 156 |
| third | 99 | 209 | 200 (95.7 %) | 169 of 175 |
| fourth | 122 | 218 | 211 (96.8 %) | 167 of 184 |
| fifth | 106 | 215 | 210 (97.7 %) | 177 of 189 |

The last column is of the blocks that end in both without a GPU.

The goal is 97 % of at least 200 unseen blocks, and the fifth draw reaches it. (In the first three draws, one or no
block more ran longer than 60 seconds and is left out.) Of the five blocks of the fifth draw that differ,

- three freeze or convert a graph with `tf.graph_util`, which needs TensorFlow;
- one runs `global_variables_initializer()` of a program that runs eagerly: TensorFlow says that the session's graph is
  empty, and gpuconf's `compat.v1` always builds graphs (difference 26);
- one sets `CUDA_VISIBLE_DEVICES` after the GPUs are listed: the judge's imaginary GPUs read it again then, which CUDA
  does not do. They read it once now, and the block behaves alike.

So 211 of the 215 behave as in TensorFlow now. In this draw the judge says that its build is for CUDA, as TensorFlow's
wheel for GPUs does, and its imaginary GPUs obey `CUDA_VISIBLE_DEVICES`. Of the 12 blocks that print something else, 11
print the placement of an initializer of no variables, and one the compiler of TensorFlow's wheel, which gpuconf names
as the wheel does since then. 95 blocks come from repositories that were found by the name of a file in them.

Of the seven blocks of the fourth draw that differ,

- three call `start_queue_runners`, and one imports TensorFlow by the path `tensorflow._api.v2`: these behave alike
  since then;
- one writes a summary, which gpuconf does since then as far as it shows a graph;
- one prints the version of CUDA, which the judge had not, and one sets `CUDA_VISIBLE_DEVICES=7`, which the judge's
  imaginary GPUs ignored.

The first count of that draw was 206: the judge of blocks for TensorFlow 1 failed by
itself, so that all 37 of these were judged as blocks for TensorFlow 2, and 9 others by that failure. It was fixed, and
all 218 blocks were judged again, without a change of gpuconf; twelve blocks had been read by then. Since then blocks
that fail in Keras 3 and not in Keras 2 are judged by Keras 2. 143 blocks come from repositories that were found by the
name of a file in them, such as `gpu_config.py`, because names of repositories gave too few: they check GPUs more often
than programs in general do. Of the 17 blocks that print something else, 15 print whether TensorFlow is built with CUDA,
and two the placement of an empty initializer.

Of the nine blocks of the third draw that differed, four construct optimizers of Keras, which gpuconf now has as far as
they are settings; one loads a saved model, one converts a graph, and one opens a session on another machine: these need
TensorFlow. The other two end in TensorFlow with an error, because it no longer has what they use, and end well here.

Of the 198 blocks of the second draw, 195 behave as in TensorFlow since they have been read. Of the first draw, 170
blocks came from one collection of models, and 58 needed `tf.compat.as_bytes` or `tf.group`, which were missing then.
The words of a rule gave too few blocks in four draws; then other lists were added, before a block was run or read: the
rule says which.
"""


def write_page(table: list[str], seed: int) -> None:
    """Write benchmarks/reports/conformance.md."""
    page = differences.ROOT / "benchmarks" / "reports" / "conformance.md"
    _, heading, tests = page.read_text().partition(HEADING)  # written by make test-suites WHAT=tensorflow
    page.write_text(
        _PAGE.format(
            tensorflow=tf.__version__,
            python=platform.python_version(),
            system=f"{platform.system()} {platform.machine()}",
            date=datetime.datetime.now(tz=datetime.timezone.utc).date(),
            seed=seed,
            table="\n".join(table),
        )
        + f"\n{heading}{tests}"
    )


if __name__ == "__main__":
    main()
