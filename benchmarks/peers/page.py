"""The parts of benchmarks/reports/allocator-benchmarks.md that come from a run's measurements.

The text around them is in the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks.peers import figures
from benchmarks.report import table


def parts(run: dict[str, Any]) -> dict[str, str]:
    """By the name in the page's comment."""
    return {name: part(run) for name, part in PARTS.items()}


def _run(run: dict[str, Any]) -> str:
    return (
        "Written by `make bench WHAT=allocator` on {date}: {cpu}, {cores} cores, {memory} of memory, {system}; "
        "{go}, g++ "
        "{gcc}, {rust}."
        "\n\nThe run took {seconds} s for {rounds} rounds; the load average was {load} at the start and {load_end} at "
        "the end."
    ).format(**run["machine"])


def _equal(run: dict[str, Any]) -> str:
    blocks = ", ".join(f"{figures.LAWS[law['name']]} {law['blocks']:,}" for law in run["result"]["laws"])
    return f"Most live blocks: {blocks}.\n\n{_speeds(run, 'equal', figures.EQUAL, 'best')}"


def _tails(run: dict[str, Any]) -> str:
    clocks = ", ".join(f"{ns:.0f} ns in {language}" for language, ns in run["result"]["clock_ns"].items() if ns)
    return f"Each includes reading the clock: {clocks}.\n\n{_speeds(run, 'equal', figures.EQUAL, 'p999')}"


def _bare(run: dict[str, Any]) -> str:
    return _speeds(run, "bare", figures.BARE, "best")


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


def _floor(run: dict[str, Any]) -> str:
    floor = run["result"]["floor"]
    rows = [{"what": "a lock and an unlock of Go's `sync.Mutex`", "time": f"{floor['lock_ns']:.1f} ns"}]
    rows += [
        {"what": f"one read of a table of {_binary(one['table_bytes'])}", "time": f"{one['ns']:.1f} ns"}
        for one in floor["reads"]
    ]
    return table(rows)


def _binary(size: int) -> str:
    """A power of two in bytes."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def _small(run: dict[str, Any]) -> str:
    found = figures.speeds(run, "equal", "small")
    names = {"hot-pair": "hot pair, 4 KiB", "churn-64KiB": "churn, 512 B to 64 KiB, 10 000 live"}
    cells = {who: {names[law]: _ns(one["best"]) for law, one in by_law.items()} for who, by_law in found.items()}
    return _rows(run, (*figures.EQUAL, figures.MIMALLOC), list(names.values()), cells)


def _threads(run: dict[str, Any]) -> str:
    """The tables of the races of threads."""
    speeds: dict[str, dict[str, str]] = {}
    tails: dict[str, dict[str, str]] = {}
    columns = []
    for one in run["result"]["threads"]:
        columns.append(f"{one['threads']}, {'a pool each' if one['each'] else 'one pool'}")
        for who, timing in one["times"].items():
            speeds.setdefault(who, {})[columns[-1]] = f"{timing['mops']:,.1f}"
            tails.setdefault(who, {})[columns[-1]] = _ns(timing["p999"])
    return (
        "Millions of allocations and frees a second, of all threads together; the best round:\n\n"
        f"{_rows(run, figures.THREADED, columns, speeds)}\n\n"
        "The 99.9th percentile of single operations in ns, with the clock; the lowest of the rounds:\n\n"
        f"{_rows(run, figures.THREADED, columns, tails)}"
    )


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
                {
                    "problem": f"{title}: missing; set MINIMALLOC to the folder of its problems",
                    **dict.fromkeys(order, "-"),
                }
            )
            continue
        for one in found:
            name = f"MiniMalloc {one['name']}" if kind == "minimalloc" else one["name"]
            rows.append(
                {"problem": name, **{who: f"{one['over'][who]:.3f}" if who in one["over"] else "-" for who in order}}
            )
        means = {who: figures.mean_need(run, (kind,), who) for who in order}
        rows.append(
            {
                "problem": f"**{title}, mean**",
                **{who: f"**{mean:.3f}**" if mean else "-" for who, mean in means.items()},
            }
        )
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
    rows = [
        {
            "contender": "**gpuconf**",
            "from": "this tree",
            "version": "this one: exact split, and TensorFlow's split rule",
        }
    ]
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
        found.setdefault((one["name"], ("failed: " if one["broken"] else "not run: ") + one["why"]), []).append(
            one["trace"]
        )
    for path, why in run["result"]["missing"].items():
        found[path.rpartition("/")[2], "could not be opened: " + why] = ["all"]
    lines = [f"- {who}, {', '.join(dict.fromkeys(traces))}: {why}" for (who, why), traces in found.items()]
    return "\n".join(lines or ["- none"])


class Goal(NamedTuple):
    """A goal, and what a run found."""

    what: str
    sign: str
    goal: float | None  # None: the documentation promises what rules one out
    digits: int
    figure: float | None
    detail: str = ""
    why: str = ""  # it was missed, or there is none

    def row(self) -> dict[str, str]:
        """The goal's row in the table."""
        row = {"goal": self.what if self.goal is None else f"{self.what} {self.sign} {self.goal:,.{self.digits}f}"}
        if self.figure is None:
            return row | {"measured": "-", "": "not measured", "why": "its peer or data is missing, see below"}
        row["measured"] = f"{self.figure:,.{self.digits}f}" + (f" ({self.detail})" if self.detail else "")
        if self.goal is None:
            return row | {"": "no goal", "why": self.why}
        if self.figure >= self.goal if self.sign == ">=" else self.figure <= self.goal:
            return row | {"": "met", "why": ""}
        by = abs(self.figure / self.goal - 1) * 100 if self.goal else 0
        missed = f"missed by {by:.0f} %" if by >= 1 else "missed by less than 1 %" if self.goal else "missed"
        return row | {"": missed, "why": self.why}


