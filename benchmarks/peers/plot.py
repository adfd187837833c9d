"""The plot of a run: speed by trace, speed by live blocks, memory needed, host memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from benchmarks.peers import figures

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

# Okabe and Ito's colors, which color-blind people can distinguish; each also has its own marker.
LOOKS = {
    figures.OURS: ("#000000", "o"),
    figures.RULE: ("#7f7f7f", "o"),
    figures.VIRTUAL: ("#000000", "*"),
    figures.TENSORFLOW: ("#E69F00", "s"),
    figures.TORCH: ("#D55E00", "^"),
    figures.EXPANDABLE: ("#D55E00", "v"),
    figures.RMM: ("#009E73", "D"),
    figures.OFFSET: ("#0072B2", "P"),
    figures.VMA: ("#56B4E9", "X"),
    figures.TLSF: ("#CC79A7", "h"),
}


def draw(run: dict[str, Any], path: Path) -> None:
    """Draw and save."""
    pyplot.rcParams.update({"font.size": 10, "axes.titlesize": 11, "axes.axisbelow": True})
    figure, axes = pyplot.subplots(2, 2, figsize=(14, 10), layout="constrained")
    _laws(axes[0][0], run)
    _slope(axes[0][1], run)
    _needs(axes[1][0], run)
    _footprints(axes[1][1], run)
    handles = {}
    for ax in axes.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    order = [who for who in LOOKS if who in handles]
    figure.legend([handles[who] for who in order], order, loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def _points(ax: Axes, who: str, at: list[float], values: list[float], *, line: bool = False) -> None:
    color, marker = LOOKS[who]
    large = {"o": 60, "*": 150}.get(marker, 45)
    if line:
        ax.plot(at, values, color=color, linewidth=2 if who == figures.OURS else 1.2, zorder=2)
    ax.scatter(
        at,
        values,
        color=color,
        marker=marker,
        s=large,
        label=who,
        zorder=4 if who in (figures.OURS, figures.VIRTUAL) else 3,
    )


def _spread(ax: Axes, rows: list[str], values: dict[str, dict[str, float]]) -> None:
    """Contenders side by side in each row, so that they do not overlap."""
    for i, (who, by_row) in enumerate(values.items()):
        shift = (i - (len(values) - 1) / 2) * 0.075
        there = [(n + shift, by_row[row]) for n, row in enumerate(rows) if row in by_row]
        if there:
            _points(ax, who, [x for x, _ in there], [y for _, y in there])
    for n in range(1, len(rows)):
        ax.axvline(n - 0.5, color="#dddddd", linewidth=0.8, zorder=0)
    ax.grid(axis="y", color="#dddddd")


def _short(name: str) -> str:
    """A trace's name on two lines."""
    return name.replace(" to ", "\nto ").replace(", ", ",\n").replace("-like", "-\nlike")


def _laws(ax: Axes, run: dict[str, Any]) -> None:
    table = figures.speeds(run, "equal")
    values = {who: {law: one["best"] for law, one in table[who].items()} for who in figures.EQUAL if who in table}
    _spread(ax, list(figures.LAWS), values)
    ax.set_yscale("log")
    ax.set_xticks(range(len(figures.LAWS)), [_short(name) for name in figures.LAWS.values()])
    ax.set_ylabel("ns for one allocation or free")
    ax.set_title("Speed at equal interface (lock, free by address, statistics); lower is better")


def _slope(ax: Axes, run: dict[str, Any]) -> None:
    for who, by_live in figures.slopes(run).items():
        if who in LOOKS:
            _points(ax, who, [float(n) for n in by_live], list(by_live.values()), line=True)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("live blocks (churn, 512 B to 1 MiB)")
    ax.set_ylabel("ns for one allocation or free")
    ax.grid(color="#dddddd")
    ax.set_title("The price of many live blocks, equal interface; lower is better")


def _needs(ax: Axes, run: dict[str, Any]) -> None:
    rows = [law for law in figures.LAWS if law != "hot-pair"]
    labels = [_short(figures.LAWS[law]) for law in rows]
    values: dict[str, dict[str, float]] = {}
    for one in figures.needs(run, "law"):
        for who, over in one["over"].items():
            values.setdefault(who, {})[one["name"]] = over
    for kinds, label in (
        (("guillotine", "pinwheel"), "packings,\nmean of 8"),
        (("minimalloc",), "MiniMalloc,\nmean of 11"),
    ):
        for who in list(values):
            mean = figures.mean_need(run, kinds, who)
            if mean:
                values[who][label] = mean
        if any(label in by_row for by_row in values.values()):
            rows.append(label)
            labels.append(label)
    _spread(ax, rows, {who: values[who] for who in LOOKS if who in values})
    ax.axhline(1, color="#000000", linewidth=1, linestyle="--", zorder=1)
    ax.set_xticks(range(len(rows)), labels)
    ax.set_ylabel("needed / live peak, or / known optimum")
    ax.set_title("Memory needed; lower is better")


def _footprints(ax: Axes, run: dict[str, Any]) -> None:
    found = figures.footprints(run, "churn-1MiB")
    order = sorted(found, key=lambda who: found[who][1], reverse=True)
    ax.barh(order, [found[who][1] for who in order], color=[LOOKS[who][0] for who in order])
    for n, who in enumerate(order):
        ax.text(found[who][1] * 1.1, n, f"{found[who][1]:,.0f}", va="center")
    ax.set_xscale("log")
    ax.set_xlim(10, max(found[who][1] for who in order) * 4)
    ax.set_xlabel("bytes of host memory for each live block (50 000 live)")
    ax.grid(axis="x", color="#dddddd")
    ax.set_title("Metadata; lower is better")
