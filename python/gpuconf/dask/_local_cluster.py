# SPDX-License-Identifier: Apache-2.0
"""A cluster on this machine whose workers have a card, or a part of one, each."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from inspect import signature

import distributed

from .. import errors
from .._core import texts
from .._typing import Any, NamedTuple
from ..cluster.cards import choose, list_cards, simulation
from ..cluster.share import checked, checked_timeout, even, fitting, is_range
from ._worker_setup import WorkerSetup, one_limit

_DASKS = (distributed.LocalCluster, distributed.Nanny, distributed.Worker)


class _Place(NamedTuple):
    """Where a worker may be: its part of a card."""

    name: str
    uuid: str  # several, with commas, if the worker leases its memory on one of them
    memory: int  # bytes


class LocalCluster(distributed.LocalCluster):  # type: ignore[misc]  # Dask has no types
    """A Dask cluster on this machine: each worker sees one GPU, and has a limit there before it imports anything that
    uses it.

    ``gpus`` is ``"all"``, a number of GPUs, or a list of their numbers or UUIDs. ``workers_per_gpu`` workers share each
    of them. ``memory`` is the limit of each worker: bytes, ``"20GiB"`` or ``"25%"`` of its card. Without it the workers
    divide their card evenly, less 512 MiB each (at most an eighth) for CUDA contexts and what libraries allocate
    themselves. ``growth`` and ``libraries`` are as for :func:`gpuconf.configure`. ``simulate="4xA100-40GB"`` simulates
    GPUs in the workers; otherwise workers simulate what this process does.

    ``n_workers`` starts fewer workers than there are places; ``scale`` and ``adapt`` stay within the places. Workers
    are named after their place, such as ``gpu0-1``.

    With ``lease=True`` the places are not fixed: each worker leases its memory on any of the ``gpus`` that has room, in
    turn with the clusters of other users and with ``gpuconf run``, and waits up to ``lease_timeout`` seconds for it.
    ``memory`` may then be ``"8GiB..20GiB"``: 8 GiB for sure, which the worker announces, and up to 20 while no other
    program needs them.
    dask-cuda's names work too: ``CUDA_VISIBLE_DEVICES`` for ``gpus``, ``device_memory_limit`` for ``memory``, and
    ``pre_import``. All other arguments are those of ``distributed.LocalCluster``; its ``memory_limit`` is host memory.

    Workers announce their limit to the scheduler, for :func:`gpuconf.dask.needs`. The GPUs are listed in a process of
    their own, so this process does not load CUDA.

    Raises ValueError for an invalid argument, also if the workers' limits together exceed their card, and RuntimeError
    without a GPU::

        with gpuconf.dask.LocalCluster(workers_per_gpu=4, simulate="2xA100-80GB") as cluster,
        distributed.Client(cluster) as client:
            future = client.submit(train, resources=gpuconf.dask.needs("6GiB"))
    """

    def __init__(
        self,
        gpus: str | int | Iterable[int | str] = "all",
        workers_per_gpu: int = 1,
        memory: int | str | None = None,
        growth: bool | None = True,
        libraries: str | Iterable[str] | Mapping[str, str] = "auto",
        simulate: str | None = None,
        *,
        n_workers: int | None = None,
        threads_per_worker: int = 1,
        pre_import: str | Iterable[str] | None = None,
        device_memory_limit: float | str | None = None,
        lease: bool = False,
        lease_timeout: float = 60,
        CUDA_VISIBLE_DEVICES: str | Iterable[int | str] | None = None,  # noqa: N803 - dask-cuda's
        **others: Any,
    ) -> None:
        self._places: list[_Place] = []  # of a cluster that failed to start, too
        if "worker_class" not in others:  # which has arguments of its own
            theirs = {name for kind in _DASKS for base in kind.__mro__ for name in signature(base.__init__).parameters}
            own = [*signature(LocalCluster).parameters][:-1]
            unknown = {name: 0 for name in others if name not in theirs}
            texts.refuse_unknown("LocalCluster", unknown, own, {"memory_limits": "memory"})
        limit = one_limit(memory, device_memory_limit)
        leased = checked_timeout(lease, lease_timeout) is not None
        share = checked(limit, growth, libraries, pre_import, simulation(simulate), leased)
        if others.get("processes") is False:
            raise errors.InvalidArgumentError(
                "gpuconf.dask.LocalCluster needs processes=True: threads cannot have a GPU of their own"
            )
        if CUDA_VISIBLE_DEVICES is not None:
            if gpus != "all":
                raise errors.InvalidArgumentError("gpus and CUDA_VISIBLE_DEVICES are the same option: pass one of them")
            gpus = CUDA_VISIBLE_DEVICES
        self._lease = lease, lease_timeout
        least, dots, most = limit.partition("..") if is_range(limit) else (limit, "", "")
        self._lent = dots + most
        self._places = _places(gpus, _number("workers_per_gpu", workers_per_gpu, 1), least, share.simulate, leased)
        wanted = len(self._places) if n_workers is None else self._within(_number("n_workers", n_workers, 0))
        self._share = share
        others.setdefault("memory_limit", 1 / len(self._places))  # of the host's memory, as Dask divides it
        super().__init__(n_workers=0, threads_per_worker=threads_per_worker, processes=True, **others)
        while len(self.worker_spec) < wanted:
            self.worker_spec.update(self.new_worker_spec())
        if not self.asynchronous:
            try:
                self.sync(self._correct_state)
            except BaseException:
                self.close()
                raise

    def new_worker_spec(self) -> dict[str, Any]:
        """Return the specification of the next worker, in the first place that is free. Dask calls this."""
        place = next((place for place in self._places if place.name not in self.worker_spec), None)
        if place is None:
            self._within(len(self.worker_spec) + 1)
        assert place is not None
        spec: dict[str, Any] = {**self.new_spec, "options": copy.copy(self.new_spec["options"])}
        options = spec["options"]
        environment = {**(options.get("env") or {}), "CUDA_VISIBLE_DEVICES": place.uuid}
        if self._share.simulate is not None:
            environment["GPUCONF_SIMULATE"] = self._share.simulate
        _, growth, libraries, pre_import, simulate = self._share
        memory, lease = f"{place.memory}{self._lent}" if self._lent else place.memory, self._lease
        more: dict[str, Any] = {
            "pre_import": pre_import,
            "simulate": simulate,
            "lease": lease[0],
            "lease_timeout": lease[1],
        }
        setup = WorkerSetup(memory, growth, libraries, **more)
        options |= {"name": place.name, "env": environment, "plugins": (*options.get("plugins", ()), setup)}
        return {place.name: spec}

    def scale(self, n: int = 0, memory: Any = None, cores: Any = None) -> Any:
        """Scale to ``n`` workers. Raises InvalidArgumentError, and changes nothing, if there are fewer places."""
        self._within(n)
        return super().scale(n, memory, cores)

    scale_up = scale

    def adapt(self, *args: Any, maximum: float = float("inf"), **named: Any) -> Any:
        """Scale with the load, as ``distributed.LocalCluster.adapt`` does, to at most one worker for each place."""
        return super().adapt(*args, maximum=min(maximum, len(self._places)), **named)

    def _within(self, wanted: int) -> int:
        if wanted > len(self._places):
            raise errors.InvalidArgumentError(
                f"{texts.shown(wanted)} workers are too many: the GPUs of this cluster have room for "
                f"{len(self._places)} (gpus times workers_per_gpu)"
            )
        return wanted


def _number(what: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise errors.InvalidTypeError(f"{what} must be an int, but got {texts.given(value)}")
    if value < least:
        raise errors.InvalidArgumentError(f"{what} must be at least {least}, but got {texts.shown(value)}")
    return value


def _places(gpus: Any, per_gpu: int, memory: Any, simulate: str | None, leased: bool) -> list[_Place]:
    """Return the places: first one on each card, then the second of each, so that few workers are spread out.

    Workers that lease may go to any card, so their places are on all of them, with the memory that the smallest one
    has.
    """
    if per_gpu > 1000:
        raise errors.InvalidArgumentError(f"workers_per_gpu must be at most 1000, but got {texts.shown(per_gpu)}")
    chosen = [
        (card, even(card, per_gpu, leased) if memory is None else fitting(card, memory, per_gpu, leased))
        for card in choose(list_cards(simulate), gpus)
    ]
    if leased:
        uuids, least = ",".join(card.uuid for card, _ in chosen), min(each for _, each in chosen)
        return [_Place(f"leased-{i}", uuids, least) for i in range(per_gpu * len(chosen))]
    return [_Place(f"gpu{card.ordinal}-{i}", card.uuid, each) for i in range(per_gpu) for card, each in chosen]
