# SPDX-License-Identifier: Apache-2.0
"""The frame of an HTML page with figures: its style, plotly's JavaScript library, and what draws the figures with
it.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence

from ..._core.table import human_bytes
from ..._typing import Any


def frame(title: str, head: str, body: str, figures: dict[str, Any], library: str) -> str:
    """Return a page.

    ``figures`` are those of the elements of class figure, by id; ``library`` is the text of plotly.min.js.
    """
    data = json.dumps(figures, separators=(",", ":")).replace("<", "\\u003c")  # no text may end the script element
    texts = {"title": title, "name": title.capitalize(), "head": html.escape(head), "body": body}
    return _PAGE.format(**texts, style=_STYLE, script=_SCRIPT, library=library, data=data)


def bytes_axis(most: int) -> dict[str, Any]:
    """Return an axis with ticks in binary units."""
    step = 256
    while most / step > 6:
        step *= 2
    ticks = list(range(0, int(most * 1.05) + step, step))
    return {"tickvals": ticks, "ticktext": [human_bytes(tick) for tick in ticks], "rangemode": "tozero"}


def figure(data: list[dict[str, Any]], left: int, right: int, **layout: Any) -> dict[str, Any]:
    """Return a figure of plotly's, with so many pixels on the left and on the right of it."""
    return {"data": data, "layout": {**layout, "margin": {"l": left, "r": right, "t": 10, "b": 40}}}


def over_time(data: list[dict[str, Any]], most: int, unit: str) -> dict[str, Any]:
    """Return a figure of bytes over time, or over events, with its legend below."""
    yaxis = {**bytes_axis(most), "range": [0, most * 1.05 or 1]}
    legend = {"orientation": "h", "y": -0.12}
    return figure(data, 70, 20, hovermode="x unified", xaxis={"ticksuffix": unit}, yaxis=yaxis, legend=legend)


def line(times: Sequence[float], values: Sequence[int], name: str, **style: Any) -> dict[str, Any]:
    """Return a line of bytes over time."""
    name = html.escape(name)
    texts = [human_bytes(value) for value in values]
    data = {"type": "scatter", "mode": "lines", "name": name, "x": list(times), "y": list(values), "text": texts}
    return {**data, "hovertemplate": f"{name}: %{{text}}<extra></extra>", **style}


def pieces(rows: dict[str, list[Any]], colors: Sequence[str], hover: str) -> dict[str, Any]:
    """Return the bars that show the pieces of memory, in rows."""
    marker = {"color": colors, "line": {"width": 0.5, "color": "rgba(128,128,128,0.6)"}}
    hover = f"%{{{hover}}}<extra></extra>"
    return {"type": "bar", "orientation": "h", **rows, "marker": marker, "hovertemplate": hover}


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> str:
    """Return a table. The cells after the first ``left`` are numbers."""

    def row(cells: Sequence[str], tag: str) -> str:
        inside = (
            f"<{tag}{'' if i < left else ' class=number'}>{html.escape(cell)}</{tag}>" for i, cell in enumerate(cells)
        )
        return f"<tr>{''.join(inside)}</tr>"

    return f'<div class="table"><table>{row(head, "th")}{"".join(row(cells, "td") for cells in rows)}</table></div>'


_STYLE = """
:root{color-scheme:light dark;--text:#1b1f24;--dim:#59636e;--line:#d1d9e0;--back:#fff;--grid:#e6e9ec}
@media (prefers-color-scheme:dark){:root{--text:#e6edf3;--dim:#9198a1;--line:#3d444d;--back:#0d1117;--grid:#2a3037}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--text);background:var(--back);margin:0 auto;padding:16px;
max-width:1280px}
h1{font-size:22px;margin:0}h2{font-size:19px;margin:28px 0 8px}h3{font-size:15px;margin:24px 0 6px}
p{color:var(--dim);margin:4px 0}
dl{display:flex;flex-wrap:wrap;gap:8px 28px;margin:0}dl div{min-width:110px}
dt{color:var(--dim);font-size:13px}dd{margin:0;font-size:17px;font-variant-numeric:tabular-nums}
.table{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:4px 14px 4px 0;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--dim);font-weight:normal;font-size:13px}.number{text-align:right}
.figure{width:100%}pre{overflow-x:auto;font-size:13px}code{overflow-wrap:anywhere}
summary{cursor:pointer;padding:2px 0}.module{margin-left:16px}
@media(max-width:600px){body{padding:8px}th,td{white-space:normal;padding-right:8px;font-size:12px}
td:first-child{overflow-wrap:anywhere;min-width:64px}td.number{white-space:nowrap}
pre{font-size:11px}.module{margin-left:10px}}
"""

_SCRIPT = """
(function () {
  var figures = JSON.parse(document.getElementById('figures').textContent);
  var dark = window.matchMedia('(prefers-color-scheme: dark)');
  function look(given) {
    var layout = JSON.parse(JSON.stringify(given));  // plotly compares it with the one that it has
    var style = getComputedStyle(document.documentElement);
    var text = style.getPropertyValue('--text').trim(), grid = style.getPropertyValue('--grid').trim();
    var back = style.getPropertyValue('--back').trim();
    layout.font = {color: text, family: 'system-ui, sans-serif', size: 12};
    layout.paper_bgcolor = layout.plot_bgcolor = 'rgba(0,0,0,0)';
    layout.hoverlabel = {align: 'left', bgcolor: back, bordercolor: grid, font: {color: text}};
    ['xaxis', 'yaxis'].forEach(function (axis) {
      layout[axis].gridcolor = layout[axis].zerolinecolor = layout[axis].linecolor = grid;
    });
    return layout;
  }
  function draw() {
    Object.keys(figures).forEach(function (name) {
      var figure = figures[name];
      if (figure.texts) {
        figure.data[0].hovertext = figure.data[0].customdata.map(function (number) { return figure.texts[number]; });
      }
      Plotly.react(name, figure.data, look(figure.layout), {
        displaylogo: false, responsive: true, displayModeBar: false});
    });
    document.documentElement.dataset.drawn = Math.round(performance.now());
  }
  draw();
  dark.addEventListener('change', draw);
})();
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">
<title>gpuconf {title}</title>
<style>{style}</style>
</head>
<body>
<h1>{name}</h1>
<p>{head}</p>
{body}
<script>{library}</script>
<script type="application/json" id="figures">{data}</script>
<script>{script}</script>
</body>
</html>
"""