def goals(run: dict[str, Any]) -> str:
    """The goals, each with its result."""
    return table([goal.row() for goal in (*_speed_goals(run), *_memory_goals(run))])


def _speed_goals(run: dict[str, Any]) -> Iterator[Goal]:
    # The best of an incomplete set would be misleading.
    fastest = figures.fastest_peer(run) if figures.complete(run) else {}
    over = [ratio for _, ratio in fastest.values()]
    worst = max(fastest, key=lambda law: fastest[law][1], default="")
    detail = f"{figures.LAWS[worst]}: {fastest[worst][0]}" if over else ""
    mean = figures.geometric(over) if over else None
    see = "see Why not faster"
    yield Goal("time over the fastest peer's, mean of six laws", "<=", 1.1, 2, mean, "", see)
    yield Goal("the same, worst law", "<=", 1.3, 2, max(over, default=None), detail, see)
    tree = "a tree with few free blocks fits in the cache and is then fast"
    for who, goal, why in ((figures.TORCH, 3.5, tree), (figures.TENSORFLOW, 2.0, "")):
        times = list(figures.ratios(run, who).values())
        yield Goal(f"times as fast as {who}, mean", ">=", goal, 1, figures.geometric(times) if times else None, "", why)
    rmm = figures.ratios(run, figures.RMM)
    short = max((1 / rmm[law] for law in ("hot-pair", "transformer") if law in rmm), default=None)
    why = "one or two free blocks: a list's first is the best"
    yield Goal("time over RMM's list with at most 250 blocks, worst", "<=", 1.25, 2, short, "", why)
    equal = figures.speeds(run, "equal")
    hot = equal[figures.OURS]["hot-pair"]["best"]
    walk = equal.get(figures.RMM, {}).get("random-1MiB", {}).get("best", 0)
    why = f"that is {walk / 1000:.1f} ns; the hot pair, which misses no cache, takes {hot:.1f} ns"
    yield Goal("times as fast as RMM's list with 36 000 blocks", ">=", 1000, 0, rmm.get("random-1MiB"), "", why)
    slope = figures.slopes(run)[figures.OURS]
    peer, theirs, ours = figures.most_live(run)
    yield Goal(
        "time with 10^6 live blocks over the fastest peer's",
        "<=",
        0.6,
        2,
        ours / theirs if fastest else None,
        peer,
        see,
    )
    why = (
        "the tables of a million blocks are larger than the cache; the peers' are too, and their times rise in the "
        "same way"
    )
    yield Goal(
        "time with 10^6 live blocks over that with 10^3", "<=", 2.5, 2, slope[max(slope)] / slope[min(slope)], "", why
    )
    tails = {law: one["p999"] for law, one in equal[figures.OURS].items()}
    worst = max(tails, key=lambda law: tails[law])
    why = "the first use of a page of the tables, which the system then provides, and preemption by other programs"
    yield Goal("p99.9, worst law, ns", "<=", 1000, 0, tails[worst], figures.LAWS[worst], why)


