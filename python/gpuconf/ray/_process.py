# SPDX-License-Identifier: Apache-2.0
"""A process of Ray that holds a share of a GPU: how it takes it, and how it leaves the share of an earlier task.

Ray sets ``CUDA_VISIBLE_DEVICES`` for each task and actor, before the modules of it are imported. It may run several
tasks in one process, on other cards each time; CUDA reads the variable only once.
"""

from __future__ import annotations

import os

import ray

from .. import errors
from .._core import runtime
from .._core.humanbytes import human_bytes
from .._typing import Any
from ..cluster.share import Share, take
from ..machine.visible import visible_devices
from ..simulation.simulate import reset
from . import _publish

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
    _publish.begin(name)


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
                "for a larger "
                "card"
            )


def describe(name: Any, kind: str) -> str:
    """Return the name of a task or an actor, for errors and for ``memory``."""
    return f"{kind} {getattr(name, '__name__', name)}"
