# SPDX-License-Identifier: Apache-2.0
"""Lists of gpuconf's objects as HTML tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import errors
from .._core import html, runtime
from .._core.devices import LogicalDevice, PhysicalDevice, VisibleDevice, visible_table
from .._typing import Any
from ..machine.visible import visible_devices
from ..memory import Buffer, stats
from ._devices import ready


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
    return html.titled(
        f"{len(buffers)} buffer{'' if len(buffers) == 1 else 's'}", *(html.Html(one._repr_html_()) for one in buffers)
    )


_TABLES: dict[type, Callable[[Any], Any]] = {
    Buffer: _buffers,
    LogicalDevice: _logical,
    PhysicalDevice: _physical,
    VisibleDevice: visible_table,
}
