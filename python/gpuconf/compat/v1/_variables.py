# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1.Variable`` and ``get_variable``: values that a session keeps, as far as checking a device needs
them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ... import errors
from ..._typing import Any
from ...tensors import arrays
from ...tensors.tensor import Reference
from .. import _numpy_ops as numpy_ops
from .._dtypes import as_dtype
from .._shape import TensorShape
from . import _python_ops
from ._graph import Graph, Operation, Tensor, as_tensor, get_default_graph
from ._variable_scopes import AUTO_REUSE


class Variable:
    """A value of a graph that each session keeps from run to run.

    There is no training: nothing else changes it than ``assign``.
    """

    __array_priority__: float = 100.0  # NumPy's operators leave `array + variable` to the variable

    def __init__(
        self, initial_value: Any = None, trainable: bool = True, name: str | None = None, dtype: Any = None, **_: Any
    ) -> None:
        if initial_value is None:
            raise ValueError(
                "The `initial_value` arg to `tf.Variable` must be specified except when you are not providing a shape."
            )
        graph = get_default_graph()
        value = initial_value() if callable(initial_value) else initial_value
        first = (
            _python_ops.cast(value, arrays.dtype_of(dtype).name) if dtype is not None else as_tensor(value, None, graph)
        )
        self.trainable = trainable
        self._key = object()
        self._value = _python_ops.add_result(
            "VariableV2", (), self._read, first._dtype, first._shape, name or "Variable"
        )
        self.initializer: Operation = _python_ops.add_action(
            "Assign",
            (first,),
            lambda session, a: session.variables.__setitem__(self._key, a),
            f"{self.op.name}/Assign/",
        )
        graph.variables.append(self)

    def _read(self, session: Any) -> Any:
        if self._key not in session.variables:
            raise errors.FailedPreconditionError(None, self.op, f"Attempting to use uninitialized value {self.op.name}")
        return session.variables[self._key]

    @property
    def op(self) -> Operation:
        """The operation of the variable."""
        return self._value.op

    @property
    def name(self) -> str:
        """The name, such as ``"Variable:0"``."""
        return self._value.name

    @property
    def graph(self) -> Graph:
        """The graph of the variable."""
        return self._value.graph

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self._value.dtype

    @property
    def shape(self) -> Any:
        """The sizes."""
        return self._value.shape

    @property
    def device(self) -> str:
        """The requested device, or ``""``."""
        return self._value.device

    def get_shape(self) -> Any:
        """The sizes."""
        return self._value.shape

    def value(self) -> Tensor:
        """The value, as a tensor."""
        return self._value

    read_value = value
    initialized_value = value

    def eval(self, session: Any = None) -> Any:
        """Return the value in a session."""
        return self._value.eval(session=session)

    def assign(self, value: Any, name: str | None = None, **_: Any) -> Tensor:
        """Add an operation that replaces the value, and returns it."""
        new = as_tensor(value, self._value, self.graph)

        def keep(session: Any, array: Any) -> Any:
            session.variables[self._key] = array
            return array

        return _python_ops.add_result("Assign", (new,), keep, self._value._dtype, self._value._shape, name)

    def assign_add(self, delta: Any, **_: Any) -> Tensor:
        """Add an operation that adds to the value."""
        return self.assign(self._value + delta)

    def assign_sub(self, delta: Any, **_: Any) -> Tensor:
        """Add an operation that subtracts from the value."""
        return self.assign(self._value - delta)

    def ref(self) -> Reference:
        """Return a reference to the variable, which is equal to each other one."""
        return Reference(self)

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self._value._dtype}>"


def _operators() -> None:
    reversible = ("add", "sub", "mul", "truediv", "matmul", "pow", "floordiv", "mod")
    for method in (*reversible, *(f"r{each}" for each in reversible), "lt", "le", "gt", "ge"):

        def forward(self: Variable, other: Any, name: str = f"__{method}__") -> Any:
            return getattr(self._value, name)(other._value if isinstance(other, Variable) else other)

        setattr(Variable, f"__{method}__", forward)


_operators()


