# SPDX-License-Identifier: Apache-2.0
"""``gpuconf ps`` and ``gpuconf stats``: the processes on the machine's cards, and one of them."""

from __future__ import annotations

from ..leases.ledger import default_folder, lost
from ..leases.view import View, hidden_users, view
from . import console
from .console import CONDITION, OK
from .output import print_json, print_table, size
from .parser import Options
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


def ps(options: Options) -> int:
    """Run the command."""
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


def stats(options: Options) -> int:
    """Run ``gpuconf stats``."""
    seen = view()
    jobs = [job for job in jobs_on(seen) if options.pid is None or any(one.pid == options.pid for one in job.processes)]
    pools = [
        (place, share, pool)
        for place in (*seen.places, *seen.others)
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
                *map(size, (pool.limit, pool.reserved, pool.in_use, pool.peak)),
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
        print(
            "no running program uses gpuconf's memory"
            if options.pid is None
            else f"process {options.pid} does not use gpuconf's memory; gpuconf ps lists those that do"
        )
    print_jobs(seen, jobs)
    return OK if pools or jobs else CONDITION
