# SPDX-License-Identifier: Apache-2.0
"""Whether TensorFlow's functions run eagerly or build graphs; ConfigProtos for the whole program; seeds."""

from __future__ import annotations

from random import Random

from ..._core import runtime
from ..._core.devices import LogicalDeviceConfiguration
from ..._core.message import dumps
from ..._core.native import core
from ..._missing import stands_in
from ..._typing import Any
from ...config import _devices, experimental
from .._names import publish
from .._proto import ConfigProto
from .._shape import set_v2_shapes
from . import _graph
from ._graph import get_default_graph


def options_of(config: ConfigProto | None, place_pruned: bool = False) -> str:
    """Return a ConfigProto as JSON for the core. For None, placement follows ``gpuconf.config``."""
    if config is None:
        return dumps({"place_pruned_graph": place_pruned})
    gpu = config.gpu_options
    more = gpu.experimental
    virtual: list[dict[str, Any]] = [
        {
            "memory_limit_mb": [repr(limit) for limit in each.memory_limit_mb],
            "priority": list(each.priority),
            "device_ordinal": list(each.device_ordinal),
        }
        for each in more.virtual_devices
    ]
    return dumps(
        {
            "device_count": dict(config.device_count),
            "visible_device_list": gpu.visible_device_list,
            "allow_growth": gpu.allow_growth,
            "allocator_type": gpu.allocator_type,
            "per_process_gpu_memory_fraction": repr(gpu.per_process_gpu_memory_fraction),
            "use_unified_memory": more.use_unified_memory,
            "gpu_system_memory_size_in_mb": more.gpu_system_memory_size_in_mb,
            "num_virtual_devices_per_gpu": more.num_virtual_devices_per_gpu,
            "virtual_devices": virtual,
            "allow_soft_placement": config.allow_soft_placement,
            "log_device_placement": config.log_device_placement,
            "place_pruned_graph": place_pruned or config.graph_options.place_pruned_graph,
            "intra_op_parallelism_threads": config.intra_op_parallelism_threads,
            "inter_op_parallelism_threads": config.inter_op_parallelism_threads,
        }
    )


# TensorFlow's numbers for device policies and execution modes.
_POLICIES = {0: "explicit", 1: "warn", 2: "silent", 3: "silent_for_int32"}
_MODES = {0: True, 1: False}  # synchronous


def take_over(config: ConfigProto | None, device_policy: Any, execution_mode: Any, switches: bool) -> None:
    """Apply a ConfigProto to the configuration of ``gpuconf``.

    ``switches`` is true if eager execution is disabled now.
    """
    if config is not None and not isinstance(config, ConfigProto):
        raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}")
    if device_policy is not None and device_policy not in _POLICIES:
        raise ValueError("device_policy must be one of None, DEVICE_PLACEMENT_*")
    if execution_mode is not None and execution_mode not in _MODES:
        raise ValueError("execution_mode must be one of None, SYNC, ASYNC")
    if switches and _graph.used():
        raise ValueError("tf.enable_eager_execution must be called at program startup.")
    if config is None and device_policy is None and execution_mode is None:
        return
    if runtime.enumerated() or runtime.current.at_enumeration:
        raise ValueError(
            "tf.enable_eager_execution must be called at program startup. The devices have already been listed: call "
            "it before any function that lists devices, or call gpuconf.reset() first"
        )
    if device_policy is not None:
        experimental.set_device_policy(_POLICIES[device_policy])
    if execution_mode is not None:
        experimental.set_synchronous_execution(_MODES[execution_mode])
    if config is None:
        return
    # Copied: later changes of the config have no effect.
    options, cpus = options_of(config), config.device_count.get("CPU", 1)

    def apply() -> None:
        core.pybind_ImportConfig(options)
        if cpus > 1:
            _devices.show(0, [LogicalDeviceConfiguration() for _ in range(cpus)])

    runtime.current.at_enumeration.append(apply)


_eager = True
_equality = True


def executing_eagerly() -> bool:
    """Return whether the functions of ``gpuconf.compat.v2`` run operations eagerly in this thread.

    True by default. False after ``disable_v2_behavior`` or ``disable_eager_execution``, and inside
    ``Graph.as_default()`` and ``with`` blocks of sessions. The functions of ``gpuconf`` always run eagerly, and those
    of ``gpuconf.compat.v1`` build graphs; where gpuconf is imported as TensorFlow, they do what this returns.

    >>> import gpuconf.compat.v1 as tf
    >>> with tf.Graph().as_default():
    ...     tf.executing_eagerly()
    False
    """
    return _eager and not _graph.entered()


