# SPDX-License-Identifier: Apache-2.0
"""The size of a card: what a node announces, and what a share's fraction is calculated with."""

from __future__ import annotations

import functools
import math

import ray

from .. import errors
from .._core import sizes, texts
from .._core.table import human_bytes
from .._typing import Any
from ..cluster.cards import Card, list_cards, simulation

CARD_MEMORY = "gpuconf_card_memory"  # the resource's name: the bytes of a node's smallest card
_PARTS = 10_000  # Ray counts in ten-thousandths of a GPU


def resources(simulate: str | None = None) -> dict[str, int]:
    """Return what a node announces for :func:`gpuconf.ray.remote`: the bytes of its smallest card.

    ``{}`` without a GPU.

    For ``ray.init(num_gpus=4, resources=gpuconf.ray.resources())`` and, as JSON, for ``ray start --resources``. Tasks
    do not consume it. ``simulate`` is a machine as for :func:`gpuconf.simulate`. Raises ValueError for an invalid one.

    >>> resources("4xA100-40GB")
    {'gpuconf_card_memory': 42298507264}
    """
    cards = list_cards(simulation(simulate))
    return {CARD_MEMORY: min(card.total_memory for card in cards)} if cards else {}


def fraction(memory: int | str, gpu: str | None) -> tuple[int, float]:
    """Return a share in bytes and as a fraction of a GPU, rounded up to what Ray counts in.

    ``gpu`` is a model. Without it the smallest card of the cluster counts. Raises InvalidArgumentError if the share is
    more than a card, and FailedPreconditionError if the size of the cluster's cards is not known.
    """
    name, total = _model(gpu) if gpu is not None else _smallest()
    wanted = sizes.limit_bytes(memory, total, "memory")
    if wanted > total:
        raise errors.InvalidArgumentError(
            f"memory={texts.shown(memory)} is more than a GPU has: {name} has {human_bytes(total)}"
        )
    return wanted, math.ceil(wanted * _PARTS / total) / _PARTS


def check_model(gpu: Any) -> None:
    """Raise InvalidArgumentError or InvalidTypeError for a model that gpuconf does not know."""
    if gpu is not None:
        if not texts.check_text("gpu", gpu).strip():
            raise errors.InvalidArgumentError("gpu must not be empty: pass a model such as 'A100-80GB'")
        _model(gpu)


@functools.lru_cache(32)
def _model(gpu: str) -> tuple[str, int]:
    card: Card = min(list_cards(gpu), key=lambda card: card.total_memory)
    return card.name, card.total_memory


@functools.lru_cache(1)
def _own(_job: str) -> tuple[str, int] | None:
    cards = list_cards(simulation())
    card = min(cards, key=lambda card: card.total_memory, default=None)
    return (card.name, card.total_memory) if card else None


def _smallest() -> tuple[str, int]:
    """Return the smallest card of the cluster: what the nodes announce, or this machine's where it is the only one with
    GPUs.
    """
    if not ray.is_initialized():
        ray.init()  # as Ray itself does on first use
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
    if not nodes:
        raise errors.FailedPreconditionError(
            "this Ray cluster has no GPU: pass num_gpus= to ray.init or ray start (for simulated GPUs too, with "
            "GPUCONF_SIMULATE)"
        )
    silent = [node for node in nodes if not node["Resources"].get(CARD_MEMORY)]
    context = ray.get_runtime_context()
    if [node["NodeID"] for node in nodes] == [context.get_node_id()] and silent and (own := _own(context.get_job_id())):
        return own
    if silent:
        names = ", ".join(str(node.get("NodeManagerHostname") or node["NodeID"]) for node in silent[:5])
        raise errors.FailedPreconditionError(
            f"the size of the GPUs is not known on {len(silent)} of {len(nodes)} nodes ({names}): pass "
            "gpu='A100-80GB', or start Ray there with --resources and gpuconf.ray.resources()"
        )
    return "the smallest card of this cluster", min(int(node["Resources"][CARD_MEMORY]) for node in nodes)
