# SPDX-License-Identifier: Apache-2.0
"""The replicas of a strategy: what each of them runs, and the values that they return."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from .. import errors
from .._typing import Any
from ._names import publish


class DistributedValues:
    """The base of values that differ between replicas."""


class PerReplica(DistributedValues):
    """One value for each replica."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = tuple(values)

    @property
    def values(self) -> tuple[Any, ...]:
        """The values, in the order of the replicas."""
        return self._values

    def _shown(self, show: Callable[[Any], str]) -> str:
        lines = ",\n".join(f"  {number}: {show(each)}" for number, each in enumerate(self._values))
        return f"PerReplica:{{\n{lines}\n}}"

    def __str__(self) -> str:
        return self._shown(str)

    def __repr__(self) -> str:
        return self._shown(repr)


class ReplicaContext:
    """The replica that code runs for: ``get_replica_context`` returns it."""

    def __init__(self, strategy: Any, replica_id: int) -> None:
        self._strategy = strategy
        self._number = replica_id

    @property
    def strategy(self) -> Any:
        """The strategy."""
        return self._strategy

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas."""
        return int(self._strategy.num_replicas_in_sync)

    @property
    def replica_id_in_sync_group(self) -> Any:
        """The number of the replica, from 0, as a tensor; in the default strategy as an int."""
        from .v2._ops import constant

        return constant(self._number) if self.num_replicas_in_sync > 1 else self._number

    @property
    def devices(self) -> tuple[str, ...]:
        """The device of the replica; ``""`` for any."""
        devices = self._strategy._extended.devices
        return (devices[self._number] if devices else "",)

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Return ``value`` where it is the only replica.

        Raises UnimplementedError for several, which would have to meet.
        """
        del reduce_op, options
        return self._alone("all_reduce", value)

    def merge_call(self, merge_fn: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """Return ``merge_fn(strategy, *args, **kwargs)`` where it is the only replica.

        Raises UnimplementedError for several.
        """
        return self._alone("merge_call", merge_fn)(self._strategy, *args, **(kwargs or {}))

    def _alone(self, what: str, value: Any) -> Any:
        if self.num_replicas_in_sync > 1:
            raise errors.UnimplementedError(
                f"{what} of several replicas needs TensorFlow: gpuconf runs them one after another"
            )
        return value


class ValueContext:
    """The replica that a value is made for: see ``Strategy.experimental_distribute_values_from_function``."""

    def __init__(self, replica_id_in_sync_group: int = 0, num_replicas_in_sync: int = 1) -> None:
        self.replica_id_in_sync_group = replica_id_in_sync_group
        self.num_replicas_in_sync = num_replicas_in_sync


class Running(threading.local):
    """The replicas that a thread runs, innermost last."""

    def __init__(self) -> None:
        self.contexts: list[ReplicaContext] = []


running = Running()


def run(strategy: Any, devices: Sequence[str], function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run a function for each device, one after another, and return what they return: see :func:`gathered`."""
    from .v2._ops import device

    results = []
    for number, name in enumerate(devices):
        running.contexts.append(ReplicaContext(strategy, number))
        try:
            with device(name):
                results.append(function(*_chosen(tuple(args), number), **_chosen(dict(kwargs or {}), number)))
        finally:
            running.contexts.pop()
    return gathered(results)


def _chosen(value: Any, number: int) -> Any:
    """Return the arguments of a replica."""
    if isinstance(value, PerReplica):
        return value.values[number]
    if isinstance(value, dict):
        return {key: _chosen(each, number) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_chosen(each, number) for each in value)
    return value


def gathered(results: list[Any]) -> Any:
    """Return the values of all replicas as one: a PerReplica where they are not the same object, also inside of lists
    and dicts.
    """
    first = results[0]
    if len(results) == 1 or all(each is first for each in results):
        return first
    if isinstance(first, dict):
        return {key: gathered([each[key] for each in results]) for key in first}
    if type(first) in (list, tuple):
        return type(first)(gathered(list(column)) for column in zip(*results, strict=True))
    return PerReplica(results)


def local_results(value: Any) -> tuple[Any, ...]:
    """Return the values of the replicas; a single value of all replicas as a tuple of one."""
    if isinstance(value, PerReplica):
        return value.values
    if type(value) in (list, tuple):
        return tuple(type(value)(column) for column in zip(*map(local_results, value), strict=True))
    return (value,)


def reduced(operation: str, replicas: int, value: Any, axis: Any) -> Any:
    """Return the sum or the mean of the values of all replicas, and along ``axis`` if it is not None."""
    from .v2 import _ops

    parts = local_results(value)
    if axis is not None:
        tensors = list(map(_tensor, parts if isinstance(value, PerReplica) else parts * replicas))
        if any(not tuple(each.shape) for each in tensors):
            raise ValueError(f"Invalid reduction dimension {axis} for input with 0 dimensions.")
        parts = tuple(getattr(_ops, f"reduce_{operation.lower()}")(each, axis) for each in tensors)
    elif not isinstance(value, PerReplica) and replicas > 1:
        if operation == "SUM" and value:
            raise ValueError(
                f"A non-DistributedValues value {value} cannot be reduced with the given reduce op ReduceOp.SUM."
            )
        return value
    if len(parts) == 1:
        return parts[0]
    total = _ops.add_n([_tensor(each) for each in parts])
    return total if operation == "SUM" else total / float(len(parts))


def _tensor(value: Any) -> Any:
    from .v2._ops import convert_to_tensor

    return convert_to_tensor(value)


publish(__name__)
