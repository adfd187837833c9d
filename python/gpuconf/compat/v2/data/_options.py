# SPDX-License-Identifier: Apache-2.0
"""``tf.data.Options``: stored settings. There are no datasets here."""

from __future__ import annotations

import enum

from ...._typing import Any


class AutoShardPolicy(enum.IntEnum):
    """How a dataset is divided among workers."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


_NONE: dict[str, Any] = {}


class _Settings:
    """Settings that have a type, and are None until they are set."""

    _types: dict[str, Any] = _NONE
    _defaults: dict[str, Any] = _NONE

    def __init__(self) -> None:
        for name, made in self._defaults.items():
            object.__setattr__(
                self, name, made() if isinstance(made, type) and issubclass(made, (_Settings, list)) else made
            )

    def __getattr__(self, name: str) -> Any:
        if name in self._types:
            return None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self._types.get(name)
        if kind is None:
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        if not isinstance(value, kind):
            text = f'Property "{name}" must be of type {kind}, got: {value!r} (type: {type(value)})'
            raise TypeError(text)
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__: None = None  # type: ignore[assignment]

    def __dir__(self) -> list[str]:
        return sorted(self._types)


_AUTOTUNE_TYPES = {
    "enabled": bool,
    "cpu_budget": int,
    "ram_budget": int,
    "initial_parallelism": int,
    "min_parallelism": int,
}


class AutotuneOptions(_Settings):
    """``Options.autotune``."""

    _types = _AUTOTUNE_TYPES


_DISTRIBUTE_TYPES = {"auto_shard_policy": AutoShardPolicy, "num_devices": int}


_DISTRIBUTE_DEFAULTS = {"auto_shard_policy": AutoShardPolicy.AUTO}


class DistributeOptions(_Settings):
    """``Options.experimental_distribute``."""

    _types = _DISTRIBUTE_TYPES
    _defaults = _DISTRIBUTE_DEFAULTS


_OPTIMIZATION_TYPES = dict.fromkeys(
    (
        "apply_default_optimizations",
        "filter_fusion",
        "filter_parallelization",
        "inject_prefetch",
        "map_and_batch_fusion",
        "map_and_filter_fusion",
        "map_fusion",
        "map_parallelization",
        "noop_elimination",
        "parallel_batch",
        "seq_interleave_prefetch",
        "shuffle_and_repeat_fusion",
    ),
    bool,
)


class OptimizationOptions(_Settings):
    """``Options.experimental_optimization``."""

    _types = _OPTIMIZATION_TYPES


_THREADING_TYPES = {"max_intra_op_parallelism": int, "private_threadpool_size": int}


class ThreadingOptions(_Settings):
    """``Options.threading``."""

    _types = _THREADING_TYPES


_ALL_TYPES = {
    "autotune": AutotuneOptions,
    "dataset_name": str,
    "deterministic": bool,
    "experimental_deterministic": bool,
    "experimental_distribute": DistributeOptions,
    "experimental_optimization": OptimizationOptions,
    "experimental_slack": bool,
    "experimental_symbolic_checkpoint": bool,
    "experimental_threading": ThreadingOptions,
    "experimental_warm_start": bool,
    "framework_type": list,
    "threading": ThreadingOptions,
}


_ALL_DEFAULTS = {
    "autotune": AutotuneOptions,
    "experimental_distribute": DistributeOptions,
    "experimental_optimization": OptimizationOptions,
    "framework_type": list,
    "threading": ThreadingOptions,
}


class Options(_Settings):
    """The settings of a dataset: they are stored, and raise the errors of TensorFlow's.

    >>> from gpuconf.compat import v2 as tf
    >>> options = tf.data.Options()
    >>> options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    >>> options.threading.private_threadpool_size = 4
    """

    _types = _ALL_TYPES
    _defaults = _ALL_DEFAULTS

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(_OLDER.get(name, name))

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(_OLDER.get(name, name), value)


_OLDER = {"experimental_deterministic": "deterministic", "experimental_threading": "threading"}
