# SPDX-License-Identifier: Apache-2.0
"""``tf.Variable`` and ``tf.name_scope``, which names variables."""

from __future__ import annotations

import threading

from ..._core import scope
from ..._core.block import Block
from ..._typing import Any
from ...tensors.tensor import Reference
from ...tensors.tensor import Tensor as Plain
from .._arrays import name_of
from .._names import publish
from .._numpy_ops import give_operators
from ..v1._graph import get_default_graph, mark_used
from ..v1._mode import by_value, executing_eagerly
from . import _eager_tensor


class _Here(threading.local):
    """The scopes of one thread where operations run eagerly, outermost first, each with the outer ones and a slash."""

    def __init__(self) -> None:
        self.entered: list[str] = []


_here = _Here()


def in_scope(name: str) -> str:
    """Return the name of a variable in the scope of this thread, where operations run eagerly."""
    return f"{_here.entered[-1]}{name}" if _here.entered else name


class name_scope(Block):  # noqa: N801 - TensorFlow's name
    """Put a name before those of the operations that a ``with`` block adds to a graph; see ``Graph.name_scope``.

    Where operations run eagerly, it names variables. Raises ValueError for a name that is not a str.

    >>> import gpuconf.compat.v2 as tf
    >>> with tf.name_scope("layer"):
    ...     tf.Variable(1.0, name="weight").name
    'layer/weight:0'
    """

    def __init__(self, name: Any) -> None:
        if not isinstance(name, str):
            raise ValueError("name for name_scope must be a string.")
        self._name = name
        self._in_graph: list[Any] = []  # for each time it is entered, the scope of a graph, or None

    @property
    def name(self) -> str:
        """The requested name."""
        return self._name

    def __enter__(self) -> str:
        if executing_eagerly():
            inner = self._name if self._name.endswith("/") or not self._name else f"{in_scope(self._name)}/"
            _here.entered.append(inner)
            self._in_graph.append(None)
            return inner
        scope = get_default_graph().name_scope(self._name)
        name: str = scope.__enter__()
        self._in_graph.append(scope)
        return name

    def _leave(self, *error: Any) -> None:
        scope = self._in_graph.pop()
        if scope is None:
            _here.entered.pop()
        else:
            scope.__exit__(*error)


class _VariableType(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if executing_eagerly():
            return super().__call__(*args, **kwargs)
        from ..v1._variables import Variable as InGraph

        return InGraph(*args, **kwargs)


class Variable(metaclass=_VariableType):
    """A tensor that ``assign`` replaces. Where operations build graphs, ``compat.v1.Variable``."""

    __array_priority__: float = 100.0  # NumPy's operators leave `array + variable` to the variable

    def __init__(
        self, initial_value: Any = None, trainable: bool = True, name: str | None = None, dtype: Any = None, **_: Any
    ) -> None:
        if initial_value is None:
            raise ValueError(
                "The `initial_value` arg to `tf.Variable` must be specified except when you are not providing a shape."
            )
        mark_used()
        value = initial_value() if callable(initial_value) else initial_value
        self.trainable = trainable
        self.name: str = f"{in_scope(name or 'Variable')}:0"
        self._scope = scope.current_scope()
        self._tensor = self._placed(
            _eager_tensor.array_of(Plain.numpy(value) if isinstance(value, Plain) else value, dtype)
        )

    def _placed(self, array: Any) -> Any:
        with scope.device(self._scope or None):
            return _eager_tensor.computed(array)

    @property
    def device(self) -> str:
        """The full name of the device that holds the value."""
        return str(self._tensor.device)

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self._tensor.dtype

    @property
    def shape(self) -> Any:
        """The sizes."""
        return self._tensor.shape

    def get_shape(self) -> Any:
        """The sizes."""
        return self._tensor.shape

    def numpy(self) -> Any:
        """Copy the value into a new NumPy array."""
        return self._tensor.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._tensor.__array__(dtype, copy)

    def value(self) -> Any:
        """The value, as a tensor."""
        return self._tensor

    read_value = value

    def assign(self, value: Any, use_locking: Any = None, name: Any = None, read_value: bool = True) -> Any:
        """Replace the value, on the same device. Raises ValueError for another shape.

        Returns the variable under TensorFlow's name, or None without ``read_value``.
        """
        del use_locking, name
        array = _eager_tensor.of(value, self._tensor)
        if tuple(array.shape) != tuple(self.shape):
            raise ValueError(
                f"Cannot assign value to variable '{self.name}': Shape mismatch.The variable shape {self.shape}, and "
                f"the assigned value shape {tuple(array.shape)} are incompatible."
            )
        self._tensor = self._placed(array)
        return _UnreadVariable._of(self) if read_value else None

    def assign_add(self, delta: Any, use_locking: Any = None, name: Any = None, read_value: bool = True) -> Any:
        """Add to the value."""
        return self.assign(self._tensor + delta, use_locking, name, read_value)

    def assign_sub(self, delta: Any, use_locking: Any = None, name: Any = None, read_value: bool = True) -> Any:
        """Subtract from the value."""
        return self.assign(self._tensor - delta, use_locking, name, read_value)

    def __getitem__(self, key: Any) -> Any:
        return self._tensor[key]

    def __bool__(self) -> bool:
        return bool(self._tensor)

    def __float__(self) -> float:
        return float(self._tensor)

    def __int__(self) -> int:
        return int(self._tensor)

    def __eq__(self, other: object) -> Any:
        return self._compared("eq", other) if by_value() else self is other

    def __ne__(self, other: object) -> Any:
        return self._compared("ne", other) if by_value() else self is not other

    def _compared(self, method: str, other: Any) -> Any:
        """Compare the elements, also with None, of which a tensor says that it is not equal, and a variable raises."""
        if other is None:
            _eager_tensor.array_of(other)
        return getattr(self._tensor, f"__{method}__")(tensor_of(other))

    def __hash__(self) -> int:
        if by_value():
            raise TypeError(f"Variable is unhashable. Instead, use variable.ref() as the key. (Variable: {self!r})")
        return id(self)

    def ref(self) -> Reference:
        """Return a reference to the variable, which can be a key of a dict and an element of a set."""
        return Reference(self)

    def __repr__(self) -> str:
        if not executing_eagerly():
            return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"
        array = Plain.numpy(self._tensor)
        text = repr(array) if array.ndim else repr(array.item())
        start = "\n" if "\n" in text else ""
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={name_of(array)}, numpy={start}{text}>"


class _UnreadVariable(Variable):
    """What ``assign`` returns: the variable, under the name that TensorFlow gives it there."""

    @classmethod
    def _of(cls, variable: Variable) -> Any:
        made = object.__new__(cls)
        made.__dict__ = variable.__dict__  # one value
        return made

    name = property(lambda _: "UnreadVariable")


def tensor_of(value: Any) -> Any:
    """Return the tensor of a variable, and any other value as it is."""
    return value._tensor if isinstance(value, Variable) else value


def mismatched(variable: Variable, wanted: str) -> ValueError:
    """Return the error of a variable where a value of another type is wanted."""
    return ValueError(
        f"Incompatible type conversion requested to type {wanted} for `tf.Variable of type {variable.dtype.name}. "
        f"(Variable: {variable!r})"
    )


give_operators(Variable, tensor_of)


publish(__name__)
