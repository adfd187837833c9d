# SPDX-License-Identifier: Apache-2.0
"""``ray.remote`` with GPU memory in bytes."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping

import ray

from .. import errors
from .._core import runtime, texts
from .._core.table import human_bytes
from .._typing import Any, NamedTuple
from ..cluster.cards import need, simulation
from ..cluster.share import Share, checked, take
from ..machine.cards import visible_devices
from ..simulation.simulate import reset
from . import _memory
from ._resources import check_model, fraction

_taken: tuple[str | None, Share] | None = None


def take_share(share: Share, name: str) -> None:
    """Configure this process for a task or an actor.

    Raises FailedPreconditionError if it has used other cards already.
    """
    global _taken
    who = f"Ray process {os.getpid()}, {name}"
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    if share.simulate is not None:
        os.environ["GPUCONF_SIMULATE"] = share.simulate
    if runtime.enumerated() and _taken != (mask, share):
        _leave(who, mask)
    take(share, who)
    _refuse_small_card(share, who)
    _taken = (mask, share)
    _memory.begin(name)


def _leave(who: str, mask: str | None) -> None:
    """Discard what an earlier task of this process configured."""
    if not runtime.simulated() and (_taken is None or _taken[0] != mask):
        raise errors.FailedPreconditionError(
            f"{who}: this process has used GPUs already, and CUDA cannot change to CUDA_VISIBLE_DEVICES={mask!r}. "
            "Decorate the earlier task with gpuconf.ray.remote too, or pass max_calls=1 to its ray.remote"
        )
    try:
        reset()
    except errors.FailedPreconditionError as error:
        raise errors.FailedPreconditionError(
            f"{who}: an earlier task of this process left memory in use: {error.message}"
        ) from error


def _refuse_small_card(share: Share, who: str) -> None:
    """Raise if this card is smaller than the fraction assumed, so that the shares on it would not fit."""
    part = float(ray.get_runtime_context().get_assigned_resources().get("GPU", 0))
    for card in visible_devices():
        if part and int(share.memory or 0) > part * card.total_memory:
            bytes_here = human_bytes(int(part * card.total_memory))
            raise errors.FailedPreconditionError(
                f"{who}: its part of {card.name} is {part:g}, which is {bytes_here}, but its memory is "
                f"{human_bytes(int(share.memory or 0))}: pass the smallest card's model as gpu=, or accelerator_type= "
                "for a larger card"
            )


def describe(name: Any, kind: str) -> str:
    """Return the name of a task or an actor, for errors and for ``memory``."""
    return f"{kind} {getattr(name, '__name__', name)}"


_OURS = ("memory", "gpu", "growth", "libraries", "simulate", "pre_import", "host_memory")


class Request(NamedTuple):
    """The request of a task or an actor: its share, the model that its fraction is of, and Ray's own options."""

    share: Share
    gpu: str | None
    others: dict[str, Any]

    def resolved(self) -> tuple[Share, dict[str, Any]]:
        """Return the share in bytes, and Ray's options with the fraction."""
        limit, part = fraction(self.share.memory or 0, self.gpu)
        return self.share._replace(memory=limit), {**self.others, "num_gpus": part}


def request(
    memory: Any, gpu: Any, growth: Any, libraries: Any, simulate: Any, pre_import: Any, others: dict[str, Any]
) -> Request:
    """Return a checked request. Raises InvalidArgumentError or InvalidTypeError."""
    if memory is None:
        raise errors.InvalidTypeError("memory is missing: pass GPU memory in bytes, or text such as '6GiB' or '25%'")
    if "num_gpus" in others:
        raise errors.InvalidArgumentError("num_gpus is computed from memory: do not pass it")
    check_model(gpu)
    host = others.pop("host_memory", None)
    share = checked(memory, growth, libraries, pre_import, simulation(simulate) if simulate is not None else None)
    return Request(share, gpu, others if host is None else {**others, "memory": host})


def remote(
    memory: int | str | None = None,
    *,
    gpu: str | None = None,
    growth: bool | None = True,
    libraries: str | Iterable[str] | Mapping[str, str] = "auto",
    simulate: str | None = None,
    pre_import: str | Iterable[str] | None = None,
    **ray_options: Any,
) -> Callable[[Any], RemoteFunction | RemoteActor]:
    """Do what ``ray.remote`` does, for a function or a class whose process gets ``memory`` of a GPU and no more.

    ``memory`` is in bytes, or text: ``"6GiB"``, ``"25%"`` of a card. It becomes Ray's ``num_gpus``, a fraction of a
    card: of ``gpu``, a model such as ``"A100-80GB"``, or else of the smallest card in the cluster. Without ``gpu``, all
    nodes must announce their cards (:func:`resources`), unless the driver's is the only node with GPUs. A process on a
    smaller card than was assumed raises FailedPreconditionError.

    The limit is in force before the function, or the class's ``__init__``, runs, with ``growth`` and ``libraries`` as
    for
    :func:`gpuconf.configure`. ``CUDA_VISIBLE_DEVICES`` stays as Ray sets it. ``simulate`` is a machine as for
    :func:`gpuconf.simulate`, for the processes. ``pre_import`` lists modules that they then import.

    All other options are Ray's, except that ``memory`` is GPU memory: pass ``host_memory`` for Ray's own. Tasks run
    with ``max_calls=1``, so no process keeps the limit or the card of an earlier task. Actors have ``num_cpus=0``
    unless you pass another number: Ray would otherwise reserve a CPU for each.

    The result has Ray's methods ``remote``, ``options`` (which takes ``memory`` and the others too) and ``bind``.
    Raises ValueError or TypeError for invalid options::

        @gpuconf.ray.remote(memory="6GiB")
        def train(config): ...

        results = ray.get([train.remote(config) for config in configs])
    """
    if callable(memory):
        raise errors.InvalidTypeError("gpuconf.ray.remote needs a size: write @gpuconf.ray.remote(memory='6GiB')")
    wanted = request(memory, gpu, growth, libraries, simulate, pre_import, dict(ray_options))

    def decorate(target: Any) -> RemoteFunction | RemoteActor:
        if isinstance(target, type):
            return RemoteActor(target, wanted)
        if callable(target) and inspect.isroutine(target):
            if wanted.others.get("max_calls", 1) != 1:
                raise errors.InvalidArgumentError(
                    "max_calls must be 1: a process must not keep the limit and the card of an earlier task"
                )
            return RemoteFunction(target, wanted)
        raise errors.InvalidTypeError(
            f"gpuconf.ray.remote decorates a function or a class, but got {texts.shown(target)}"
        )

    return decorate