def runs_eagerly() -> bool:
    """Return whether the functions of ``compat.v1`` run eagerly: where those of ``compat.v2`` do, in a program that
    imports gpuconf as TensorFlow.
    """
    return executing_eagerly() and stands_in()


def executing_eagerly_outside_functions() -> bool:
    """Return the same as :func:`executing_eagerly`: gpuconf has no traced functions."""
    return executing_eagerly()


def by_value() -> bool:
    """Return whether ``==`` of tensors and variables of ``compat.v2`` compares their elements, and not the objects."""
    return _equality and executing_eagerly()


def disable_tensor_equality() -> None:
    """Let ``==`` of tensors and variables compare the objects, as in TensorFlow 1.

    >>> import gpuconf.compat.v1 as tf
    >>> import gpuconf.compat.v2 as tf2
    >>> tf.disable_tensor_equality()
    >>> tf2.constant(1.0) == 1.0
    False
    >>> tf.enable_tensor_equality()
    >>> print(tf2.constant(1.0) == 1.0)
    tf.Tensor(True, shape=(), dtype=bool)
    """
    global _equality
    _equality = False


def enable_tensor_equality() -> None:
    """Let ``==`` of tensors and variables compare their elements where operations run eagerly. The default."""
    global _equality
    _equality = True


def disable_eager_execution() -> None:
    """Let the functions of ``gpuconf.compat.v2`` build graphs, for all threads."""
    global _eager
    _eager = False


def enable_eager_execution(
    config: ConfigProto | None = None, device_policy: Any = None, execution_mode: Any = None
) -> None:
    """Let the functions of ``gpuconf.compat.v2`` run eagerly, and apply a ConfigProto to the whole program.

    Call it before any function that lists the devices. It changes the configuration as TensorFlow does:
    ``device_count`` and ``visible_device_list`` set the visible and logical devices, and ``allow_growth``, the memory
    fraction and the other ``gpu_options`` apply to the whole program. The first call that lists the devices, and only
    that call, raises errors in these lists.

    Raises TypeError if ``config`` is not a ConfigProto, and ValueError for an invalid ``device_policy`` or
    ``execution_mode``, if the devices have already been listed, or if eager execution is disabled and the default graph
    has been used.

    In a program that imports gpuconf as TensorFlow, the functions of ``compat.v1`` then run eagerly, too, and a call
    where operations run eagerly already has no effect, as in TensorFlow.
    """
    global _eager
    if not _eager or not stands_in():
        take_over(config, device_policy, execution_mode, switches=not _eager)
    _eager = True


def disable_v2_behavior() -> None:
    """Behave as TensorFlow 1: the functions of ``gpuconf.compat.v2`` build graphs, which sessions run.

    >>> import gpuconf.compat.v1 as tf
    >>> tf.disable_v2_behavior()
    >>> tf.executing_eagerly()
    False
    >>> tf.reset_default_graph()
    >>> tf.enable_v2_behavior()
    """
    set_v2_shapes(False)
    disable_tensor_equality()
    disable_eager_execution()


def enable_v2_behavior() -> None:
    """Behave as TensorFlow 2: the functions of ``gpuconf.compat.v2`` run eagerly. The default.

    Raises ValueError if eager execution is disabled and the default graph has been used; see
    :func:`reset_default_graph`.
    """
    enable_eager_execution()
    set_v2_shapes(True)
    enable_tensor_equality()


def set_random_seed(seed: Any) -> None:
    """Set the seed of the default graph, ``Graph.seed``. Random numbers of a seed repeat, but they are NumPy's.

    Where operations run eagerly, the seed is only checked: raises TypeError for an unhashable seed that is not one
    number, and ValueError for one that is text of no number.
    """
    from .._numpy_ops import seeds

    if not executing_eagerly():
        get_default_graph().seed = seed
        seeds.set(seed)
        return
    try:
        Random(seed)
    except TypeError:
        from ...tensors import arrays

        arrays.check_readable(seed)  # NumPy would never finish reading a list that contains itself
        array = arrays.numpy().array(seed)
        try:
            int(array.item() if array.size == 1 else array)
        except TypeError as error:
            raise TypeError(f"the seed must be an integer, but got {arrays.shown(seed)}: {error}") from None
    seeds.set(seed)
    seeds.given = seed


publish(__name__)
