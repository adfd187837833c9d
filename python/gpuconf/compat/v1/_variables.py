# SPDX-License-Identifier: Apache-2.0
"""Variables of graphs: how they are made, initialized and shared by scopes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from ... import errors
from ..._core.block import Block
from ..._typing import Any
from ...tensors import arrays
from ...tensors.tensor import Reference
from .. import _numpy_ops as numpy_ops
from .._arrays import type_name
from .._dtypes import as_dtype
from .._names import publish
from .._shape import TensorShape
from . import _both, _ops, _python_ops
from ._both import either, in_2
from ._graph import Graph, Operation, Tensor, as_tensor, fit, get_default_graph
from ._mode import runs_eagerly
from ._scopes import AUTO_REUSE, VariableScope


class _VariableType(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return in_2("Variable")(*args, **kwargs) if runs_eagerly() else super().__call__(*args, **kwargs)


class Variable(metaclass=_VariableType):
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
        value = initial_value() if callable(initial_value) else initial_value
        graph = getattr(value, "graph", None) or get_default_graph()
        name = graph._name_scopes.own(name or "Variable")
        first = as_tensor(value, None, graph, f"{name}initial_value")
        first = first if dtype is None else _python_ops.cast(first, type_name(dtype), f"{name}Cast/")
        self.trainable = trainable
        self._key = object()
        self._value = _python_ops.add_result("VariableV2", (), self._read, first._dtype, first._shape, name)
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
        """Add an operation that replaces the value, and returns it. Raises ValueError for another shape."""
        new = as_tensor(value, self._value, self.graph)
        if not fit(self._value._shape, new._shape):
            raise ValueError(
                f"Cannot assign value to variable ' {self._value.name}': Shape mismatch.The variable shape "
                f"{self.shape}, and the assigned value shape {new.shape} are incompatible."
            )

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

    def __bool__(self) -> bool:
        return bool(self._value)

    def __iter__(self) -> Any:
        return iter(self._value)

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self._value._dtype}>"


numpy_ops.give_operators(Variable, lambda value: value._value if isinstance(value, Variable) else value)


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
    wanted = type_name("float32" if dtype is None else dtype)
    if shape is None and (initializer is None or callable(initializer)):
        raise ValueError(f"Variable {name} did not get an initializer, so its `shape` argument must be specified.")
    if initializer is None:
        initializer = glorot_uniform_initializer
    if callable(initializer):
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


def local_variables(scope: str | None = None) -> list[Any]:
    """Return ``[]``: gpuconf has no local variables."""
    del scope
    return []


def trainable_variables(scope: str | None = None) -> list[Any]:
    """Return the variables of the default graph that are trainable."""
    return [each for each in global_variables(scope) if each.trainable]


@either
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


@either
def global_variables_initializer() -> Operation:
    """Add an operation that initializes the variables of the default graph.

    >>> import gpuconf.compat.v1 as tf
    >>> tf.Session().run(tf.global_variables_initializer())
    """
    return variables_initializer(global_variables())


class variable_scope(Block):  # noqa: N801 - TensorFlow's name
    """Put a name before those of the variables that ``get_variable`` adds in a ``with`` block.

    ``name_or_scope`` is a name or a VariableScope; if it is None, ``default_name`` with a number that makes it new.
    ``reuse`` is True, to return existing variables only, or ``AUTO_REUSE``, to return existing variables and add
    others. ``initializer`` and ``dtype`` apply to variables that are added without. The block is in a name scope, too,
    unless ``auxiliary_name_scope`` is False. The other arguments have no effect.

    Raises ValueError if there is no name, and TypeError for something else than a name.

    >>> import gpuconf.compat.v1 as tf
    >>> with tf.Graph().as_default(), tf.variable_scope("layer"):
    ...     tf.get_variable("weight", [2])
    <tf.Variable 'layer/weight:0' shape=(2,) dtype=float32>
    """

    def __init__(
        self,
        name_or_scope: Any,
        default_name: str | None = None,
        values: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        reuse: Any = None,
        dtype: Any = None,
        use_resource: Any = None,
        constraint: Any = None,
        auxiliary_name_scope: bool = True,
    ) -> None:
        del values, regularizer, caching_device, partitioner, custom_getter, use_resource, constraint
        if default_name is None and name_or_scope is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if not isinstance(name_or_scope, (str, VariableScope, type(None))):
            raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
        if reuse is False:
            reuse = None  # inherited, as in TensorFlow
        if name_or_scope is None and reuse:
            raise ValueError("reuse=True cannot be used without a name_or_scope")
        self._asked, self._default = name_or_scope, default_name
        self._set = {"initializer": initializer, "reuse": reuse, "dtype": dtype}
        self._auxiliary = auxiliary_name_scope
        self._left: list[Any] = []

    def __enter__(self) -> VariableScope:
        graph = get_default_graph()
        scopes = graph.variable_scopes
        outer = scopes.current
        asked = self._asked if self._asked is not None else scopes.unique(str(self._default))
        own = asked.name if isinstance(asked, VariableScope) else outer.full(asked) if asked else outer.name
        last = (asked.name.rpartition("/")[2] if isinstance(asked, VariableScope) else asked) or None
        names = nullcontext(f"{graph.get_name_scope()}/".lstrip("/"))
        if self._auxiliary and last:
            names = graph.name_scope(last)
        name_scope = names.__enter__()
        base = asked if isinstance(asked, VariableScope) else outer
        scopes.current = VariableScope(
            own,
            asked.original_name_scope if isinstance(asked, VariableScope) else name_scope,
            self._set["reuse"] or outer.reuse or base.reuse,
            self._set["initializer"] or base.initializer,
            self._set["dtype"] or base.dtype,
        )
        for name in [name for name in scopes.counts if name.startswith(f"{own}/")]:
            del scopes.counts[name]
        scopes.counts[own] = scopes.counts.get(own, 0) + 1
        self._left.append((scopes, outer, names))
        return scopes.current

    def _leave(self, *error: Any) -> None:
        scopes, outer, names = self._left.pop()
        scopes.current = outer
        names.__exit__(*error)


def get_variable_scope() -> VariableScope:
    """Return the variable scope of this thread in the default graph. Outside of all, its name is ``""``."""
    return get_default_graph().variable_scopes.current


class Initializer:
    """The base of the initializers."""

    def __init__(self, dtype: Any = "float32") -> None:
        self.dtype = dtype

    def _value(self, shape: Any, dtype: Any) -> Any:
        raise NotImplementedError

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        """Return a tensor of a shape."""
        del partition_info
        return self._value(shape, self.dtype if dtype is None else dtype)


class zeros_initializer(Initializer):  # noqa: N801 - TensorFlow's names
    """Zeros."""

    def _value(self, shape: Any, dtype: Any) -> Any:
        return _both.zeros(shape, dtype)


class ones_initializer(Initializer):  # noqa: N801
    """Ones."""

    def _value(self, shape: Any, dtype: Any) -> Any:
        return _both.ones(shape, dtype)


class constant_initializer(Initializer):  # noqa: N801
    """A number, or an array that is filled into the shape."""

    def __init__(self, value: Any = 0, dtype: Any = "float32", verify_shape: bool = False) -> None:
        super().__init__(dtype)
        self.value = value
        self._verify = verify_shape

    def _value(self, shape: Any, dtype: Any) -> Any:
        return _ops.constant(self.value, dtype, shape, verify_shape=self._verify)


class random_uniform_initializer(Initializer):  # noqa: N801
    """Uniformly distributed numbers."""

    def __init__(self, minval: float = 0.0, maxval: Any = None, seed: Any = None, dtype: Any = "float32") -> None:
        super().__init__(dtype)
        self.minval: float = minval
        self.maxval: Any = maxval
        self.seed: Any = seed

    def _value(self, shape: Any, dtype: Any) -> Any:
        return _both.random_uniform(shape, self.minval, self.maxval, dtype, self.seed)


class random_normal_initializer(Initializer):  # noqa: N801
    """Normally distributed numbers."""

    _draw = "random_normal"

    def __init__(self, mean: float = 0.0, stddev: float = 1.0, seed: Any = None, dtype: Any = "float32") -> None:
        super().__init__(dtype)
        self.mean: float = mean
        self.stddev: float = stddev
        self.seed: Any = seed

    def _value(self, shape: Any, dtype: Any) -> Any:
        return getattr(_both, self._draw)(shape, self.mean, self.stddev, dtype, self.seed)


class truncated_normal_initializer(random_normal_initializer):  # noqa: N801
    """Normally distributed numbers within two standard deviations."""

    _draw = "truncated_normal"


class glorot_uniform_initializer(Initializer):  # noqa: N801
    """Uniformly distributed numbers whose bound falls with the number of inputs and outputs."""

    def __init__(self, seed: Any = None, dtype: Any = "float32") -> None:
        super().__init__(dtype)
        self.seed = seed

    def _value(self, shape: Any, dtype: Any) -> Any:
        bound = (6 / max(sum(list(shape)[-2:]), 1)) ** 0.5
        return _both.random_uniform(shape, -bound, bound, dtype, self.seed)


publish(__name__)
