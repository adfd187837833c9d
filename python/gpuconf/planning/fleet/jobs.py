"""What one recorded job needs."""

from __future__ import annotations

from collections import namedtuple

from ... import errors
from ..._core.table import Table
from ..._typing import Any
from ..plan import plan


class Need(Table, namedtuple("Need", ["gpus", "limit", "policy", "settings"])):
    """The GPUs of a trace, and the least limit under which each of them fits."""

    __slots__ = ()

    gpus: int
    limit: int  # in bytes; the same for each GPU, as `gpuconf run --memory` sets it
    policy: str  # the one that needs the least
    settings: str  # as in PlanResult


def need(trace: Any, policies: tuple[str, ...]) -> Need:
    """Replay a trace: a file, a Trace or a Recording."""
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
    return best


def attempt(trace: Any, policies: tuple[str, ...]) -> Need | str:
    """Return what a trace needs, or why it cannot be read. The other traces do not suffer from a bad one."""
    try:
        return need(trace, policies)
    except (errors.GpuconfError, OSError) as error:
        return str(error)
