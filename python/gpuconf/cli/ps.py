# SPDX-License-Identifier: Apache-2.0
"""``gpuconf ps`` and ``gpuconf stats``: the processes on the machine's cards, and one of them."""

from __future__ import annotations

import argparse

from .._typing import Any
from ..leases.ledger import default_folder, lost
from ..leases.view import View, hidden_users, view
from . import console
from .console import CONDITION, OK
from .output import add_json, example, print_json, print_table, size
from .processes import (
    DROP,
    HEADER,
    RIGHT,
    as_json,
    errors_of,
    jobs_on,
    label,
    no_gpus,
    print_jobs,
    print_simulated,
    row_of,
    rows_of,
    simulated_cards,
)

_EXAMPLE = """
gpuconf ps
gpuconf ps --json | jq '.processes[] | {pid, bytes, lease}'
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "ps",
        help="list the processes on each card, and leases",
        description="List the processes that use the cards of this machine: the memory that the driver reports, the "
        "lease, and the "
        "limit of the pools with their reserved and used memory, by library where the process reports it. Leases "
        "without memory in "
        "use are listed too, also on cards that only the ledger knows. For each job of gpuconf run, a line shows how "
        "much of its "
        "limit is in gpuconf's pools, outside them, "
        "and free. Below them are the simulated cards that the processes of a job share. The exit code is 3 if there "
        "is no card.",
        **example(_EXAMPLE),
    )
    add_json(parser)
    parser.set_defaults(run=_ps)


def _ps(options: argparse.Namespace) -> int:
    machine = view()
    jobs = jobs_on(machine)
    simulated = simulated_cards()
    if options.json:
        print_json(
            {
                **as_json(machine),
                "jobs": [job.to_dict() for job in jobs],
                "simulated_cards": [one.to_dict() for one in simulated],
            }
        )
    else:
        _print(machine)
        print_jobs(machine, jobs)
        print_simulated(simulated)
    return OK if machine.places or machine.others else CONDITION


def _print(machine: View) -> None:
    if not machine.places and not machine.others:
        print(no_gpus(machine.survey))
    rows = [row_of(*row) for row in rows_of(machine)]
    if rows:
        print_table(HEADER, rows, right=RIGHT, drop=DROP, cut=("command",))
    elif machine.places:
        print("no processes")
    if any(place.shares for place in machine.others):
        console.complain(
            "gpuconf ps: cards called by their UUID are not visible here: they are simulated, or of another container"
        )
    for text in [*errors_of(machine), *lost(machine.ledger or default_folder()), *hidden_users(machine)]:
        console.complain(f"gpuconf ps: {text}")


# ``gpuconf stats``.

_STATS_EXAMPLE = """
gpuconf stats
gpuconf stats --pid 4711 --json
"""


def add_stats_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "stats",
        help="show the memory pools of all processes",
        description="Show the memory pools of the processes that publish them in the ledger, such as those under "
        "gpuconf run, and "
        "how much of their limits the jobs of gpuconf run use. The exit code is 3 if there are no pools and no jobs.",
        **example(_STATS_EXAMPLE),
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
