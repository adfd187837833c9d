# SPDX-License-Identifier: Apache-2.0
"""The plugin that configures a Dask worker: its limit, its metrics for the dashboard, and its budget as a resource."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping

import distributed
from distributed.diagnostics.plugin import WorkerPlugin

from .. import errors
from .._core import runtime
from .._typing import Any
from ..cluster.cards import need
from ..cluster.rows import report
from ..cluster.share import Share, checked, checked_timeout, take, take_lease
from ._retry import RESOURCE, forget

_METRIC = "gpuconf"
_MOST_ROWS = 50  # in a heartbeat
_BYTES_IN_USE = 4  # its place in a row


class WorkerSetup(WorkerPlugin):  # type: ignore[misc]  # Dask has no types
    """Configures every worker of a cluster that exists.

    ::

        client.register_plugin(gpuconf.dask.WorkerSetup("8GiB"))

    ``memory`` is the limit of each GPU that a worker sees: bytes, ``"8GiB"`` or ``"25%"``. None sets no limit.
    ``growth`` and ``libraries`` are as for :func:`gpuconf.configure`; on simulated GPUs only PyTorch is routed.
    ``simulate`` is a machine as for :func:`gpuconf.simulate`, for workers without GPUs. dask-cuda's names work too:
    ``device_memory_limit`` for ``memory``, also as a fraction such as ``0.5``, and ``pre_import`` for modules that each
    worker then imports.

    The plugin does not pin workers to cards: start each worker with its own ``CUDA_VISIBLE_DEVICES``, as job queues do,
    or with ``--preload-nanny gpuconf.dask``. A worker announces its limit to the scheduler, for
    :func:`gpuconf.dask.needs`. Workers that restart or join later are set up before they get tasks. A worker that sees
    no GPU is left as it is.

    With ``lease=True`` a worker leases its memory on one of the GPUs that it sees, as :func:`gpuconf.lease` does, and
    sees only that one: workers of other clusters and users, and ``gpuconf run``, then share the machine's cards with
    it. A worker waits ``lease_timeout`` seconds for its turn, then fails with DeadlineExceededError, which lists who
    holds the memory. ``memory`` may then be ``"8GiB..20GiB"``: 8 GiB for sure, which the worker announces, and up to 20
    while no other program needs them.

    ``register_plugin`` raises FailedPreconditionError, which names the worker, if a worker has already used the GPU.
    """

    name = "gpuconf"
    idempotent = False

    def __init__(
        self,
        memory: int | str | None = None,
        growth: bool | None = True,
        libraries: str | Iterable[str] | Mapping[str, str] = "auto",
        *,
        simulate: str | None = None,
        pre_import: str | Iterable[str] | None = None,
        device_memory_limit: float | str | None = None,
        lease: bool = False,
        lease_timeout: float = 60,
    ) -> None:
        self.needs_gpu: bool = False  # whether a worker that sees none fails
        self.lease_timeout: float | None = checked_timeout(lease, lease_timeout)
        limit = one_limit(memory, device_memory_limit)
        self.share: Share = checked(limit, growth, libraries, pre_import, simulate, leases=lease)

    def setup(self, worker: distributed.Worker) -> Any:
        """Configure the worker. Dask calls this in the worker, and awaits the result."""
        who = f"Dask worker {worker.name!r} at {worker.address}"
        _refuse_used(who)
        if self.lease_timeout is not None:
            return self._setup_leased(worker, who)
        return self._use(worker, self.share, who)

    async def _setup_leased(self, worker: distributed.Worker, who: str) -> None:
        assert self.lease_timeout is not None
        # It may wait; the worker's loop goes on.
        share = await asyncio.to_thread(take_lease, self.share, self.lease_timeout, who)
        announced = self._use(worker, share, who)
        if announced is not None:
            await announced

    def _use(self, worker: distributed.Worker, share: Share, who: str) -> Any:
        budget = take(share, who)
        if self.needs_gpu and not budget:
            raise errors.NotFoundError(
                f"{who} sees no GPU, so it cannot have its limit: start workers without a GPU without --gpuconf-memory"
            )
        worker.metrics[_METRIC] = _report
        return _announce(worker, budget) if budget else None

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:  # noqa: ARG002 - Dask's signature
        """Free the memory of a task that failed, before the worker starts the next.

        Dask calls this for each change of a task.
        """
        if finish == "error" and any(row[_BYTES_IN_USE] for row in report()):
            forget()


def one_limit(memory: Any, device_memory_limit: Any) -> Any:
    """Return the limit of the two spellings: ours, and dask-cuda's, where a number up to 1 is a part of the card."""
    if device_memory_limit is None:
        return memory
    if memory is not None:
        raise errors.InvalidArgumentError("memory and device_memory_limit are the same option: pass one of them")
    if isinstance(device_memory_limit, str):
        with contextlib.suppress(ValueError):  # it has a unit
            if float(device_memory_limit) <= 1:
                device_memory_limit = float(device_memory_limit)
    if isinstance(device_memory_limit, float):
        if not 0 < device_memory_limit <= 1:
            raise errors.InvalidArgumentError(
                f"device_memory_limit must be bytes, text or a fraction between 0 and 1, but got {device_memory_limit}"
            )
        return f"{device_memory_limit * 100:.6f}%"
    return device_memory_limit


def _refuse_used(who: str) -> None:
    """Raise if another library has created a CUDA context in this process, as far as NVML shows it."""
    if runtime.enumerated():
        return  # configure() knows
    from distributed.diagnostics import nvml

    if getattr(nvml.has_cuda_context(), "has_context", False):
        raise errors.FailedPreconditionError(
            f"{who}: a library in this worker has already used the GPU. Set the worker up when it starts: "
            "gpuconf.dask.LocalCluster, or dask worker --preload gpuconf.dask"
        )


def _report(_: distributed.Worker) -> list[list[Any]]:
    """Return this worker's rows for a heartbeat."""
    return report()[:_MOST_ROWS]


def _announce(worker: distributed.Worker, budget: int) -> Any:
    """Announce the budget in bytes.

    Before the worker has registered, it takes its resources along; later it sends them.
    """
    state = need("Dask", worker, "state", "gpuconf.dask.WorkerSetup")
    total = need("Dask", state, "total_resources", "gpuconf.dask.WorkerSetup")
    before = total.get(RESOURCE)
    if before == budget:
        return None
    if worker.status == distributed.core.Status.running:
        return worker.set_resources(**{RESOURCE: budget})
    total[RESOURCE] = budget
    state.available_resources[RESOURCE] = state.available_resources.get(RESOURCE, 0) + budget - (before or 0)
    return None
