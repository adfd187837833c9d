# SPDX-License-Identifier: Apache-2.0
"""Whether TensorFlow's functions run eagerly or build graphs."""

from __future__ import annotations

from ..._typing import Any
from .._proto import ConfigProto
from .._shape import set_v2_shapes
from . import _graph
from ._eager import take_over

_eager = True
_equality = True


def executing_eagerly() -> bool:
    """Return whether the functions of ``gpuconf.compat.v2`` run operations eagerly in this thread.

    True by default. False after ``disable_v2_behavior`` or ``disable_eager_execution``, and inside
    ``Graph.as_default()`` and ``with`` blocks of sessions. The functions of ``gpuconf`` always run eagerly, and those
    of ``gpuconf.compat.v1`` always build graphs.

    >>> import gpuconf.compat.v1 as tf
    >>> with tf.Graph().as_default():
    ...     tf.executing_eagerly()
    False
    """
    return _eager and not _graph.entered()


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
    """
    global _eager
    take_over(config, device_policy, execution_mode, switches=not _eager)
    _eager = True


_equality = True


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
