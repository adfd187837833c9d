# SPDX-License-Identifier: Apache-2.0
"""Operations and scopes that run eagerly, or build graphs where TensorFlow does."""

from __future__ import annotations

from ... import errors
from ..._core import scope
from ..._typing import Any
from ...tensors import operations as eager
from ...tensors.tensor import Tensor as EagerTensor
from ..v1 import _graph
from ..v1 import _ops as graph
from ..v1._mode import executing_eagerly


class _TensorType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (EagerTensor, _graph.Tensor))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, (EagerTensor, _graph.Tensor))

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise TypeError("Tensor objects cannot be created directly: use constant() or another operation")


class Tensor(metaclass=_TensorType):
    """The type of eager tensors, ``gpuconf.Tensor``, and of graph tensors, ``gpuconf.compat.v1.Tensor``: for isinstance."""


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Any:
    """Create a tensor, see ``gpuconf.constant``; where operations build graphs, see ``gpuconf.compat.v1.constant``.

    >>> import gpuconf.compat.v2 as tf
    >>> tf.constant([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    >>> with tf.Graph().as_default():
    ...     tf.constant([1.0, 2.0])
    <gpuconf.compat.v1.Tensor 'Const:0' shape=(2,) dtype=float32>
    """
    return (eager if executing_eagerly() else graph).constant(value, dtype, shape, name)


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None) -> Any:
    """Multiply two matrices, see ``gpuconf.matmul``."""
    return (eager if executing_eagerly() else graph).matmul(a, b, transpose_a, transpose_b, name)


def add(x: Any, y: Any, name: str | None = None) -> Any:
    """Add two tensors, see ``gpuconf.add``."""
    return (eager if executing_eagerly() else graph).add(x, y, name)


def add_n(inputs: Any, name: str | None = None) -> Any:
    """Add the tensors of a list, see ``gpuconf.add_n``."""
    return (eager if executing_eagerly() else graph).add_n(inputs, name)


def identity(input: Any, name: str | None = None) -> Any:  # noqa: A002 - TensorFlow's name
    """Return a tensor with the same contents, see ``gpuconf.identity``."""
    return (eager if executing_eagerly() else graph).identity(input, name)


def device(device_name: Any) -> Any:
    """Choose the device of a ``with`` block, see ``gpuconf.device``; where operations build graphs, ``Graph.device``.

    Raises RuntimeError for a function.
    """
    if callable(device_name):
        raise RuntimeError("tf.device does not support functions.")
    return scope.device(device_name) if executing_eagerly() else _graph.get_default_graph().device(device_name)


def control_dependencies(control_inputs: Any) -> Any:
    """Add control dependencies, see ``Graph.control_dependencies``. Where operations run eagerly, they are in order anyway.

    A function among ``control_inputs`` is called there, as in TensorFlow.
    """
    if not executing_eagerly():
        return _graph.get_default_graph().control_dependencies(control_inputs)
    from contextlib import nullcontext

    for each in control_inputs or ():
        if callable(each):
            each()
    return nullcontext()
