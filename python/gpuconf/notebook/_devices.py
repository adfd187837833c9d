# SPDX-License-Identifier: Apache-2.0
"""The table that ``%gpu`` shows: the GPUs and their memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from .. import config, errors
from .._core import html, runtime
from .._core.devices import LogicalDevice, PhysicalDevice, VisibleDevice, limit_of, visible_table
from .._core.table import columns, counted, glyphs_of, human_bytes, job_memory_text
from .._typing import Any
from ..allocators._configure import outside_pools
from ..machine.cards import visible_devices
from ..memory import Buffer, MemoryStats, MemoryUsage, stats, usage

_BAR = 20  # characters


def ready() -> bool:
    """Whether the logical devices exist and reading their statistics changes nothing.

    A TensorFlow session builds devices that later sessions may rebuild, until something else uses them.
    """
    return runtime.initialized() and not runtime.current.joined


def gpus() -> list[str]:
    """Return the names of the logical GPUs, which must exist."""
    return [f"GPU:{number}" for number in range(len(runtime.ordinals()))]


class Devices:
    """A snapshot of the GPUs: with their pools if they are in use, else with their settings. Initializes nothing."""

    def __init__(self) -> None:
        machine = runtime.simulated()
        self._title = f"simulated: {machine}" if machine else "GPUs of this process"
        self._notes: list[str] = []
        self._stats: list[MemoryStats] = []  # one for each row, or none
        self._usages: list[MemoryUsage] = []
        self._rows: list[tuple[str, ...]] = []  # the first is the heading
        if not visible_devices():
            self._title, self._notes = "no GPUs", ["%gpu simulate 2xT4 simulates some"]
        elif ready():
            self._show_pools()
        else:
            self._show_settings()

    def _show_pools(self) -> None:
        names = {one.physical_device: one.name for one in visible_devices()}
        self._rows.append(("device", "GPU", "in use", "peak", "reserved", "limit"))
        for number, ordinal in enumerate(runtime.ordinals()):
            gpu = f"GPU:{number}"
            pool, split = stats(gpu), usage(gpu)
            sizes = (pool.bytes_in_use, pool.peak_bytes_in_use, pool.bytes_reserved, pool.bytes_limit)
            name = names.get(f"/physical_device:GPU:{ordinal}", "")
            self._rows.append((gpu, name, *map(human_bytes, sizes)))
            self._stats.append(pool)
            if pool.budget_limit_bytes:
                budget = (getattr(pool, f"budget_{part}_bytes") for part in ("limit", "pool", "outside", "free"))
                self._notes.append(f"memory of the job on {name or gpu}: {job_memory_text(*budget)}")
            if len(split) > 1 or any(row.tag for row in split):
                self._usages.append(split)

    def _show_settings(self) -> None:
        visible = {gpu.name: gpu for gpu in config.get_visible_devices("GPU")}
        self._rows.append(("device", "GPU", "memory", "limit", "growth"))
        for one in visible_devices():
            gpu = visible.get(one.physical_device or "")
            limit, growth = "-", "-"
            if gpu is None:
                limit = "not visible"
            else:
                limits = config.get_logical_device_configuration(gpu)
                if limits:
                    limit = ", ".join(human_bytes(limit_of(one)) for one in limits)
                growth = {True: "yes", False: "no"}.get(config.experimental.get_memory_growth(gpu), "-")
            name = (one.physical_device or "-").removeprefix("/physical_device:")
            self._rows.append((name, one.name, human_bytes(one.total_memory), limit, growth))
        self._notes = ["not in use yet: limits and growth can still be set"]
        if outside := " and ".join(outside_pools()):
            self._notes = [f"{outside} used the GPU before gpuconf: not shown here, and limits need a new kernel"]

    def __str__(self) -> str:
        rows, bars = self._rows, ["", *map(_text_bar, self._stats)]
        if self._stats:
            rows = [(*row[:2], bar, *row[2:]) for row, bar in zip(rows, bars, strict=True)]
        return "\n".join([self._title, *(columns(rows, left=2) if rows else ()), *self._notes, *map(str, self._usages)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table: html.Html | str = ""
        if self._rows:
            head, *rows = self._rows
            bars = [
                html.memory_bar(s.bytes_in_use, s.peak_bytes_in_use, s.bytes_reserved, s.bytes_limit)
                for s in self._stats
            ]
            if bars:
                cells = [(html.code(row[0]), row[1], bar, *row[2:]) for row, bar in zip(rows, bars, strict=True)]
                table = html.table((*head[:2], "", *head[2:]), cells, left=3)
            else:
                table = html.table(head, [(html.code(row[0]), *row[1:]) for row in rows], left=2)
        usages = [html.Html(one._repr_html_()) for one in self._usages]
        return html.shown(html.titled(self._title, table, *map(html.line, self._notes), *usages))


def _text_bar(pool: MemoryStats) -> str:
    glyphs = glyphs_of(sys.stdout)
    full = min(_BAR, -(-pool.bytes_in_use * _BAR // max(pool.bytes_limit, 1)))
    return f"{glyphs.left}{glyphs.full * full}{glyphs.free * (_BAR - full)}{glyphs.right}"


# Lists of gpuconf's objects as HTML tables.


class ListFormatter:
    """IPython's HTML formatter of lists. A list with anything else in it is formatted as before."""

    def __init__(self, before: Callable[[Any], Any] | None) -> None:
        self._before = before

    def __call__(self, things: Any) -> Any:
        """Return HTML, or None to show the text only."""
        if type(things) is list and things:
            kind = type(things[0])
            if kind in _TABLES and all(type(thing) is kind for thing in things):
                try:
                    return _TABLES[kind](things)
                except errors.GpuconfError:  # such as in a forked child
                    return None
        if self._before is not None:
            return self._before(things)
        # IPython calls the formatter of list for instances of its subclasses, before their own method.
        own = getattr(type(things), "_repr_html_", None)
        return own(things) if own is not None else None


def _physical(devices: Sequence[PhysicalDevice]) -> html.Html | None:
    if not runtime.enumerated():
        return None  # devices that the user constructed: showing them must not list the real ones
    gpus = {one.physical_device: one for one in visible_devices()}
    rows = []
    for device in devices:
        gpu = gpus.get(device.name)
        rows.append(
            (
                html.code(device.name),
                device.device_type,
                *((gpu.name, html.size(gpu.total_memory)) if gpu else ("", "")),
            )
        )
    return html.table(("physical device", "type", "GPU", "memory"), rows, left=3)


def _logical(devices: Sequence[LogicalDevice]) -> html.Html | None:
    if not ready():
        return None
    there = runtime.logical_devices("list_logical_devices")
    rows: list[tuple[object, ...]] = []
    for device in devices:
        row: tuple[object, ...] = ("", "", "")
        if device.device_type == "GPU" and device in there:
            pool = stats(device)
            bar = html.memory_bar(pool.bytes_in_use, pool.peak_bytes_in_use, pool.bytes_reserved, pool.bytes_limit)
            row = (bar, html.size(pool.bytes_in_use), html.size(pool.bytes_limit))
        rows.append((html.code(device.name), device.device_type, *row))
    return html.table(("logical device", "type", "", "in use", "limit"), rows, left=3)


def _buffers(buffers: Sequence[Buffer]) -> html.Html:
    return html.titled(counted(len(buffers), "buffer"), *(html.Html(one._repr_html_()) for one in buffers))


_TABLES: dict[type, Callable[[Any], Any]] = {
    Buffer: _buffers,
    LogicalDevice: _logical,
    PhysicalDevice: _physical,
    VisibleDevice: visible_table,
}
