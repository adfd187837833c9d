# SPDX-License-Identifier: Apache-2.0
"""How the jobs of ``gpuconf run`` use their limits, as ``gpuconf ps`` and ``gpuconf stats`` show it."""

from __future__ import annotations

from collections.abc import Sequence

from ..leases.view import View
from .output import size
from .processes import label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..jobs.job_memory import JobMemory


def jobs_on(machine: View) -> list[JobMemory]:
    """Return what each job that has a lease here has of each card."""
    leases = {(share.claim, place.uuid) for place in machine.places for share in place.shares}
    if not leases:
        return []
    from ..jobs.job_memory import of_all_jobs

    return [job for job in of_all_jobs() if (job.job, job.uuid) in leases]


def print_jobs(machine: View, jobs: Sequence[JobMemory]) -> None:
    """Print a line for each card of a job, and below it one for each process if there are several."""
    gpus = {place.uuid: place.gpu for place in machine.places}
    names = {share.claim: label(share) for place in machine.places for share in place.shares}
    for job in jobs:
        print(f"GPU {gpus[job.uuid]}, job {names[job.job]}: {job}")
        for one in job.processes if len(job.processes) > 1 else ():
            print(f"  PID {one.pid} {one.name}: pools {size(one.pools)}, outside {size(one.outside)}")
