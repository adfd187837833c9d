"""docs/allocator-benchmarks.md from a run's measurements."""

from __future__ import annotations

from typing import Any

from benchmarks.peers import figures
from benchmarks.report import table

PAGE = """# The allocator beside its peers

Written by `make bench-allocator` on {date}: {cpu}, {cores} cores, {memory} of memory, {system}; {go}, g++ {gcc},
{rust}. It took {seconds} s; the load average was {load} at the start and {load_end} at the end. Other machines have
other nanoseconds: the ratios are what counts.

![Speed, slope, memory needed and metadata of gpuconf's allocator and its peers](allocator-benchmarks.png)

## Goals

{bars}

## Who takes part

{peers}

Every contender first does every trace once and gives the address of each block. One whose live blocks overlap, whose
books are wrong or which does not get back what it gave is out, and is named here:
{out}

## Equal interface

A mutex, blocks freed by address, current and peak bytes. ns for one allocation or one free. Most live blocks:
{blocks}.

{equal}

The times of single operations, 99.9th percentile, in ns. A reading of the clock is in each: {clocks}.

{tails}

## Bare

The caller keeps the allocator's own handle; no lock, no statistics. Not to be compared with the table above. gpuconf
has no such form: its row is gpuconf as it is, with lock, table and statistics. It is the same program as in the table
of equal interface: by how much these two rows differ is how much other programs disturbed the run.

{bare}

## Many live blocks

Churn of 512 B to 1 MiB, equal interface, ns.

{slope}

## Small sizes

With mimalloc, which manages host memory and hands large blocks to the system. It has no one lock; its bytes are
counted by atomics.

{small}

## Host memory

The growth of the resident set in a process of its own, from before the pool is there until the trace is warm, less
the benchmark's own arrays. rlsf writes in front of each block, so that it touches a page for each: of memory that a
GPU's allocator can't write to.

{footprints}

## Memory needed

The end of the highest block in one range without an end, over the most bytes that were live. torch's shape takes more
than one stretch, so for it what it took from the device counts. "gpuconf, virtual" is gpuconf with memory growth: the
least limit in MiB under which the trace runs, as `gpuconf.plan` finds it; it maps granules of 2 MiB where they are
wanted, and moves free ones there.

{needs}

Lifetimes whose least memory is known. The packings are rectangles of time by memory, cut at random into 300 lifetimes
(`tests_go/traces/lifetimes.go`); all of the optimum is live at every moment. MiniMalloc's are its eleven public
problems, with a unit as 16 KiB; in some of these no more than a part of the optimum is ever live, which is how mapped
memory can need less. Blocks are taken in the order of time, without knowledge of what comes. Over the optimum:

{optimum}

## Method

- One process. Each contender's loop over a trace is compiled with it (Go, C++ or Rust), so no call between languages
  is in a figure. All sizes are rounded up to 256 bytes, with torch's shape to 512.
- In each of {rounds} rounds (fewer where there are more than half a million blocks) the contenders take turns in
  another order, each with a new pool. A figure is the best round's; its first tenth, or what builds up the law's
  state, is not timed. p99.9 is the least of three rounds'.
- Other threads are alive, so the locks are real ones. TensorFlow's allocator and gpuconf have lock, table and
  statistics of their own; the others are wrapped in a `std::mutex` (in Rust, its own), a hash table by address with
  open addressing, and two counters.
- RMM's list walks all free blocks: beyond 5000 blocks it does 2000 operations, once.
- rlsf does each trace once before it is timed, so that the system's first touch of its pages is not in the figure.
- The laws are in `tests_go/traces`; their random numbers have fixed seeds.

## Again

    make bench-allocator MINIMALLOC=DIR

DIR has MiniMalloc's problems, `benchmarks/challenging/*.csv` of its repository, and may be left out. The peers are
fetched from PyPI, crates.io and Debian into `.venv-peers`, in the versions above; what is missing (cargo, a C++
compiler, a network) costs its rows, which then say so. `benchmarks/peers` has the programs.
"""

# Why a goal was missed. What is met needs no reason.
WHY = {
    "fastest": "the fastest peers bin sizes by their leading bits: less to read, and a worse fit (see what they need below)",
    "torch": "a tree of few free blocks is in the cache, and then it is not slow",
    "tensorflow": "TensorFlow's free lists are short on these laws",
    "rmm-short": "one or two free blocks: a list's first is the best",
    "rmm-long": "what a walk over the list takes is given; ours would have to take a thousandth, and its operations miss the cache",
    "slope": "the tables of a million blocks are larger than the cache, as the peers' are, whose times rise alike",
    "tails": "the first use of a page of the tables, which the system then provides, and interruptions by other programs",
    "metadata": "40 bytes for each block and each hole, a table of addresses at most half full, and large pages not yet filled",
    "pool": "",
    "minimalloc": "of holes of one size not always the lowest is taken: looking for it would cost time",
    "contiguous": "on random lifetimes luck decides between good fits; no contiguous rule is best on all",
    "virtual-minimalloc": "granules that are mapped for one block do not move while part of them is live",
    "virtual-transformer": "",
    "virtual-random": "blocks that share granules with live neighbours keep them",
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
        small=_small(run),
        footprints=_footprints(run),
        needs=_needs(run),
        optimum=_optimum(run),
        clocks=", ".join(f"{ns:.0f} ns in {language}" for language, ns in run["result"]["clock_ns"].items() if ns),
    )


