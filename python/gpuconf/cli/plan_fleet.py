# SPDX-License-Identifier: Apache-2.0
"""``gpuconf plan --fleet``."""

from __future__ import annotations

import argparse
import json
import os

from .. import errors
from ..plans.fleets.fleet import RESERVE, FleetPlan, find
from ..plans.pages import fleet_page, report
from . import console
from .console import DOES_NOT_FIT, ERROR, OK, Progress, UsageError
from .output import colors


def add_to(planning: argparse.ArgumentParser) -> None:
    """Add the options of fleets to ``gpuconf plan``."""
    group = planning.add_argument_group("many jobs", "With --fleet, TRACE is a folder with the traces of many jobs.")
    group.add_argument(
        "--fleet",
        metavar="CARDS",
        help="find the fewest cards that hold the jobs, which jobs share a card, and their limits; a fleet is written "
        "as "
        "64xA100-80GB,128xH100-80GB",
    )
    group.add_argument(
        "--reserve",
        metavar="SIZE",
        help="with --fleet: memory that each job needs on each card for its CUDA context and libraries (default: "
        f"{RESERVE})",
    )
    group.add_argument(
        "--phases",
        action="store_true",
        help="with --fleet: let jobs whose peaks are at different times share a card; if one is delayed, they can run "
        "out of memory",
    )
    group.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="with --fleet: replay the traces on a Dask cluster: a scheduler's address, or a number of processes to "
        "start",
    )


def refuse(options: argparse.Namespace) -> None:
    """Refuse the options of fleets without --fleet."""
    for name in ("reserve", "dask"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} needs --fleet")
    if options.phases:
        raise UsageError("--phases needs --fleet")


def run(options: argparse.Namespace) -> int:
    """Plan a fleet."""
    for name in ("limit", "gpu", "plot"):
        if getattr(options, name) is not None:
            raise UsageError(f"--fleet cannot be used with --{name}")
    if options.verify:
        raise UsageError("--fleet cannot be used with --verify")
    if options.html is not None:
        report.plotly_script()  # if it is missing, the rest would be in vain
    jobs = options.trace if os.path.isdir(options.trace) else [options.trace]
    dask = int(options.dask) if options.dask is not None and options.dask.isdecimal() else options.dask
    with Progress("gpuconf plan") as progress:
        try:
            plan = find(
                jobs,
                options.fleet,
                options.policy or "auto",
                options.reserve or RESERVE,
                options.phases,
                dask,
                progress.show,
            )
        except (errors.InvalidArgumentError, errors.InvalidTypeError) as error:
            raise UsageError(str(error)) from None
        if options.html is not None:
            progress.show("writing the report")
            fleet_page.write(plan, options.html)
    _print(plan, options)
    for name, reason in plan.failed:
        console.complain(f"gpuconf plan: {name}: {reason}")
    if plan.failed:
        return ERROR
    return OK if plan.fits else DOES_NOT_FIT


def _print(plan: FleetPlan, options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps(plan.to_dict(), indent=2))
        return
    head, _, verdict = str(plan).rpartition("\n")
    color = "\033[32m{}\033[0m" if plan.fits else "\033[31m{}\033[0m"
    print(head, color.format(verdict) if colors() else verdict, sep="\n")
