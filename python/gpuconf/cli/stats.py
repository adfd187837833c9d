# SPDX-License-Identifier: Apache-2.0
"""``gpuconf stats``."""

from __future__ import annotations

import argparse

from .._typing import Any
from ..leases.view import view
from .console import CONDITION, OK
from .output import add_json, example, print_json, print_table, size
from .processes import jobs_on, label, print_jobs

_EXAMPLE = """
gpuconf stats
gpuconf stats --pid 4711 --json
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "stats",
        help="show the memory pools of all processes",
        description="Show the memory pools of the processes that publish them in the ledger, such as those under "
        "gpuconf run, and "
        "how much of their limits the jobs of gpuconf run use. The exit code is 3 if there are no pools and no jobs.",
        **example(_EXAMPLE),
    )
    parser.add_argument("--pid", type=_pid, help="show only this process")
    add_json(parser)
    parser.set_defaults(run=_stats)


def _pid(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a process ID: gpuconf ps lists them")
    return int(text)


def _stats(options: argparse.Namespace) -> int:
    seen = view()
    jobs = [job for job in jobs_on(seen) if options.pid is None or any(one.pid == options.pid for one in job.processes)]
    pools = [
        (place, share, pool)
        for place in seen.places
        for share in place.shares
        if options.pid in (None, share.pid)
        for pool in share.pools
    ]
    if options.json:
        print_json(
            {
                "pools": [
                    {"gpu": place.gpu, "uuid": place.uuid, "pid": share.pid, "command": share.command, **pool.to_dict()}
                    for place, share, pool in pools
                ],
                "jobs": [job.to_dict() for job in jobs],
            }
        )
        return OK if pools or jobs else CONDITION
    if pools:
        rows = [
            (
                place.gpu,
                str(share.pid),
                pool.device,
                size(pool.limit),
                size(pool.reserved),
                size(pool.in_use),
                size(pool.peak),
                f"{100 * pool.in_use / pool.limit:.0f}%" if pool.limit else "-",
                label(share),
            )
            for place, share, pool in pools
        ]
        header = ("GPU", "PID", "device", "limit", "reserved", "in use", "peak", "of limit", "command")
        print_table(
            header,
            rows,
            right=("PID", "limit", "reserved", "in use", "peak", "of limit"),
            drop=("of limit", "peak"),
            cut=("command",),
        )
    elif not jobs:
        print("no process publishes its pools" if options.pid is None else f"process {options.pid} publishes no pools")
    print_jobs(seen, jobs)
    return OK if pools or jobs else CONDITION