def get_variable(
    name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, trainable: bool = True, **_: Any
) -> Any:
    """Return the variable of a name in the default graph, or add it, as the variable scope says: see
    :class:`variable_scope`.

    ``initializer`` is a value, or a function of a shape; by default the scope's, else uniformly distributed numbers, as
    Glorot's. Raises ValueError if there is one already and the scope does not reuse it, or if there is none and the
    scope adds none.
    """
    if not isinstance(name, str):
        raise TypeError(f"expected string or bytes-like object, got '{type(name).__name__}'")
    graph = get_default_graph()
    scope = graph.variable_scopes.current
    full = scope.full(name)
    variable = next((each for each in graph.variables if each.op.name == full), None)
    if variable is not None and scope.reuse:
        if shape is not None and TensorShape(arrays.shape_of(shape)) != variable.shape:
            wanted, has = TensorShape(arrays.shape_of(shape)), variable.shape
            raise ValueError(f"Trying to share variable {full}, but specified shape {wanted} and found shape {has}.")
        return variable
    if variable is not None:
        raise ValueError(
            f"Variable {full} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in "
            "VarScope?"
        )
    if scope.reuse and scope.reuse != AUTO_REUSE:
        raise ValueError(
            f"Variable {full} does not exist, or was not created with tf.get_variable(). "
            "Did you mean to set reuse=tf.AUTO_REUSE in VarScope?"
        )
    with graph.name_scope(None):
        return _added(
            full, shape, dtype or scope.dtype, scope.initializer if initializer is None else initializer, trainable
        )


def _added(name: str, shape: Any, dtype: Any, initializer: Any, trainable: bool) -> Any:
    """Add a variable."""
    wanted = arrays.dtype_of("float32" if dtype is None else dtype).name
    if shape is None and (initializer is None or callable(initializer)):
        raise ValueError(f"Variable {name} did not get an initializer, so its `shape` argument must be specified.")
    if initializer is None:
        sizes = arrays.shape_of(shape)
        bound = (6 / max(sum(sizes[-2:]), 1)) ** 0.5
        initializer = _python_ops.drawn(
            "RandomUniform",
            lambda: numpy_ops.uniform(sizes, -bound, bound, wanted, None),
            wanted,
            sizes,
            f"{name}/Initializer/random_uniform",
        )
    elif callable(initializer):
        make = initializer() if isinstance(initializer, type) else initializer
        initializer = make(list(arrays.shape_of(shape)), dtype=as_dtype(wanted))
    return Variable(initializer, trainable, name, wanted)


def assign(ref: Any, value: Any, validate_shape: Any = None, use_locking: Any = None, name: str | None = None) -> Any:
    """Add an operation that replaces the value of a variable, and returns it."""
    del validate_shape, use_locking
    return ref.assign(value, name=name)


def assign_add(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Any:
    """Add an operation that adds to a variable."""
    del use_locking, name
    return ref.assign_add(value)


def assign_sub(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Any:
    """Add an operation that subtracts from a variable."""
    del use_locking, name
    return ref.assign_sub(value)


def global_variables(scope: str | None = None) -> list[Any]:
    """Return the variables of the default graph."""
    return [each for each in get_default_graph().variables if scope is None or each.op.name.startswith(scope)]


all_variables = global_variables


def local_variables(scope: str | None = None) -> list[Any]:
    """Return ``[]``: gpuconf has no local variables."""
    del scope
    return []


def trainable_variables(scope: str | None = None) -> list[Any]:
    """Return the variables of the default graph that are trainable."""
    return [each for each in global_variables(scope) if each.trainable]


def variables_initializer(var_list: Sequence[Any], name: str = "init") -> Operation:
    """Add an operation that initializes variables.

    >>> import gpuconf.compat.v1 as tf
    >>> v = tf.Variable([1.0, 2.0])
    >>> with tf.Session() as session:
    ...     session.run(tf.variables_initializer([v]))
    ...     session.run(v * 2.0)
    array([2., 4.], dtype=float32)
    """
    graph = get_default_graph()
    with graph.control_dependencies([each.initializer for each in var_list]):
        return graph.operation("NoOp", (), 0, name)


def global_variables_initializer() -> Operation:
    """Add an operation that initializes the variables of the default graph.

    >>> import gpuconf.compat.v1 as tf
    >>> tf.Session().run(tf.global_variables_initializer())
    """
    return variables_initializer(global_variables())


initialize_all_variables = global_variables_initializer
initialize_variables = variables_initializer