def _rows(run: dict[str, Any], order: tuple[str, ...], columns: list[str], cells: dict[str, dict[str, str]]) -> str:
    """A row for each contender; one that could not be had says why."""
    gone = figures.missing(run)
    rows = []
    for who in order:
        row = {
            "": f"**{who}**" if who.startswith("gpuconf") else who,
            **{column: cells.get(who, {}).get(column, "-") for column in columns},
        }
        if who in gone:
            row[columns[0]] = f"not here: {gone[who]}"
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


def _small(run: dict[str, Any]) -> str:
    found = figures.speeds(run, "equal", "small")
    names = {"hot-pair": "hot pair, 4 KiB", "churn-64KiB": "churn, 512 B to 64 KiB, 10 000 live"}
    cells = {who: {names[law]: _ns(one["best"]) for law, one in by_law.items()} for who, by_law in found.items()}
    return _rows(run, (*figures.EQUAL, figures.MIMALLOC), list(names.values()), cells)


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
            rows.append(
                {"problem": f"{title}: not here; set MINIMALLOC to the folder of its problems", **dict.fromkeys(order, "-")}
            )
            continue
        for one in found:
            name = f"MiniMalloc {one['name']}" if kind == "minimalloc" else one["name"]
            rows.append({"problem": name, **{who: f"{one['over'][who]:.3f}" if who in one["over"] else "-" for who in order}})
        means = {who: figures.mean_need(run, (kind,), who) for who in order}
        rows.append({"problem": f"**{title}, mean**", **{who: f"**{mean:.3f}**" if mean else "-" for who, mean in means.items()}})
    return table(rows)


def _peers(run: dict[str, Any]) -> str:
    rows = [{"contender": "**gpuconf**", "from": "this tree", "version": "this one: exact split, and TensorFlow's split rule"}]
    rows += [
        {
            "contender": ", ".join(peer["contenders"]),
            "from": peer["source"],
            "version": peer["version"] if not peer["missing"] else f"not here: {peer['missing']}",
        }
        for peer in run["peers"]
    ]
    return table(rows)


def _out(run: dict[str, Any]) -> str:
    found: dict[tuple[str, str], list[str]] = {}
    for one in run["result"]["out"]:
        found.setdefault((one["name"], ("failed: " if one["broken"] else "not asked: ") + one["why"]), []).append(one["trace"])
    for path, why in run["result"]["missing"].items():
        found[path.rpartition("/")[2], "could not be opened: " + why] = ["all"]
    if not found:
        return "none was."
    lines = [f"- {who}, {', '.join(dict.fromkeys(traces))}: {why}" for (who, why), traces in found.items()]
    return "\n" + "\n".join(lines)


def bars(run: dict[str, Any]) -> str:
    """The goals, each with its figure."""
    rows: list[dict[str, str]] = []

    def bar(
        key: str, what: str, goal: float, figure: float | None, *, least: bool = False, digits: int = 2, detail: str = ""
    ) -> None:
        sign = ">=" if least else "<="
        row = {
            "goal": f"{what} {sign} {goal:,.{digits}f}",
            "measured": "-",
            "": "not measured",
            "why": "what it takes is not here, see below",
        }
        if figure is not None:
            met = figure >= goal if least else figure <= goal
            by = abs(figure / goal - 1) * 100
            row["measured"] = f"{figure:,.{digits}f}" + (f" ({detail})" if detail else "")
            row[""] = "met" if met else f"missed by {by:.0f} %" if by >= 1 else "missed by less than 1 %"
            row["why"] = "" if met else WHY[key]
        rows.append(row)

    _speed_bars(run, bar)
    _memory_bars(run, bar)
    return table(rows)


def _speed_bars(run: dict[str, Any], bar: Any) -> None:
    fastest = figures.fastest_peer(run) if figures.complete(run) else {}  # the best of a part would flatter
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
    bar("slope", "time with 10^6 live blocks over that with 10^3", 2.5, slope[max(slope)] / slope[min(slope)])
    tails = {law: one["p999"] for law, one in figures.speeds(run, "equal")[figures.OURS].items()}
    worst = max(tails, key=lambda law: tails[law])
    bar("tails", "p99.9, worst law, ns", 1000, tails[worst], digits=0, detail=figures.LAWS[worst])


def _memory_bars(run: dict[str, Any], bar: Any) -> None:
    bar(
        "metadata", "bytes of host memory for each live block", 48, figures.footprints(run, "churn-1MiB")[figures.OURS][1], digits=0
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
    virtual = [one["over_peak"][figures.VIRTUAL] for one in figures.needs(run, "minimalloc")]
    mean = figures.geometric(virtual) if virtual else None
    bar("virtual-minimalloc", "virtual, memory over the live peak: MiniMalloc, mean", 1.0, mean, digits=3)
    laws = {one["name"]: one["over_peak"][figures.VIRTUAL] for one in figures.needs(run, "law")}
    bar("virtual-transformer", "the same: transformer-like", 1.02, laws["transformer"], digits=3)
    bar("virtual-random", "the same: random to 64 MiB", 1.04, laws["random-64MiB"], digits=3)
