# SPDX-License-Identifier: Apache-2.0
"""The contents of the dashboard's page: a bar for each GPU of each worker, by library and tag, and the same numbers
as a table.
"""

from __future__ import annotations

from bokeh.core.properties import without_property_validation
from bokeh.layouts import column
from bokeh.models import BasicTicker, ColumnDataSource, Div, FactorRange, HoverTool, NumeralTickFormatter
from bokeh.plotting import figure
from distributed.dashboard.components import DashboardComponent, add_periodic_callback
from distributed.dashboard.components.scheduler import BOKEH_THEME, TICKS_1024, env
from distributed.dashboard.utils import update
from distributed.utils import log_errors

from .._core.table import human_bytes
from .._typing import Any
from ..cluster.rows import ClusterMemory, ProcessRow
from ..memory._usage import UNTAGGED

_EVERY_MS = 500
_MOST_BARS = 100  # the table has all workers
_ROW = 26  # pixels of a bar
# Colors that stay apart for color-blind readers (Okabe and Ito's).
_COLORS = {"torch": "#D55E00", "cupy": "#009E73", "numba": "#0072B2", "gpuconf": "#56B4E9", "c": "#E69F00"}


def fill(scheduler: Any, extra: Any, document: Any) -> None:
    """Fill a Bokeh document."""
    shown = _Memory(scheduler)
    shown.update()
    add_periodic_callback(document, shown, _EVERY_MS)
    document.title = "Dask: GPU memory"
    document.add_root(shown.root)
    document.template = env.get_template("simple.html")
    document.template_variables.update(extra)
    document.theme = BOKEH_THEME


class _Memory(DashboardComponent):  # type: ignore[misc]  # Dask has no types
    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.bars = ColumnDataSource({name: [] for name in ("y", "left", "right", "color", "what", "size", "card")})
        self.limits = ColumnDataSource({name: [] for name in ("y", "limit", "size")})
        self.summary = Div(text="", name="gpuconf_summary")
        self.figure = _figure(self.bars, self.limits)
        self.table = Div(text="", sizing_mode="stretch_width", name="gpuconf_table")
        self.root = column(self.summary, self.figure, self.table, sizing_mode="stretch_width")

    @without_property_validation  # type: ignore[untyped-decorator]
    @log_errors  # type: ignore[untyped-decorator]
    def update(self) -> None:
        """Show what the workers' last heartbeats reported."""
        memory = ClusterMemory(
            ProcessRow.of(str(worker.name), address, row)
            for address, worker in self.scheduler.workers.items()
            for row in worker.metrics.get("gpuconf") or ()
        )
        self.summary.text = "" if memory else "No worker reports GPU memory."
        bars, limits = _bars(memory)
        names = list(dict.fromkeys(limits["y"]))
        if self.figure.y_range.factors != names[::-1]:
            self.figure.y_range.factors = names[::-1]
            self.figure.height = 80 + _ROW * max(1, len(names))
        update(self.bars, bars)
        update(self.limits, limits)
        self.table.text = memory._repr_html_()


def _figure(bars: ColumnDataSource, limits: ColumnDataSource) -> Any:
    shown = figure(
        title="GPU memory in use, by worker, library and tag; the outline is the limit",
        y_range=FactorRange(),
        tools="",
        toolbar_location=None,
        height=200,
        sizing_mode="stretch_width",
        name="gpuconf_bars",
    )
    shown.hbar(y="y", left=0, right="limit", height=0.8, source=limits, fill_alpha=0, line_color="gray")
    glyph = shown.hbar(y="y", left="left", right="right", height=0.7, source=bars, color="color", line_color="white")
    shown.add_tools(HoverTool(renderers=[glyph], tooltips="@y, @card: @what, @size", point_policy="follow_mouse"))
    shown.x_range.start = 0
    shown.xaxis.ticker = BasicTicker(**TICKS_1024)
    shown.xaxis.formatter = NumeralTickFormatter(format="0.0 b")
    return shown


def _bars(found: ClusterMemory) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    bars: dict[str, list[Any]] = {name: [] for name in ("y", "left", "right", "color", "what", "size", "card")}
    limits: dict[str, list[Any]] = {name: [] for name in ("y", "limit", "size")}
    ends: dict[str, int] = {}
    for row in found:
        where = f"{row.process} {row.device}".rstrip()
        if where not in ends:
            if len(ends) == _MOST_BARS:
                break
            ends[where] = 0
            for name, value in zip(limits, (where, row.bytes_limit, human_bytes(row.bytes_limit)), strict=True):
                limits[name].append(value)
        if not row.bytes_in_use:
            continue
        left, ends[where] = ends[where], ends[where] + row.bytes_in_use
        what = f"{row.library}, {row.tag or UNTAGGED}"
        color = _COLORS.get(row.library, "#999999")
        values = (where, left, ends[where], color, what, human_bytes(row.bytes_in_use), row.card[:12])
        for name, value in zip(bars, values, strict=True):
            bars[name].append(value)
    return bars, limits
