# SPDX-License-Identifier: Apache-2.0
"""``tf.distribute``: the devices of a strategy. gpuconf does not run programs on them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import islice

from ..._core.built_in_errors import raise_built_in
from ... import config, errors
from ..._core import texts
from ..._core.device_spec import name_of
from ..._core.devices import LogicalDevice
from ..._core.native import core
from ..._core.public import name_after
from ..._missing import watch
from ..._typing import Any

__all__ = [
    "MirroredStrategy",
    "ReduceOp",
    "Strategy",
    "StrategyExtended",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
]


class StrategyExtended:
    """``Strategy.extended``: the devices of a strategy."""

    def __init__(self, devices: tuple[str, ...]) -> None:
        self.devices = devices

    @property
    def worker_devices(self) -> tuple[str, ...]:
        """The full names of the devices, one for each replica. Raises RuntimeError for the default strategy."""
        return self._given("worker_devices")

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """The same devices: each holds a copy. Raises RuntimeError for the default strategy."""
        return self._given("parameter_devices")

    def _given(self, name: str) -> tuple[str, ...]:
        if not self.devices:
            raise RuntimeError(f"{name}() method unsupported by default tf.distribute.Strategy.")
        return self.devices


class ReduceOp(enum.Enum):
    """How ``reduce`` combines the values of the replicas."""

    SUM = "SUM"
    MEAN = "MEAN"


class Strategy:
    """A list of devices, one replica on each. ``get_strategy`` and ``MirroredStrategy`` create strategies."""

    def __init__(self, extended: StrategyExtended) -> None:
        self._extended = extended

    @property
    def extended(self) -> StrategyExtended:
        """The devices: ``extended.worker_devices``."""
        return self._extended

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas."""
        return max(len(self._extended.devices), 1)

    def scope(self) -> AbstractContextManager[Any]:
        """Not available: raises UnimplementedError."""
        raise errors.UnimplementedError(f"Strategy.scope needs TensorFlow's variables, with a copy on each device. {_REST}")

    def run(self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
        """Not available: raises UnimplementedError."""
        del fn, args, kwargs, options
        raise errors.UnimplementedError(f"Strategy.run needs TensorFlow to run a function on each device. {_REST}")

    def reduce(self, reduce_op: Any, value: Any, axis: Any) -> Any:
        """Not available: raises UnimplementedError."""
        del reduce_op, value, axis
        raise errors.UnimplementedError(f"Strategy.reduce needs TensorFlow's operations between devices. {_REST}")


class _DefaultStrategy(Strategy):
    """The strategy of a program without one: a single replica, on whichever device operations choose."""

    def scope(self) -> AbstractContextManager[Any]:
        """Return a context manager that changes nothing."""
        return nullcontext(self)

    def run(self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
        """Return ``fn(*args, **kwargs)``."""
        del options
        return fn(*args, **(kwargs or {}))

    def reduce(self, reduce_op: Any, value: Any, axis: Any) -> Any:
        """Return the value of the single replica. Raises ValueError for an unknown ``reduce_op``.

        Raises UnimplementedError for an ``axis`` other than None: that adds up the elements of a tensor.
        """
        if not isinstance(reduce_op, ReduceOp):
            name = reduce_op.upper() if isinstance(reduce_op, str) else texts.bounded_repr(reduce_op)
            if name not in ReduceOp.__members__:
                raise ValueError(f"{name!r} is not a valid ReduceOp")
        if axis is not None:
            raise errors.UnimplementedError("Strategy.reduce with an axis needs TensorFlow's operations")
        return value


class MirroredStrategy(Strategy):
    """One replica on each of several devices of this process: ``devices``, else all logical GPUs, else all CPUs.

    ``devices`` is a sequence of device strings or LogicalDevices. As in TensorFlow, they need not exist. ``cross_device_ops``
    is ignored. Initializes the runtime.

    Raises ValueError for a malformed device string or another job, TypeError for other objects, and AssertionError for a device
    that occurs twice.

    >>> strategy = MirroredStrategy()
    >>> strategy.num_replicas_in_sync
    2
    >>> strategy.extended.worker_devices[1]
    '/job:localhost/replica:0/task:0/device:GPU:1'
    """

    def __init__(self, devices: Any = None, cross_device_ops: Any = None) -> None:
        del cross_device_ops
        logical = config.list_logical_devices("GPU") or config.list_logical_devices("CPU")
        try:
            given = list(islice(devices or logical, _MOST + 1))  # an iterator may be endless
        except TypeError as error:
            raise TypeError(str(error)) from None
        if len(given) > _MOST:
            raise ValueError(f"`devices` has more than {_MOST} entries")
        names = tuple(map(_full_name, given))
        if len(set(names)) != len(names):
            raise AssertionError(f"No duplicates allowed in `devices` argument: {names}")
        super().__init__(StrategyExtended(names))


def _full_name(device: Any) -> str:
    if isinstance(device, LogicalDevice):
        device = device.name
    name = core.pybind_MergeScope("", texts.check_text("device", name_of(device)))
    if not name.startswith("/job:localhost/replica:0/task:0/"):
        raise ValueError(f"{name} unknown device. gpuconf configures the devices of one process")
    return name


_MOST = 4096  # devices of a strategy
_REST = "gpuconf configures devices: num_replicas_in_sync and extended.worker_devices work without TensorFlow"
_default = _DefaultStrategy(StrategyExtended(()))


def get_strategy() -> Strategy:
    """Return the current strategy: the default one, with one replica. gpuconf cannot enter another.

    >>> get_strategy().num_replicas_in_sync
    1
    """
    return _default


def has_strategy() -> bool:
    """Return whether a strategy other than the default one is entered: never."""
    return False


def in_cross_replica_context() -> bool:
    """Return whether code runs for all replicas of a strategy together: never."""
    return False


name_after(__name__, __all__)

raise_built_in(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
