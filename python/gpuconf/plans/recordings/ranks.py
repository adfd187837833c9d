# SPDX-License-Identifier: Apache-2.0
"""The traces of a job's processes, side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ... import errors
from ..._core.table import columns, human_bytes, human_limit
from ..._typing import Any
from .replay import SCHEMA, Plan

_SUFFIXES = (".csv", ".pickle", ".pkl")


def files_of(folder: str) -> list[str]:
    """Return the traces in a folder, by name. Raises ValueError if there are none."""
    names = sorted(name for name in os.listdir(folder) if name.lower().endswith(_SUFFIXES))
    if not names:
        raise errors.InvalidArgumentError(f"no traces in {folder!r}: expected files ending in {', '.join(_SUFFIXES)}")
    return [os.path.join(folder, name) for name in names]


def table(plans: Iterable[tuple[str, Plan]]) -> list[str]:
    """Return a line for each trace and policy-independent peak, with the least limit under each policy; the largest
    need first.
    """
    plans = sorted(plans, key=lambda named: -need(named[1]))
    policies = plans[0][1].policies
    rows = [("trace", "fits", "live at peak", *(policy.removeprefix("pytorch-") for policy in policies))]
    for name, plan in plans:
        fits = {True: "yes", False: "no", None: "-"}[plan.fits]
        live = max((usage.peak_bytes_in_use for usage in plan.usages), default=0)
        rows.append((name, fits, human_bytes(live), *(human_limit(least) for least in _least(plan, policies))))
    return columns(rows, left=2)


def need(plan: Plan) -> int:
    """Return the least limit in bytes under the first policy, PyTorch's unless others were chosen."""
    return next(iter(_least(plan, plan.policies)), 0)


def _least(plan: Plan, policies: Iterable[str]) -> Iterator[int]:
    for policy in policies:
        yield max((result.least_limit for result in plan.results if result.policy == policy), default=0)


def to_dict(plans: Iterable[tuple[str, Plan]]) -> dict[str, Any]:
    """Return the plans as ``gpuconf plan FOLDER --json`` prints them, the largest need first."""
    ordered = sorted(plans, key=lambda named: -need(named[1]))
    return {"schema": SCHEMA, "traces": [{"trace": name, **plan.to_dict()} for name, plan in ordered]}
