# SPDX-License-Identifier: Apache-2.0
"""``gpuconf plan --fleet``."""

from __future__ import annotations

import json
import os

from ..plans.fleets.fleet import RESERVE, FleetPlan, find
from ..plans.pages import fleet_page, report
from . import console
from .console import DOES_NOT_FIT, ERROR, OK, CheckingUsage, Progress
from .output import print_colored
from .parser import Options


def run(options: Options) -> int:
    """Plan a fleet."""
    options.refuse("limit gpu plot verify", "--fleet cannot be used with {}")
    if options.html is not None:
        with CheckingUsage("--html: "):
            report.plotly_script(options.html)  # if it is missing, the rest would be in vain
    os.stat(options.trace)  # an error with its name
    jobs = options.trace if os.path.isdir(options.trace) else [options.trace]
    dask = int(options.dask) if options.dask is not None and options.dask.isdecimal() else options.dask
    with Progress("gpuconf plan") as progress:
        with CheckingUsage():
            policy, reserve = options.policy or "auto", options.reserve or RESERVE
            plan = find(jobs, options.fleet, policy, reserve, options.phases, dask, progress.show)
        if options.html is not None:
            progress.show("writing the report")
            fleet_page.write(plan, options.html)
    _print(plan, options)
    for name, reason in plan.failed:
        console.complain(f"gpuconf plan: {name}: {reason}")
    if plan.failed:
        return ERROR
    return OK if plan.fits else DOES_NOT_FIT


def _print(plan: FleetPlan, options: Options) -> None:
    if options.json:
        print(json.dumps(plan.to_dict(), indent=2))
        return
    head, _, verdict = str(plan).rpartition("\n")
    print_colored(f"{head}\n", verdict, 32 if plan.fits else 31)
