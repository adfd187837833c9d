# SPDX-License-Identifier: Apache-2.0
"""Tasks that ran out of memory, run again where there is more room."""

from __future__ import annotations

import gc
from collections.abc import Iterable

import distributed
from distributed import worker

from .. import errors
from .._core import sizes, texts
from .._core.table import human_bytes
from .._typing import Any
from ..cluster.cards import need
from ..memory._tracebacks import clear, instances

RESOURCE = "gpuconf_memory"  # the resource's name, in bytes


def needs(size: int | str, client: distributed.Client | None = None) -> dict[str, int]:
    """Return ``resources=`` of a task that needs this much GPU memory, for ``submit``, ``map``, ``compute`` and
    ``dask.annotate``.

    ``size`` is in bytes, or text such as ``"6GiB"``. The scheduler then never starts more tasks on a worker than its
    budget holds. This is only accounting: what no task can exceed is the worker's own limit.

    Raises InvalidArgumentError at once if no worker of ``client``, by default the current one, could ever hold the
    task; Dask itself would wait. There is no such check without a client, while the cluster has no workers, and with an
    asynchronous client.

    >>> needs("6GiB")
    {'gpuconf_memory': 6442450944}
    """
    wanted = sizes.limit_bytes(size, what="size")
    if client is None:
        try:
            client = distributed.default_client()
        except ValueError:
            return {RESOURCE: wanted}
    elif not isinstance(client, distributed.Client):
        raise errors.InvalidTypeError(f"client must be a distributed.Client, but got {texts.shown(client)}")
    _refuse_too_large(wanted, client)
    return {RESOURCE: wanted}


def budgets(client: distributed.Client) -> dict[str, int]:
    """Return the budget of each worker in bytes by address, 0 for a worker without one.

    Empty with an asynchronous client.
    """
    workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return {address: int(worker["resources"].get(RESOURCE, 0)) for address, worker in workers.items()}


def _refuse_too_large(wanted: int, client: distributed.Client) -> None:
    by_worker = {} if client.asynchronous else budgets(client)
    if not by_worker or wanted <= (largest := max(by_worker.values())):
        return
    if not largest:
        raise errors.InvalidArgumentError(
            f"no worker announces a budget of GPU memory, so this task would wait forever: start them with "
            f"gpuconf.dask.LocalCluster, or register gpuconf.dask.WorkerSetup(memory=...) ({len(by_worker)} workers)"
        )
    raise errors.InvalidArgumentError(
        f"no worker can hold {human_bytes(wanted)} ({wanted} bytes), so this task would wait forever: "
        f"the largest budget of {len(by_worker)} workers is {human_bytes(largest)} ({largest} bytes)"
    )


# The errors of failed tasks, and the device memory that the locals of their frames hold.


def forget() -> None:
    """Clear the locals of the finished frames of all tasks of this process that failed.

    Dask has sent such an error as text and bytes, and needs the object no more. But the error and a frame in its
    traceback refer to each other, and when the worker changes the task's state, the thread that ran it may still hold
    the error: a collection would come too early. So the errors are looked for: their tracebacks begin in Dask's
    function that runs
    tasks.
    """
    for error in instances(BaseException):
        first = error.__traceback__
        if first is not None and first.tb_frame.f_code.co_filename == worker.__file__:
            clear(error)
    gc.collect()  # what a task's own reference cycles hold