def options(target: Any, **changes: Any) -> RemoteFunction | RemoteActor:
    """Return a function or a class with a share of a GPU:
    ``gpuconf.ray.options(Trainer, memory="6GiB").remote(config)``.

    ``target`` may be a plain function or class, or one that is decorated with ``ray.remote``, whose options it keeps,
    or with
    :func:`remote`. All others are as for :func:`remote`, which raises the same errors.
    """
    if isinstance(target, (RemoteFunction, RemoteActor)):
        return target.options(**changes)  # type: ignore[no-any-return]
    what = "gpuconf.ray.options"
    before: dict[str, Any] = {}
    if isinstance(target, ray.remote_function.RemoteFunction):
        before, target = need("Ray", target, "_default_options", what), need("Ray", target, "_function", what)
    elif isinstance(target, ray.actor.ActorClass):
        about = need("Ray", target, "__ray_metadata__", what)
        before, target = (
            need("Ray", target, "_default_options", what),
            need("Ray", need("Ray", about, "modified_class", what), "__ray_actor_class__", what),
        )
    before = {
        name: value
        for name, value in before.items()
        if name not in ("num_gpus", "memory", "max_calls") and value is not None
    }
    return remote(**{**before, **changes})(target)


class _Remote:
    """A function or a class with a request.

    What Ray makes of it is made when it is first used, and the cluster is known.
    """

    def __init__(self, target: Any, wanted: Request) -> None:
        self._target, self._request = target, wanted
        self._made: dict[Any, Any] = {}
        functools.update_wrapper(self, target, updated=())

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_made": {}}  # Ray's objects belong to a process

    def remote(self, *args: Any, **named: Any) -> Any:
        """Run the function, or create the actor, as Ray's ``remote`` does."""
        return self._ray().remote(*args, **named)

    def bind(self, *args: Any, **named: Any) -> Any:
        """Add a call to a graph, as Ray's ``bind`` does."""
        return self._ray().bind(*args, **named)

    def options(self, **changes: Any) -> Any:
        """Return the same with other options: those of :func:`gpuconf.ray.remote`."""
        share, gpu, others = self._request
        ours = {name: changes.pop(name) for name in _OURS if name in changes}
        before = {"memory": share.memory, "gpu": gpu, **dict(zip(share._fields, share, strict=True))}
        host = {"host_memory": ours.pop("host_memory")} if "host_memory" in ours else {}
        return type(self)(self._target, request(others={**others, **changes, **host}, **{**before, **ours}))

    def _ray(self) -> Any:
        share, options = self._request.resolved()
        job = ray.get_runtime_context().get_job_id() if ray.is_initialized() else ""
        key = share.memory, options["num_gpus"], job
        if key not in self._made:
            self._made[key] = self._make(share, options)
        return self._made[key]

    def _make(self, share: Share, options: dict[str, Any]) -> Any:
        raise NotImplementedError

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise errors.InvalidTypeError(
            f"{self._target.__name__} cannot be called directly: use {self._target.__name__}.remote()"
        )


class RemoteFunction(_Remote):
    """A function that runs in a process with a share of a GPU. Made by :func:`gpuconf.ray.remote`."""

    def _make(self, share: Share, options: dict[str, Any]) -> Any:
        changed = {"max_calls": 1, **options}
        made = ray.remote(max_calls=changed.pop("max_calls"))(_limited(self._target, share))
        return made.options(**changed)


class RemoteActor(_Remote):
    """A class whose objects live in a process with a share of a GPU. Made by :func:`gpuconf.ray.remote`."""

    def _make(self, share: Share, options: dict[str, Any]) -> Any:
        return ray.remote(**{"num_cpus": 0, **options})(_pinned(self._target, share))


def _limited(function: Callable[..., Any], share: Share) -> Callable[..., Any]:
    name = describe(function, "task")
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generate(*args: Any, **named: Any) -> Any:
            take_share(share, name)
            try:
                yield from function(*args, **named)
            finally:
                _memory.end()

        return generate

    @functools.wraps(function)
    def run(*args: Any, **named: Any) -> Any:
        take_share(share, name)
        try:
            return function(*args, **named)
        finally:
            _memory.end()

    return run


def _pinned(cls: type, share: Share) -> type:
    name = describe(cls, "actor")

    class Pinned(cls):  # type: ignore[misc]
        def __init__(self, *args: Any, **named: Any) -> None:
            take_share(share, name)
            super().__init__(*args, **named)

    own: Any = getattr(cls, "__init__", None)
    if inspect.isfunction(own):
        functools.update_wrapper(vars(Pinned)["__init__"], own)  # Ray checks the arguments by its signature
    for name_of in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(Pinned, name_of, getattr(cls, name_of))
    return Pinned
