"""Writes docs/allocator-benchmarks.md from a run's measurements."""

from __future__ import annotations

from typing import Any

from benchmarks.peers import figures
from benchmarks.report import table

PAGE = """# The allocator compared with its peers

Written by `make bench-allocator` on {date}: {cpu}, {cores} cores, {memory} of memory, {system}; {go}, g++ {gcc}, {rust}.

The run took {seconds} s; the load average was {load} at the start and {load_end} at the end. Compare the
ratios: absolute times differ between machines.

![Speed, slope, memory needed and metadata of gpuconf's allocator and its peers](allocator-benchmarks.png)

## Goals

{bars}

## Contenders

{peers}

Before timing, every contender runs every trace once and returns the address of each block. A
contender is excluded if its live blocks overlap, its counters are wrong, or it loses a block.
Excluded:
{out}

## Equal interface

With a mutex, free by address, and current and peak bytes. ns for one allocation or one free. Most live blocks: {blocks}.

{equal}

The 99.9th percentile of single operations, in ns. Each includes reading the clock: {clocks}.

{tails}

## Bare

The caller keeps the allocator's own handle; there is no lock and there are no statistics. Do not
compare this table with the one above. gpuconf has no bare form: its row is gpuconf with lock, table
and statistics. This is the same program as in the table for the equal interface, so the difference
between the two rows shows the noise of the run.

{bare}

## Many live blocks

Churn of 512 B to 1 MiB, equal interface, ns.

{slope}

## Why not faster

What an operation cannot do without, measured in this run: a lock and an unlock of Go's `sync.Mutex`
take {lock} ns, and one read at a random place of a table, where each read returns the place of the next
one:

{reads}

The hot pair costs {hot} ns for an allocation or a free, of which the mutex is {lock} ns; a `std::mutex` takes
two locked instructions as well. The rest is {hot_rest} ns, and it is instructions, not waiting: the exact
sizes' lists and their bitmap of three levels, checks of each index into a table, a row of counters for
the block's holder, and the figures that other processes read. The fastest peers bin sizes by their leading
bits, at the price of a worse fit (see Memory needed), and count two numbers.

With a million live blocks, the records of blocks and holes take about 41 MB, and the index of
addresses takes 16 MB, so most of them are not in a cache. A free needs three reads, each of which
tells where the next one is: the slot in the index, the record, and its neighbors (both at once). An
allocation takes the first chunk of a list, which is often in a near cache, and then writes the slot of
its address. The other chunks whose lists change are written, which nothing waits for. A peer with the
same interface has the same chain: the slot in its table, the block's node, and the nodes of its
neighbors. This is why their times are so close.

A program with tables of these sizes, which does only these reads at random places and the mutex, takes
{ordered} ns for an operation if each pair's address depends on what the pair before has read, and
{overlapping} ns if it does not, because a processor then begins the next operations while it waits: the
mutex does not prevent that. gpuconf takes {million} ns; 0.6 of the fastest peer's time ({million_peer}) is
{million_goal} ns. An allocator's operations overlap less than those of that program: they are longer, and
whether a neighbor is free, a slot is taken or a list is empty cannot be predicted. What a processor began
after a wrong guess is undone, and it can only tell once the read has arrived.

What made operations faster: records of 32 bytes instead of 40, so that none straddles two cache lines;
bitmaps and lists without unpredictable branches; an index that is kept emptier while it fits into the
nearest caches; unlocking without `defer` (5 %); and the compiler's profile (`make profile`, 8 to 10 %). These
made no difference: a shorter search when the request is below the smallest hole, and fewer instructions
to replace the rest of a pool in its place.

## Small sizes

With mimalloc, which manages host memory and passes large blocks to the system. It has no global
lock; atomics count its bytes.

{small}

## Threads

Each thread replays a churn of 1,000 live blocks of 512 B to 64 KiB. On one pool, all threads share
one allocator; on one pool each, every thread has its own. There are more threads than cores from
{many_threads} threads on. gpuconf and TensorFlow's allocator have one lock for each pool. RMM's arena and
mimalloc keep a heap for each thread. RMM's caller passes the size to a free, and nothing is counted;
for mimalloc, two atomics count. gpuconf's threads here are goroutines, each locked to a thread of the
system as a caller from C is.

Millions of allocations and frees a second, of all threads together; the best round:

{threads_speed}

The 99.9th percentile of single operations in ns, with the clock; the lowest of the rounds:

{threads_tails}

With two threads on one pool, gpuconf's tail is the kernel's: Go's mutex parks a goroutine that did not
get the lock for a while, and to wake its thread takes from 2 to 17 us. In a race of its own (12 runs in
turns, 2026-11-22, medians), 1,000 tries before parking lowered the 99.9th percentile of two threads from
2.7 to 0.6 us. They made four threads on two cores 12 % slower and one thread 2 %, so the lock parks.

## Host memory

The growth of the resident set in a separate process, from before the pool exists until the trace is
warm, without the benchmark's own arrays. rlsf writes a header in front of each block and so touches
a page for each block; an allocator of GPU memory cannot write there.

{footprints}

## Memory needed

The end of the highest block in one unbounded address range, divided by the peak of live bytes.
torch's shape uses several ranges, so for it the memory taken from the device counts. "gpuconf,
virtual" is gpuconf with memory growth: the least limit in MiB under which the trace runs, as
`gpuconf.plan` finds it. It maps granules of 2 MiB where they are needed, and remaps free ones.

{needs}

Lifetimes with a known optimum. The own packings are rectangles of time by memory, cut at random
into 300 lifetimes (`tests_go/traces/lifetimes.go`); the live bytes equal the optimum at every
moment. MiniMalloc's are its eleven public problems, with a unit of 16 KiB. In some of these the
live bytes never reach the optimum, which is why mapped memory can need less. Blocks are allocated
in order of time, without knowledge of later requests. Memory divided by the optimum:

{optimum}

## Recorded runs

Nine runs of PyTorch on GPUs, as its allocator recorded them (`tests_go/rewind/testdata`).

{recorded}

## Method

- One process. Each contender's loop over a trace is compiled with it (Go, C++ or Rust), so the
  figures contain no calls between languages. All sizes are rounded up to 256 bytes, for torch's
  shape to 512.
- In each of {rounds} rounds (fewer with more than half a million blocks) the contenders take turns in a
  different order, each with a new pool. A figure is that of the best round. The first tenth of a
  round, or the operations that build up the workload's state, are not timed. p99.9 is the lowest of
  three rounds.
- Other threads are alive, so locking is not optimized away. TensorFlow's allocator and gpuconf have
  their own lock, table and statistics. The others are wrapped in a mutex (`std::mutex`, or Rust's),
  a hash table by address with open addressing, and two counters.
- RMM's list walks all free blocks: with more than 5000 blocks it runs 2000 operations, once.
- rlsf runs each trace once before it is timed, so that the first touch of its pages is not in the
  figure.
- The workloads ("laws") are in `tests_go/traces`; their random numbers have fixed seeds.

## Run it again

    make bench-allocator MINIMALLOC=DIR

DIR contains MiniMalloc's problems, `benchmarks/challenging/*.csv` of its repository; it is
optional. The peers are downloaded from PyPI, crates.io and Debian into `.venv-peers`, in the
versions above. If something is missing (cargo, a C++ compiler, a network), the rows that need it
give the reason. `benchmarks/peers/README.md` describes the programs.
"""

