# SPDX-License-Identifier: Apache-2.0
"""``tf.data.Options``: settings of datasets, which gpuconf stores. It has no datasets."""

from __future__ import annotations

import enum

from .._typing import Any
from ._names import publish

AUTOTUNE = INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2


class AutoShardPolicy(enum.IntEnum):
    """How a dataset is divided among workers."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class _Settings:
    """Settings that have a type, the annotation, and are None until they are set."""

    def __init__(self) -> None:
        for name in self.__annotations__:
            kind = self._type(name)
            if issubclass(kind, (_Settings, list)):
                object.__setattr__(self, name, kind())
            elif name in vars(type(self)):
                object.__setattr__(self, name, vars(type(self))[name])

    def _type(self, name: str) -> Any:
        text = self.__annotations__[name]
        return {"bool": bool, "int": int, "list[object]": list, "str": str}.get(text) or globals()[text]

    def __getattr__(self, name: str) -> Any:
        if name in self.__annotations__:
            return None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__annotations__:
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        kind = self._type(name)
        if not isinstance(value, kind):
            raise TypeError(f'Property "{name}" must be of type {kind}, got: {value!r} (type: {type(value)})')
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__: None = None  # type: ignore[assignment]

    def __dir__(self) -> list[str]:
        return sorted(self.__annotations__)


class AutotuneOptions(_Settings):
    """``Options.autotune``."""

    enabled: bool
    cpu_budget: int
    ram_budget: int
    initial_parallelism: int
    min_parallelism: int


class DistributeOptions(_Settings):
    """``Options.experimental_distribute``."""

    auto_shard_policy: AutoShardPolicy = AutoShardPolicy.AUTO
    num_devices: int


class OptimizationOptions(_Settings):
    """``Options.experimental_optimization``."""

    apply_default_optimizations: bool
    filter_fusion: bool
    filter_parallelization: bool
    inject_prefetch: bool
    map_and_batch_fusion: bool
    map_and_filter_fusion: bool
    map_fusion: bool
    map_parallelization: bool
    noop_elimination: bool
    parallel_batch: bool
    seq_interleave_prefetch: bool
    shuffle_and_repeat_fusion: bool


class ThreadingOptions(_Settings):
    """``Options.threading``."""

    max_intra_op_parallelism: int
    private_threadpool_size: int


class Options(_Settings):
    """The settings of a dataset: they are stored, and raise the errors of TensorFlow's.

    >>> from gpuconf.compat import v2 as tf
    >>> options = tf.data.Options()
    >>> options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    >>> options.threading.private_threadpool_size = 4
    """

    autotune: AutotuneOptions
    dataset_name: str
    deterministic: bool
    experimental_distribute: DistributeOptions
    experimental_optimization: OptimizationOptions
    experimental_slack: bool
    experimental_symbolic_checkpoint: bool
    experimental_warm_start: bool
    framework_type: list[object]
    threading: ThreadingOptions

    # Their older names.
    @property
    def experimental_deterministic(self) -> bool | None:
        """The older name of ``deterministic``."""
        return self.deterministic

    @property
    def experimental_threading(self) -> ThreadingOptions:
        """The older name of ``threading``."""
        return self.threading

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(_OLDER.get(name, name), value)

    def __dir__(self) -> list[str]:
        return sorted([*self.__annotations__, *_OLDER])


_OLDER = {"experimental_deterministic": "deterministic", "experimental_threading": "threading"}

publish(__name__)
