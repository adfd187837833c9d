# SPDX-License-Identifier: Apache-2.0
"""What a task needs, declared to Dask's scheduler in whole bytes."""

from __future__ import annotations

import distributed

from .. import errors
from .._core import sizes, texts
from .._core.humanbytes import human_bytes
from .._typing import Any

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
    wanted = sizes.size("size", size)
    if isinstance(size, bool) or not 1 <= wanted < 2**63:
        raise errors.InvalidArgumentError(
            f"size must be at least 1 byte and less than 2**63, but got {texts.shown(size)}"
        )
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
