# SPDX-License-Identifier: Apache-2.0
"""How the jobs of ``gpuconf run`` use their memory, as the guard counts it: in gpuconf's pools, and outside of them."""

from __future__ import annotations

from collections.abc import Iterator

from .. import errors
from .._core.table import Table, job_memory_text
from .budget import Reader, budgets, current

NOT_COUNTED = (
    "a context's own memory: some hundred MiB for each process and card, with code, stacks and the buffer of printf()",
    "global variables of modules and libraries (cuModuleLoad*, cuLibraryLoad*), which may be gigabytes",
    "the heap of malloc() on the device (cuCtxSetLimit with CU_LIMIT_MALLOC_HEAP_SIZE); the log names processes that "
    "set it",
    "graphics: OpenGL, Vulkan, EGL and VDPAU, and what CUDA maps of them (cuGraphics*, cuImportExternalMemory)",
    "memory imported from outside the job (cuIpc*, shareable handles, pools)",
    "what is allocated through the unnamed functions of cuGetExportTable, and in the driver for itself",
    "memory of an MPS server, and what only a logical endpoint of CUDA 13.3 still refers to",
    "the padding of arrays",
)
"""Each is a kind of device memory that a program under the guard may have beyond its limit."""


class ProcessMemory(Table):
    """What a process of a job has of one card, in bytes."""

    pid: int
    name: str  # of its program, at most 15 characters, as the kernel has it
    pools: int  # reserved by gpuconf's pools
    outside: int  # allocated otherwise


class JobMemory(Table):
    """What a job has of one card, in bytes."""

    job: str  # the lease
    uuid: str
    limit: int  # pools + outside + free, unless more is in use than the limit
    pools: int
    outside: int
    free: int
    peak: int  # of pools and outside together
    processes: tuple[ProcessMemory, ...]

    def __str__(self) -> str:
        return job_memory_text(self.limit, self.pools, self.outside, self.free)


def of_all_jobs() -> list[JobMemory]:
    """Return what each living job of this user has of each card."""
    return [one for reader in budgets() for one in _of(reader)]


def of_this_job() -> list[JobMemory]:
    """Return what this process's job has of each card; nothing if there is no job, or its budget is damaged."""
    reader = current()
    return [] if reader is None else list(_of(reader))


def _of(reader: Reader) -> Iterator[JobMemory]:
    try:
        use = reader.usage()
    except errors.UnavailableError:  # the job has just ended
        return
    for uuid, card in use.items():
        processes = tuple(
            ProcessMemory(one.pid, one.name, one.pools, one.used - one.pools) for one in card.processes if one.used
        )
        yield JobMemory(reader.job, uuid, card.limit, card.pools, card.outside, card.free, card.peak, processes)
