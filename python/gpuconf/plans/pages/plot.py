# SPDX-License-Identifier: Apache-2.0
"""Memory over time, as a matplotlib figure or as text bars."""

from __future__ import annotations

import os

from ... import errors
from ..._core import texts
from ..._core.files import replacing
from ..._core.table import BLOCKS, Glyphs, human_bytes
from ..._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..recordings.replay import Plan, PlanPoint


def checked_figure(path: str) -> Any:
    """Return matplotlib's class of figures, which can write a file of that name."""
    try:
        from matplotlib.figure import Figure  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise texts.missing("plots need", "matplotlib", "plot", error) from None
    known = Figure().canvas.get_supported_filetypes()
    if os.path.splitext(path)[1][1:].lower() not in known:
        raise errors.InvalidArgumentError(
            f"cannot plot to {path!r}: a file name ends in one of .{', .'.join(sorted(known))}"
        )
    return Figure


def draw(plan: Plan, path: str) -> None:
    """Draw a panel for each logical GPU: memory in use as an area, memory reserved by each policy as lines, and the
    limit.
    """
    figure_class = checked_figure(path)
    gpus = [usage.gpu for usage in plan.usages]
    figure = figure_class(figsize=(10, 1 + 3.5 * max(len(gpus), 1)), layout="constrained")
    panels = figure.subplots(max(len(gpus), 1), squeeze=False)[:, 0]
    for gpu, panel in zip(gpus, panels, strict=False):
        most = max((p.bytes_reserved for policy in plan.policies for p in plan.timeline(gpu, policy)), default=0)
        unit, name = next(
            (u, n) for u, n in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")) if most >= u or u == 1 << 10
        )
        for i, policy in enumerate(plan.policies):
            points = plan.timeline(gpu, policy)
            times, label = _times(points)
            if policy == plan.policies[-1]:
                in_use = [p.bytes_in_use / unit for p in points]
                panel.fill_between(times, in_use, step="pre", color="#4e79a7", alpha=0.35, label=f"in use ({policy})")
                panel.set_xlabel(label)
            style = ("solid", "dashed", "dotted")[i % 3]
            reserved = [p.bytes_reserved / unit for p in points]
            panel.step(times, reserved, where="pre", linestyle=style, label=f"reserved ({policy})")
        if plan.limit is not None and plan.limit <= 4 * most:
            panel.axhline(plan.limit / unit, color="#e15759", linewidth=1, label=f"limit {human_bytes(plan.limit)}")
        panel.set_ylim(bottom=0)
        panel.set_ylabel(name)
        panel.set_title(f"GPU:{gpu}", loc="left")
        panel.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        panel.spines[["top", "right"]].set_visible(False)
    with replacing(path, "wb") as file:
        figure.savefig(file, dpi=120, format=os.path.splitext(path)[1][1:] or None)


def _times(points: tuple[PlanPoint, ...]) -> tuple[list[float], str]:
    """Return the x coordinates of the points, and the label: their times, or their indexes if the trace has no
    times.
    """
    if points and points[-1].time > 0:
        return [p.time for p in points], "seconds"
    return [float(i) for i in range(len(points))], "progress of the trace"


def bars(plan: Plan, glyphs: Glyphs = BLOCKS, rows: int = 20, width: int = 50) -> list[str]:
    """Return lines of text with time running down: memory in use, reserved, and left up to the limit or the highest
    point.
    """
    lines = []
    policy = (plan.fitting or plan.policies or ("",))[-1]
    for usage in plan.usages:
        points = plan.timeline(usage.gpu, policy)
        if not points:  # nothing but failures
            continue
        full = max([plan.limit or 0, *(p.bytes_reserved for p in points)])
        lines.append(
            f"GPU:{usage.gpu} {policy}: {glyphs.full} in use, {glyphs.part} reserved, full width is {human_bytes(full)}"
        )
        count = min(rows, len(points))
        scale, unit = (1, "s ") if points[-1].time >= 1 else (1000, "ms")
        for row in range(count):
            part = points[row * len(points) // count : (row + 1) * len(points) // count]
            in_use, reserved = max(p.bytes_in_use for p in part), max(p.bytes_reserved for p in part)
            used, held = -(-in_use * width // full), -(-reserved * width // full)
            bar = glyphs.full * used + glyphs.part * (held - used) + glyphs.free * (width - held)
            lines.append(
                f"{part[-1].time * scale:>10.3f} {unit} {glyphs.left}{bar}{glyphs.right} {human_bytes(in_use)}"
            )
    return lines