# Why a goal was missed. A goal that is met needs no reason.
WHY = {
    "fastest": "see Why not faster",
    "million": "see Why not faster",
    "both": "chance decides between good fits, see below",
    "torch": "a tree with few free blocks fits in the cache and is then fast",
    "tensorflow": "TensorFlow's free lists are short on these laws",
    "rmm-short": "one or two free blocks: a list's first is the best",
    "rmm-long": "the cost of RMM's walk is fixed; gpuconf would need a thousandth of it, but its operations miss the cache",
    "slope": "the tables of a million blocks are larger than the cache; the peers' are too, and their times rise in the same way",
    "tails": "the first use of a page of the tables, which the system then provides, and preemption by other programs",
    "metadata": "32 bytes for each block and each hole, an address table at most half full, and large pages not filled yet",
    "pool": "",
    "minimalloc": "among holes of one size the lowest is not always used: finding it would cost time",
    "contiguous": "for random lifetimes chance decides between good fits; no contiguous rule is best on all",
    "virtual-minimalloc": "granules that are mapped for one block do not move while part of them is live",
    "virtual-transformer": "",
    "virtual-random": "blocks that share granules with live neighbors keep them",
}


def write(run: dict[str, Any]) -> str:
    """The page."""
    return PAGE.format(
        **run["machine"],
        bars=bars(run),
        peers=_peers(run),
        blocks=", ".join(f"{figures.LAWS[law['name']]} {law['blocks']:,}" for law in run["result"]["laws"]),
        out=_out(run),
        equal=_speeds(run, "equal", figures.EQUAL, "best"),
        tails=_speeds(run, "equal", figures.EQUAL, "p999"),
        bare=_speeds(run, "bare", figures.BARE, "best"),
        slope=_slope(run),
        **_floor(run),
        small=_small(run),
        many_threads=min(
            (one["threads"] for one in run["result"]["threads"] if one["threads"] > run["machine"]["cores"]), default="no"
        ),
        threads_speed=threads(run, "mops"),
        threads_tails=threads(run, "p999"),
        footprints=_footprints(run),
        needs=_needs(run),
        optimum=_optimum(run),
        recorded=recorded(run),
        clocks=", ".join(f"{ns:.0f} ns in {language}" for language, ns in run["result"]["clock_ns"].items() if ns),
    )