def _memory_goals(run: dict[str, Any]) -> Iterator[Goal]:
    each = figures.footprints(run, "churn-1MiB")[figures.OURS][1]
    yield Goal("bytes of host memory for each live block", "<=", 64, 0, each)
    large = figures.footprints(run, "churn-8MiB")
    theirs = large.get(figures.TENSORFLOW)
    over = large[figures.OURS][0] / theirs[0] if theirs else None
    yield Goal("host memory for 139 GiB over TensorFlow's", "<=", 0.02, 4, over)
    why = "among holes of one size the lowest is not always used: finding it would cost time"
    mean = figures.mean_need(run, ("minimalloc",), figures.OURS)
    yield Goal("MiniMalloc, over the optimum, mean", "<=", 1.54, 3, mean, "", why)
    for kinds, what, goal in (
        (("law",), "laws", 1.01),
        (("guillotine", "pinwheel", "minimalloc"), "known optima", None),
    ):
        found = {}
        for one in (one for kind in kinds if figures.complete(run) for one in figures.needs(run, kind)):
            if best := min((one["over"][who] for who in figures.PEERS if who in one["over"]), default=None):
                found[one["name"]] = (one["over"][figures.OURS] / best, best, one["over"])
        worst = max(found, key=lambda name: found[name][0], default="")
        ratio, best, over = found.get(worst, (None, 0, {}))
        detail, why = "", "for random lifetimes chance decides between good fits"
        if found:
            detail = (
                f"{figures.LAWS.get(worst, worst)}; mean "
                f"{figures.geometric([ratio for ratio, _, _ in found.values()]):.3f}"
            )
        if found and goal is None:
            why = (
                "gpuconf promises [best fit](../../docs/limits.md#how-it-works), which needs "
                f"{over[figures.OURS]:.3f} there, and "
                f"{over[figures.RMM]:.3f} in RMM's list; another rule needs {best:.3f}"
            )
        yield Goal(f"address space over the best peer's, {what}, worst", "<=", goal, 3, ratio, detail, why)
    both = figures.faster_and_tighter(run) if figures.complete(run) else None
    what, count = "laws on which a peer is faster and needs less memory", None if both is None else len(both)
    yield Goal(what, "<=", 0, 0, count, "; ".join(both or []))
    virtual = [one["over_peak"][figures.VIRTUAL] for one in figures.needs(run, "minimalloc")]
    mean = figures.geometric(virtual) if virtual else None
    yield Goal("virtual, memory over the live peak: MiniMalloc, mean", "<=", 1.0, 3, mean)
    laws = {one["name"]: one["over_peak"][figures.VIRTUAL] for one in figures.needs(run, "law")}
    yield Goal("the same: transformer-like", "<=", 1.02, 3, laws["transformer"])
    yield Goal("the same: random to 64 MiB", "<=", 1.04, 3, laws["random-64MiB"])


PARTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "run": _run,
    "goals": goals,
    "contenders": _peers,
    "excluded": _out,
    "equal": _equal,
    "tails": _tails,
    "bare": _bare,
    "slope": _slope,
    "floor": _floor,
    "small": _small,
    "threads": _threads,
    "host memory": _footprints,
    "needs": _needs,
    "optimum": _optimum,
    "recorded": recorded,
}