def retry_larger(
    futures: distributed.Future | Iterable[distributed.Future],
    memory: int | str | None = None,
    client: distributed.Client | None = None,
) -> list[distributed.Future]:
    """Run tasks that ran out of GPU memory again where there is more room, and return their futures.

    Of the futures, those that failed with an out-of-memory error (any MemoryError, such as PyTorch's) are run again;
    the others are left alone. The futures stay the same objects: they are pending again, and so are those of tasks that
    depend on them.

    Each task now needs ``memory`` (bytes or ``"12GiB"``), or without it the next larger budget among the workers: the
    whole budget of the worker where it failed, if other tasks shared that, else a larger worker's. So the call can be
    repeated until there is no larger worker::

        running = distributed.as_completed(client.map(train, jobs, resources=gpuconf.dask.needs("6GiB")))
        for future in running:
            if future.status == "error":
                for again in gpuconf.dask.retry_larger(future):
                    running.add(again)

    Raises ResourceExhaustedError, from the task's own error, if no worker has more room, and changes nothing. The
    scheduler's process needs gpuconf too.
    """
    tried = _failed(list(futures) if isinstance(futures, Iterable) else [futures])
    wanted = sizes.limit_bytes(memory, what="memory") if memory is not None else 0
    if not tried:
        return []
    client = client or distributed.default_client()
    if client.asynchronous:
        raise errors.UnimplementedError("gpuconf.dask.retry_larger needs a synchronous client")
    refused = client.run_on_scheduler(_raise_needs, keys=[future.key for future in tried], wanted=wanted)
    for future in tried:
        if future.key in refused:
            raise errors.ResourceExhaustedError(_no_room(future, *refused[future.key])) from future.exception()
    client.retry(tried)
    return tried


def _failed(futures: list[Any]) -> list[distributed.Future]:
    for future in futures:
        if not isinstance(future, distributed.Future):
            raise errors.InvalidTypeError(f"futures must be Dask's futures, but got {texts.shown(future)}")
    return [future for future in futures if future.status == "error" and isinstance(future.exception(), MemoryError)]


def _no_room(future: distributed.Future, before: int, wanted: int, largest: int) -> str:
    what = f"{human_bytes(wanted)} for it" if wanted else "more room for it"
    declared = f"it declared {human_bytes(before)}, and " if before else ""
    return (
        f"task {future.key!r} ran out of GPU memory, and no worker has {what}: {declared}"
        f"the largest budget is {human_bytes(largest)} ({largest} bytes)"
    )


def _raise_needs(
    dask_scheduler: distributed.Scheduler, keys: list[Any], wanted: int
) -> dict[Any, tuple[int, int, int]]:
    """Raise what the tasks declare, on the scheduler: all of them, or none.

    Returns those for which there is no room.
    """
    changes, refused = [], {}
    for key in keys:
        task = dask_scheduler.tasks.get(key)
        if task is None:
            continue  # released meanwhile
        blamed = need("Dask", task, "exception_blame", "gpuconf.dask.retry_larger") or task
        before = int(
            (need("Dask", blamed, "resource_restrictions", "gpuconf.dask.retry_larger") or {}).get(RESOURCE, 0)
        )
        allowed = _allowed(dask_scheduler, blamed)
        largest = max(allowed.values(), default=0)
        after = wanted or _next_larger(dask_scheduler, blamed, before, allowed)
        if after and after <= largest:
            changes.append((blamed, after))
        else:
            refused[key] = (before, wanted, largest)
    if not refused:
        for task, after in changes:
            task.resource_restrictions = {**(task.resource_restrictions or {}), RESOURCE: after}
            if task.loose_restrictions:  # where no preferred worker is large enough, Dask would drop the resources too
                task.worker_restrictions, task.host_restrictions, task.loose_restrictions = set(), set(), False
    return refused


def _allowed(scheduler: distributed.Scheduler, task: Any) -> dict[str, int]:
    """Return the budgets of the workers where a task may run, by address."""
    workers = scheduler.workers.items()
    if (task.worker_restrictions or task.host_restrictions) and not task.loose_restrictions:
        hosts, addresses = task.host_restrictions or (), task.worker_restrictions or ()
        workers = [(address, worker) for address, worker in workers if address in addresses or worker.host in hosts]
    return {address: int(worker.resources.get(RESOURCE, 0)) for address, worker in workers}


def _next_larger(scheduler: distributed.Scheduler, task: Any, before: int, allowed: dict[str, int]) -> int:
    """Return the next larger need, 0 if there is none."""
    least = before
    for address in task.erred_on or ():
        worker = scheduler.workers.get(address)
        budget = int(worker.resources.get(RESOURCE, 0)) if worker is not None else 0
        if worker is not None and (worker.nthreads == 1 or before >= budget):  # it had the whole worker
            least = max(least, budget)
    return min((budget for budget in allowed.values() if budget > least), default=0)