def _rows(run: dict[str, Any], order: tuple[str, ...], columns: list[str], cells: dict[str, dict[str, str]]) -> str:
    """A row for each contender. The row of a missing one has the reason."""
    gone = figures.missing(run)
    rows = []
    for who in order:
        row = {
            "": f"**{who}**" if who.startswith("gpuconf") else who,
            **{column: cells.get(who, {}).get(column, "-") for column in columns},
        }
        if who in gone:
            row[columns[0]] = f"missing: {gone[who]}"
        rows.append(row)
    return table(rows)


def _ns(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _speeds(run: dict[str, Any], league: str, order: tuple[str, ...], which: str) -> str:
    found = figures.speeds(run, league)
    names = figures.LAWS
    cells = {who: {names[law]: _ns(one[which]) for law, one in by_law.items()} for who, by_law in found.items()}
    return _rows(run, order, list(names.values()), cells)


def _slope(run: dict[str, Any]) -> str:
    found = figures.slopes(run)
    lives = sorted({live for by_live in found.values() for live in by_live})
    cells = {
        who: {
            **{f"{live:,} live": _ns(ns) for live, ns in by_live.items()},
            "last / first": f"{by_live[lives[-1]] / by_live[lives[0]]:.2f}" if lives[-1] in by_live else "-",
        }
        for who, by_live in found.items()
    }
    return _rows(run, figures.EQUAL, [*(f"{live:,} live" for live in lives), "last / first"], cells)


def _floor(run: dict[str, Any]) -> dict[str, str]:
    floor = run["result"]["floor"]
    hot = figures.speeds(run, "equal")[figures.OURS]["hot-pair"]["best"]
    peer, theirs, ours = figures.most_live(run)
    rows = [{"table": _binary(one["table_bytes"]), "one read": f"{one['ns']:.1f} ns"} for one in floor["reads"]]
    return {
        "lock": _ns(floor["lock_ns"]),
        "reads": table(rows),
        "hot": _ns(hot),
        "hot_rest": _ns(hot - floor["lock_ns"]),
        "ordered": _ns(floor["million"]["ordered_ns"]),
        "overlapping": _ns(floor["million"]["overlapping_ns"]),
        "million": _ns(ours),
        "million_peer": f"{peer}, {_ns(theirs)} ns",
        "million_goal": _ns(0.6 * theirs),
    }


def _binary(size: int) -> str:
    """A power of two in bytes."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def _small(run: dict[str, Any]) -> str:
    found = figures.speeds(run, "equal", "small")
    names = {"hot-pair": "hot pair, 4 KiB", "churn-64KiB": "churn, 512 B to 64 KiB, 10 000 live"}
    cells = {who: {names[law]: _ns(one["best"]) for law, one in by_law.items()} for who, by_law in found.items()}
    return _rows(run, (*figures.EQUAL, figures.MIMALLOC), list(names.values()), cells)


def threads(run: dict[str, Any], which: str) -> str:
    """A table of the races of threads."""
    cells: dict[str, dict[str, str]] = {}
    columns = []
    for one in run["result"]["threads"]:
        columns.append(f"{one['threads']}, {'a pool each' if one['each'] else 'one pool'}")
        for who, timing in one["times"].items():
            cells.setdefault(who, {})[columns[-1]] = f"{timing[which]:,.1f}" if which == "mops" else _ns(timing[which])
    return _rows(run, figures.THREADED, columns, cells)


def _footprints(run: dict[str, Any]) -> str:
    columns = ["50 000 live, bytes for each", "a pool of 139 GiB with 1000 live, MiB"]
    cells: dict[str, dict[str, str]] = {}
    for who, (_, each) in figures.footprints(run, "churn-1MiB").items():
        cells.setdefault(who, {})[columns[0]] = f"{each:,.0f}"
    for who, (whole, _) in figures.footprints(run, "churn-8MiB").items():
        cells.setdefault(who, {})[columns[1]] = f"{whole / (1 << 20):,.1f}"
    return _rows(run, tuple(who for who in figures.EQUAL if who != figures.RULE), columns, cells)


def _needs(run: dict[str, Any]) -> str:
    cells: dict[str, dict[str, str]] = {}
    for one in figures.needs(run, "law"):
        for who, over in one["over"].items():
            cells.setdefault(who, {})[figures.LAWS[one["name"]]] = f"{over:.3f}"
    return _rows(run, (figures.OURS, figures.VIRTUAL, *figures.EQUAL[1:]), list(figures.LAWS.values())[1:], cells)


def _optimum(run: dict[str, Any]) -> str:
    order = (figures.OURS, figures.VIRTUAL, *figures.EQUAL[1:])
    rows = []
    for kind, title in (
        ("guillotine", "own packings, guillotine"),
        ("pinwheel", "own packings, pinwheels"),
        ("minimalloc", "MiniMalloc"),
    ):
        found = figures.needs(run, kind)
        if not found:
            rows.append({"problem": f"{title}: missing; set MINIMALLOC to the folder of its problems", **dict.fromkeys(order, "-")})
            continue
        for one in found:
            name = f"MiniMalloc {one['name']}" if kind == "minimalloc" else one["name"]
            rows.append({"problem": name, **{who: f"{one['over'][who]:.3f}" if who in one["over"] else "-" for who in order}})
        means = {who: figures.mean_need(run, (kind,), who) for who in order}
        rows.append({"problem": f"**{title}, mean**", **{who: f"**{mean:.3f}**" if mean else "-" for who, mean in means.items()}})
    return table(rows)


def recorded(run: dict[str, Any]) -> str:
    """The tables of the recorded runs."""
    needs = [
        {
            "run": one["name"],
            "live at the peak": f"{one['peak_bytes'] / (1 << 20):,.0f} MiB",
            **{name: f"{size / (1 << 20):,.0f} MiB" for name, size in one["sizes"].items()},
            "PyTorch's over gpuconf's": f"{one['sizes'][figures.PYTORCH] / one['sizes'][figures.VIRTUAL]:.3f}",
        }
        for one in figures.recorded(run)
    ]
    means = figures.recorded_means(run)
    mean = {"run": "**geometric mean, over the live peak**", "live at the peak": "1"}
    mean |= {name: f"**{value:.3f}**" for name, value in means.items()}
    mean["PyTorch's over gpuconf's"] = f"**{means[figures.PYTORCH] / means[figures.VIRTUAL]:.3f}**"
    speeds = figures.speeds(run, "equal", "recorded")
    names = [one["name"] for one in run["result"]["recorded"]]
    cells = {who: {law: _ns(one["best"]) for law, one in by_law.items()} for who, by_law in speeds.items()}
    return (
        "The least limit under which the run fits, as `gpuconf.plan` finds it; for RMM's free list, the end\n"
        f"of its highest block:\n\n{table([*needs, mean])}\n\n"
        f"ns for one allocation or one free, equal interface:\n\n{_rows(run, figures.EQUAL, names, cells)}"
    )


def _peers(run: dict[str, Any]) -> str:
    rows = [{"contender": "**gpuconf**", "from": "this tree", "version": "this one: exact split, and TensorFlow's split rule"}]
    rows += [
        {
            "contender": ", ".join(peer["contenders"]),
            "from": peer["source"],
            "version": peer["version"] if not peer["missing"] else f"missing: {peer['missing']}",
        }
        for peer in run["peers"]
    ]
    return table(rows)


def _out(run: dict[str, Any]) -> str:
    found: dict[tuple[str, str], list[str]] = {}
    for one in run["result"]["out"]:
        found.setdefault((one["name"], ("failed: " if one["broken"] else "not run: ") + one["why"]), []).append(one["trace"])
    for path, why in run["result"]["missing"].items():
        found[path.rpartition("/")[2], "could not be opened: " + why] = ["all"]
    if not found:
        return "none."
    lines = [f"- {who}, {', '.join(dict.fromkeys(traces))}: {why}" for (who, why), traces in found.items()]
    return "\n" + "\n".join(lines)


def bars(run: dict[str, Any]) -> str:
    """The goals, each with its result."""
    rows: list[dict[str, str]] = []

    def bar(
        key: str, what: str, goal: float, figure: float | None, *, least: bool = False, digits: int = 2, detail: str = ""
    ) -> None:
        sign = ">=" if least else "<="
        row = {
            "goal": f"{what} {sign} {goal:,.{digits}f}",
            "measured": "-",
            "": "not measured",
            "why": "its peer or data is missing, see below",
        }
        if figure is not None:
            met = figure >= goal if least else figure <= goal
            by = abs(figure / goal - 1) * 100 if goal else 0
            row["measured"] = f"{figure:,.{digits}f}" + (f" ({detail})" if detail else "")
            row[""] = "met" if met else f"missed by {by:.0f} %" if by >= 1 else "missed by less than 1 %" if goal else "missed"
            row["why"] = "" if met else WHY[key]
        rows.append(row)

    _speed_bars(run, bar)
    _memory_bars(run, bar)
    return table(rows)


def _speed_bars(run: dict[str, Any], bar: Any) -> None:
    fastest = figures.fastest_peer(run) if figures.complete(run) else {}  # the best of an incomplete set would be misleading
    over = [ratio for _, ratio in fastest.values()]
    worst = max(fastest, key=lambda law: fastest[law][1], default="")
    bar("fastest", "time over the fastest peer's, mean of six laws", 1.10, figures.geometric(over) if over else None)
    bar(
        "fastest",
        "the same, worst law",
        1.30,
        max(over, default=None),
        detail=f"{figures.LAWS[worst]}: {fastest[worst][0]}" if over else "",
    )
    for key, who, goal in (("torch", figures.TORCH, 3.5), ("tensorflow", figures.TENSORFLOW, 2.0)):
        times = list(figures.ratios(run, who).values())
        bar(key, f"times as fast as {who}, mean", goal, figures.geometric(times) if times else None, least=True, digits=1)
    rmm = figures.ratios(run, figures.RMM)
    short = [1 / rmm[law] for law in ("hot-pair", "transformer") if law in rmm]
    bar("rmm-short", "time over RMM's list with at most 250 blocks, worst", 1.25, max(short, default=None))
    bar("rmm-long", "times as fast as RMM's list with 36 000 blocks", 1000, rmm.get("random-1MiB"), least=True, digits=0)
    slope = figures.slopes(run)[figures.OURS]
    peer, theirs, ours = figures.most_live(run)
    bar("million", "time with 10^6 live blocks over the fastest peer's", 0.6, ours / theirs if fastest else None, detail=peer)
    bar("slope", "time with 10^6 live blocks over that with 10^3", 2.5, slope[max(slope)] / slope[min(slope)])
    tails = {law: one["p999"] for law, one in figures.speeds(run, "equal")[figures.OURS].items()}
    worst = max(tails, key=lambda law: tails[law])
    bar("tails", "p99.9, worst law, ns", 1000, tails[worst], digits=0, detail=figures.LAWS[worst])


def _memory_bars(run: dict[str, Any], bar: Any) -> None:
    bar(
        "metadata", "bytes of host memory for each live block", 64, figures.footprints(run, "churn-1MiB")[figures.OURS][1], digits=0
    )
    large = figures.footprints(run, "churn-8MiB")
    theirs = large.get(figures.TENSORFLOW)
    bar("pool", "host memory for 139 GiB over TensorFlow's", 0.02, large[figures.OURS][0] / theirs[0] if theirs else None, digits=4)
    bar("minimalloc", "MiniMalloc, over the optimum, mean", 1.54, figures.mean_need(run, ("minimalloc",), figures.OURS), digits=3)
    contiguous = {}
    for kind in ("law", "guillotine", "pinwheel", "minimalloc") if figures.complete(run) else ():
        for one in figures.needs(run, kind):
            best = min((one["over"][who] for who in figures.PEERS if who in one["over"]), default=None)
            if best:
                contiguous[one["name"]] = (kind, one["over"][figures.OURS] / best)
    for kinds, what in ((("law",), "laws"), (("guillotine", "pinwheel", "minimalloc"), "known optima")):
        found = {name: ratio for name, (kind, ratio) in contiguous.items() if kind in kinds}
        worst = max(found, key=lambda name: found[name], default="")
        what = f"address space over the best peer's, {what}, worst"
        detail = f"{figures.LAWS.get(worst, worst)}; mean {figures.geometric(list(found.values())):.3f}" if found else ""
        bar("contiguous", what, 1.01, found.get(worst), digits=3, detail=detail)
    both = figures.faster_and_tighter(run) if figures.complete(run) else None
    what = "laws on which a peer is faster and needs less memory"
    bar("both", what, 0, None if both is None else len(both), digits=0, detail="; ".join(both or []))
    virtual = [one["over_peak"][figures.VIRTUAL] for one in figures.needs(run, "minimalloc")]
    mean = figures.geometric(virtual) if virtual else None
    bar("virtual-minimalloc", "virtual, memory over the live peak: MiniMalloc, mean", 1.0, mean, digits=3)
    laws = {one["name"]: one["over_peak"][figures.VIRTUAL] for one in figures.needs(run, "law")}
    bar("virtual-transformer", "the same: transformer-like", 1.02, laws["transformer"], digits=3)
    bar("virtual-random", "the same: random to 64 MiB", 1.04, laws["random-64MiB"], digits=3)
