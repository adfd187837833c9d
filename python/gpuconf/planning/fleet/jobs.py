# SPDX-License-Identifier: Apache-2.0
"""What one recorded job needs."""

from __future__ import annotations

from bisect import bisect_left
from collections import namedtuple

from ... import errors
from ..._core.table import Table
from ..._typing import Any
from ..plan import Plan, plan


class Need(Table, namedtuple("Need", ["gpus", "limit", "policy", "settings", "curve"], defaults=((),))):
    """The GPUs of a trace, and the least limit under which each of them fits."""

    __slots__ = ()

    gpus: int
    limit: int  # in bytes; the same for each GPU, as `gpuconf run --memory` sets it
    policy: str  # the one that needs the least
    settings: str  # as in PlanResult
    curve: tuple[tuple[float, int], ...]  # with phases: until when, in seconds since the start, at most how many bytes are in use


def need(trace: Any, policies: tuple[str, ...], phases: bool = False) -> Need:
    """Replay a trace: a file, a Trace or a Recording. ``phases`` adds the curve."""
    found = plan(trace, policy=policies)
    if not found.results:
        return Need(1, 1 << 20, policies[0], "")  # no allocations; the smallest limit there is
    best: Need | None = None
    for policy in policies:
        results = [result for result in found.results if result.policy == policy]
        worst = max(results, key=lambda result: result.least_limit)
        if best is None or worst.least_limit < best.limit:
            best = Need(len(results), worst.least_limit, policy, worst.settings)
    assert best is not None
    return best._replace(curve=_curve(found, best)) if phases else best


def _curve(found: Plan, best: Need) -> tuple[tuple[float, int], ...]:
    """Return the memory in use over time, at each time that of the GPU with the most."""
    gpus = {result.gpu for result in found.results}
    lines = [[(point.time, point.bytes_in_use) for point in found.timeline(gpu, best.policy)] for gpu in gpus]
    if len(lines) == 1:
        return tuple(lines[0])
    times = sorted({time for line in lines for time, _ in line})
    return tuple((time, max(_at(line, time) for line in lines)) for time in times)


def _at(line: list[tuple[float, int]], time: float) -> int:
    """Return the bytes of the interval that contains a time or ends at it."""
    place = bisect_left(line, time, key=lambda point: point[0])
    return line[place][1] if place < len(line) else 0


def attempt(trace: Any, policies: tuple[str, ...], phases: bool = False) -> Need | str:
    """Return what a trace needs, or why it cannot be read. The other traces do not suffer from a bad one."""
    try:
        return need(trace, policies, phases)
    except (errors.GpuconfError, OSError) as error:
        return str(error)
