# SPDX-License-Identifier: Apache-2.0
"""``tf.distribute``: strategies, which choose devices."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice

from .. import config, errors
from .._core import texts
from .._core.block import Block
from .._core.built_in_errors import raising_built_in
from .._core.device_spec import name_of
from .._core.devices import LogicalDevice
from .._core.native import core
from .._typing import Any, NamedTuple
from . import _replicas
from ._names import publish
from .v1._graph import mark_used
from .v1._mode import executing_eagerly


class InputReplicationMode(enum.Enum):
    """Whether there is a pipeline of inputs for each worker, or for each replica."""

    PER_WORKER = "PER_WORKER"
    PER_REPLICA = "PER_REPLICA"


class InputOptions(NamedTuple):
    """How a dataset is distributed."""

    experimental_fetch_to_device: object = None
    experimental_replication_mode: InputReplicationMode = InputReplicationMode.PER_WORKER
    experimental_place_dataset_on_device: bool = False
    experimental_per_replica_buffer_size: int = 1


class RunOptions(NamedTuple):
    """How ``Strategy.run`` compiles a function."""

    experimental_enable_dynamic_batch_size: bool = True
    experimental_bucketizing_dynamic_shape: bool = False
    experimental_xla_options: object = None


def _plainly(function: Any) -> Any:
    """Let a function raise plain ValueErrors for device strings, as TensorFlow does."""
    return raising_built_in(function, everything=True)


class StrategyExtended:
    """``Strategy.extended``: the devices of a strategy."""

    def __init__(self, devices: Sequence[str], parameters: Sequence[str] = ()) -> None:
        self.devices = devices
        self.parameters: Sequence[str] = parameters or devices

    @property
    def worker_devices(self) -> Sequence[str]:
        """The full names of the devices, one for each replica. Raises RuntimeError for the default strategy."""
        return self._given("worker_devices")

    @property
    def parameter_devices(self) -> Sequence[str]:
        """The devices that hold the parameters: each has a copy. Raises RuntimeError for the default strategy."""
        self._given("parameter_devices")
        return self.parameters

    def _given(self, name: str) -> Sequence[str]:
        if self is _default.extended:
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
        self._resolver: Any = None

    @property
    def extended(self) -> StrategyExtended:
        """The devices: ``extended.worker_devices``."""
        return self._extended

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas."""
        return 1 if self is _default else len(self._extended.devices)

    @property
    def cluster_resolver(self) -> Any:
        """The resolver that the strategy was made with, else None."""
        return self._resolver

    def scope(self) -> AbstractContextManager[Any]:
        """Return a context manager in which :func:`get_strategy` returns this strategy. It changes nothing else.

        >>> strategy = MirroredStrategy()
        >>> with strategy.scope():
        ...     get_strategy() is strategy
        True
        """
        return _Scope(self)

    def run(self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
        """Run a function once for each replica, one after another, in the scope of its device.

        Where the results are not the same object, the value is a PerReplica of them: see
        ``experimental_local_results``. In ``args`` and ``kwargs``, each replica gets its own values of a PerReplica.
        Errors of the function pass on.

        >>> strategy = MirroredStrategy()
        >>> numbers = strategy.run(lambda: get_replica_context().replica_id_in_sync_group.numpy())
        >>> strategy.experimental_local_results(numbers)
        (np.int32(0), np.int32(1))
        """
        del options
        with _Scope(self):
            return _replicas.run(self, self._extended.devices, fn, args, kwargs)

    def reduce(self, reduce_op: Any, value: Any, axis: Any) -> Any:
        """Return the sum or the mean of the values of all replicas, and of the elements along ``axis`` unless that is
        None.

        Raises ValueError for an unknown ``reduce_op``.
        """
        return _replicas.reduced(_reduction(reduce_op), self.num_replicas_in_sync, value, axis)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """Return the values of the replicas, as a tuple."""
        return _replicas.local_results(value)

    def experimental_distribute_values_from_function(self, value_fn: Callable[..., Any]) -> Any:
        """Return a PerReplica of what ``value_fn`` returns for each replica's ValueContext."""
        count = self.num_replicas_in_sync
        return _replicas.gathered([value_fn(_replicas.ValueContext(each, count)) for each in range(count)])


class _DefaultDistributionStrategy(Strategy):
    """The strategy of a program without one: a single replica, on whichever device operations choose."""

    def scope(self) -> AbstractContextManager[Any]:
        """Return a context manager that changes nothing."""
        return nullcontext(self)

    def run(self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
        """Return ``fn(*args, **kwargs)``."""
        del options
        return fn(*args, **(kwargs or {}))


def _reduction(reduce_op: Any) -> str:
    """Return "SUM" or "MEAN"."""
    if isinstance(reduce_op, ReduceOp):
        return reduce_op.value
    name = reduce_op.upper() if isinstance(reduce_op, str) else texts.bounded_repr(reduce_op)
    if name not in ReduceOp.__members__:
        raise ValueError(f"{name!r} is not a valid ReduceOp")
    return str(name)


class MirroredStrategy(Strategy):
    """One replica on each of several devices of this process: ``devices``, else all logical GPUs, else all CPUs.

    ``devices`` is a sequence of device strings or LogicalDevices. As in TensorFlow, they need not exist.
    ``cross_device_ops`` is ignored. Initializes the runtime, in graph mode only for devices of one kind.

    Raises ValueError for a malformed device string or another job, TypeError for what is no sequence,
    AttributeError for what is no device, and AssertionError for a device that occurs twice.

    >>> strategy = MirroredStrategy()
    >>> strategy.num_replicas_in_sync
    2
    >>> strategy.extended.worker_devices[1]
    '/job:localhost/replica:0/task:0/device:GPU:1'
    """

    _collective_key_base = 0  # tests of other libraries set it

    def __init__(self, devices: Any = None, cross_device_ops: Any = None) -> None:
        del cross_device_ops
        given = list(islice(devices or all_devices(), _MOST + 1))  # an iterator may be endless
        if len(given) > _MOST:
            raise ValueError(f"`devices` has more than {_MOST} entries")
        names = tuple(map(full_name, given))
        other = [name for name in names if not name.startswith("/job:localhost/replica:0/task:0/")]
        duplicates = len(set(names)) != len(names)
        if other and (executing_eagerly() or not duplicates):
            raise ValueError(f"{other[0]} unknown device. gpuconf configures the devices of one process")
        if executing_eagerly():
            config.list_logical_devices()
        if duplicates:
            raise AssertionError(f"No duplicates allowed in `devices` argument: {names}")
        _check_present(names)
        super().__init__(StrategyExtended(names))


def all_devices() -> list[LogicalDevice]:
    """Return the logical GPUs, or, without any, the logical CPUs. Initializes the runtime."""
    return config.list_logical_devices("GPU") or config.list_logical_devices("CPU")


def _check_present(names: tuple[str, ...]) -> None:
    """Raise InvalidArgumentError for an absent device if soft placement is off and all devices are of one kind."""
    if len({"CPU" in name for name in names}) != 1:
        return
    mark_used()
    present = [f"/job:localhost/replica:0/task:0{each.name}" for each in config.list_logical_devices()]
    absent = [name for name in names if name not in present]
    if absent and not config.get_soft_device_placement():
        types = ", ".join(sorted({name.rpartition(":")[0].rpartition(":")[2] for name in present}))
        raise errors.InvalidArgumentError(
            f"Could not satisfy device specification '{absent[0]}'. enable_soft_placement=0. "
            f"Supported device types [{types}]. All available devices [{', '.join(present)}]."
        )


class OneDeviceStrategy(Strategy):
    """One replica on one device, which need not exist: ``device`` is a device string. Initializes the runtime where
    operations run eagerly.

    >>> OneDeviceStrategy("/gpu:1").extended.worker_devices
    ('/job:localhost/replica:0/task:0/device:GPU:1',)
    """

    def __init__(self, device: Any) -> None:
        name = full_name(device)
        if executing_eagerly():
            config.list_logical_devices()
        super().__init__(StrategyExtended((name,)))


class MultiWorkerMirroredStrategy(Strategy):
    """One replica on each logical GPU of this worker, else on the CPU. Initializes the runtime.

    ``communication_options`` are ignored. Raises UnimplementedError if ``TF_CONFIG`` names a cluster of
    several tasks: that needs TensorFlow.
    """

    def __init__(
        self, cluster_resolver: Any = None, communication_options: Any = None, communication: Any = None
    ) -> None:
        del communication_options, communication
        if _tasks() > 1:
            raise errors.UnimplementedError(
                f"a MultiWorkerMirroredStrategy of several workers needs TensorFlow. {_REST}"
            )
        logical = config.list_logical_devices("GPU") or config.list_logical_devices("CPU")[:1]
        super().__init__(StrategyExtended(tuple(map(full_name, logical))))
        if cluster_resolver is None:
            from ._clusters import TFConfigClusterResolver

            cluster_resolver = TFConfigClusterResolver()
        self._resolver = cluster_resolver


def _tasks() -> int:
    """Return the number of tasks in ``TF_CONFIG``; 1 without one."""
    import json
    import os

    try:
        cluster = json.loads(os.environ.get("TF_CONFIG", "") or "{}").get("cluster", {})
        return max(sum(len(tasks) for job, tasks in cluster.items() if job in ("chief", "worker")), 1)
    except (ValueError, AttributeError, TypeError):
        return 1


class TPUStrategy(Strategy):
    """Raises ValueError, as on a machine without a TPU."""

    def __init__(self, tpu_cluster_resolver: Any = None, *_: Any, **__: Any) -> None:
        del tpu_cluster_resolver
        from ._clusters import TPUClusterResolver

        TPUClusterResolver()


class CrossDeviceOps:
    """How a strategy adds up values of devices. gpuconf keeps it as an argument only."""


class HierarchicalCopyAllReduce(CrossDeviceOps):
    """An argument for strategies. Raises ValueError for a negative ``num_packs``."""

    def __init__(self, num_packs: int = 1) -> None:
        if num_packs < 0:
            raise ValueError(f"HierarchicalCopy requires num_packs >= 0, but {num_packs} is specified")


class NcclAllReduce(CrossDeviceOps):
    """An argument for strategies. Raises ValueError for a negative ``num_packs``."""

    def __init__(self, num_packs: int = 1) -> None:
        if num_packs < 0:
            raise ValueError(f"NCCL all-reduce requires num_packs >= 0, but {num_packs} is specified")


class ReductionToOneDevice(CrossDeviceOps):
    """An argument for strategies."""

    def __init__(self, reduce_to_device: Any = None, accumulation_fn: Any = None) -> None:
        self.reduce_to_device = reduce_to_device
        self.accumulation_fn = accumulation_fn


class _Entered(threading.local):
    def __init__(self) -> None:
        self.set: list[Strategy] = []  # by experimental_set_strategy
        self.strategies: list[Strategy] = []  # that one, and those whose scopes the thread is in


_entered = _Entered()


class _Scope(Block):
    """The context manager that ``Strategy.scope`` returns."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    def __enter__(self) -> Strategy:
        if _entered.strategies and _entered.strategies[-1] is not self._strategy:
            raise RuntimeError(
                "Already inside a scope for a different strategy: Mixing different tf.distribute.Strategy objects"
            )
        _entered.strategies.append(self._strategy)
        return self._strategy

    def _leave(self, *_: object) -> None:
        _entered.strategies.pop()


@_plainly
def full_name(device: Any) -> str:
    """Return the full name of a device; of the CPU for None, False and 0.

    Raises ValueError for a malformed string, AttributeError for what is no device and TypeError for what cannot be
    hashed, as TensorFlow does.
    """
    if not executing_eagerly():
        mark_used()
    text = device.name if isinstance(device, LogicalDevice) else name_of(device)
    if not isinstance(text, str):
        hash(text)
        text = text or ""
    if not isinstance(text, str):
        if isinstance(text, bytes):
            raise TypeError("a bytes-like object is required, not 'str'")
        raise AttributeError(f"{type(text).__name__!r} object has no attribute 'split'")
    return core.pybind_MergeScope("", texts.check_text("device", text))


_MOST = 4096  # devices of a strategy
_REST = "gpuconf configures devices: num_replicas_in_sync and extended.worker_devices work without TensorFlow"
_default = _DefaultDistributionStrategy(StrategyExtended(()))


def get_strategy() -> Strategy:
    """Return the strategy whose scope this thread is in, else the default one, with one replica.

    >>> get_strategy().num_replicas_in_sync
    1
    """
    return _entered.strategies[-1] if has_strategy() else _default


def has_strategy() -> bool:
    """Return whether this thread is in the scope of a strategy other than the default one."""
    mark_used()
    return bool(_entered.strategies)


def in_cross_replica_context() -> bool:
    """Return whether code runs for all replicas of a strategy together: in the scope of a strategy, outside of
    ``run``.
    """
    return bool(_entered.strategies) and not _replicas.running.contexts


def get_replica_context() -> _replicas.ReplicaContext | None:
    """Return the replica that this code runs for, inside ``Strategy.run``; None in the scope of a strategy."""
    if _replicas.running.contexts:
        return _replicas.running.contexts[-1]
    return None if _entered.strategies else _replicas.ReplicaContext(get_strategy(), 0)


def experimental_set_strategy(strategy: Strategy | None) -> None:
    """Make a strategy what :func:`get_strategy` returns outside of scopes; None for the default one.

    Raises RuntimeError inside a scope.
    """
    if len(_entered.strategies) > len(_entered.set):
        raise RuntimeError("Must not be called inside a `tf.distribute.Strategy` scope.")
    _entered.set = [] if strategy is None else [strategy]
    _entered.strategies = list(_entered.set)


class CommunicationImplementation(enum.Enum):
    """How workers communicate. gpuconf keeps it as an argument only."""

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


class CommunicationOptions:
    """The options of communication. gpuconf keeps them as an argument only."""

    def __init__(
        self,
        bytes_per_pack: int = 0,
        timeout_seconds: float | None = None,
        implementation: Any = CommunicationImplementation.AUTO,
    ) -> None:
        if bytes_per_pack < 0:
            raise ValueError(f"Argument `bytes_per_pack` must be >=0, Received {bytes_per_pack}.")
        self.bytes_per_pack = bytes_per_pack
        self.timeout_seconds = timeout_seconds
        self.implementation = implementation

    def __str__(self) -> str:
        return (
            f"Options(bytes_per_pack={self.bytes_per_pack},timeout_seconds={self.timeout_seconds}, "
            f"implementation={self.implementation})"
        )


class CentralStorageStrategy(Strategy):
    """One replica on each logical GPU, with the parameters on the CPU, or on the GPU if there is one.

    ``extended`` has ``parameter_device`` as it was passed. Initializes the runtime, in graph mode only to list GPUs.

    >>> CentralStorageStrategy().extended.parameter_devices
    ('/device:CPU:0',)
    """

    def __init__(self, compute_devices: Any = None, parameter_device: Any = None) -> None:
        if not executing_eagerly():
            mark_used()
        if compute_devices is None or executing_eagerly():
            logical = config.list_logical_devices("GPU") or config.list_logical_devices("CPU")[:1]
        devices = list(map(full_name, logical if compute_devices is None else compute_devices))
        if parameter_device is None:
            parameter_device = devices[0] if len(devices) == 1 else "/device:CPU:0"
        super().__init__(StrategyExtended(devices, (parameter_device,)))


publish(__name__)
