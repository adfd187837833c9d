# SPDX-License-Identifier: Apache-2.0
"""Observable instruments for OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter

from .. import errors
from .._core import texts
from .._core.generated.cards import Card
from .._typing import Any
from ..machine.cards import survey
from ._pools import FIGURES, PoolReading, read_pools

_Values = Iterable[tuple[int, dict[str, str]]]  # with their attributes


def instrument(meter: Any = None) -> None:
    """Add GPU memory to an OpenTelemetry meter, by default one of the global provider's, named ``gpuconf``.

    The cards of the machine are ``hw.gpu.memory.usage``, ``hw.gpu.memory.limit`` and ``hw.gpu.memory.utilization``, as
    in the semantic conventions for hardware. The pools of this process are ``gpuconf.memory.in_use`` (by library and
    tag), ``.reserved``, ``.peak``, ``.limit`` and ``.free``. Instruments are read when the provider collects. Raises
    MissingPackageError if OpenTelemetry is not installed.

    >>> from opentelemetry.sdk.metrics import MeterProvider
    >>> gpuconf.metrics.instrument(MeterProvider().get_meter("my.program"))
    """
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise texts.missing("metrics need", "the OpenTelemetry SDK", "otel", error) from None
    if meter is None:
        from .. import __version__

        meter = metrics.get_meter("gpuconf", __version__)
    if not hasattr(meter, "create_observable_gauge"):
        got = f"{type(meter).__name__}: {texts.shown(meter)}"
        raise errors.InvalidTypeError(f"meter must be an OpenTelemetry Meter, but got {got}")

    def of_cards(amount: Callable[[Card], float | None]) -> list[Callable[[Any], Iterable[Any]]]:
        def observe(_: Any) -> Iterable[Any]:
            observed = ((card, amount(card)) for card in _surveyed())
            return [metrics.Observation(value, _card(card)) for card, value in observed if value is not None]

        return [observe]

    def of_pools(read: Callable[[PoolReading], _Values]) -> list[Callable[[Any], Iterable[Any]]]:
        def observe(_: Any) -> Iterable[Any]:
            return [metrics.Observation(n, {**_pool(pool), **more}) for pool in read_pools() for n, more in read(pool)]

        return [observe]

    added = meter.create_observable_up_down_counter
    added("hw.gpu.memory.usage", of_cards(lambda card: card.memory.used), "By", "GPU memory used.")
    added("hw.gpu.memory.limit", of_cards(lambda card: card.memory.total), "By", "Size of the GPU memory.")
    meter.create_observable_gauge(
        "hw.gpu.memory.utilization", of_cards(_utilization), "1", "Fraction of GPU memory used."
    )
    added("gpuconf.memory.in_use", of_pools(_by_library), "By", "Memory in live blocks of gpuconf's pools.")
    for name, (text, where) in FIGURES.items():
        if name.startswith("memory_"):
            meter.create_observable_gauge(f"gpuconf.memory.{name[7:-6]}", of_pools(_figure(where)), "By", text)


def _surveyed() -> Iterable[Card]:
    try:
        return survey().cards
    except errors.ForkedProcessError:  # a forked child cannot query
        return ()


def _utilization(card: Card) -> float | None:
    memory = card.memory
    return memory.used / memory.total if memory.used is not None and memory.total else None


def _card(card: Card) -> dict[str, str]:
    return {"hw.id": card.uuid, "hw.name": card.name, "hw.type": "gpu"}


def _pool(pool: PoolReading) -> dict[str, str]:
    return {"hw.id": pool.uuid, "gpuconf.logical_device": pool.logical_device}


def _by_library(pool: PoolReading) -> _Values:
    return [(row.bytes_in_use, {"gpuconf.library": row.library, "gpuconf.tag": row.tag}) for row in pool.usage]


def _figure(where: str) -> Callable[[PoolReading], _Values]:
    return lambda pool: [(attrgetter(where)(pool), {})]
