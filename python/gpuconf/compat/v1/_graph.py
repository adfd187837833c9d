# SPDX-License-Identifier: Apache-2.0
"""Graphs: operations that run when a session fetches their results."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence

from ... import errors
from ..._core.block import Block
from ..._core.built_in_errors import raise_built_in_class
from ..._core.devices import LogicalDevice
from ..._core.message import loads
from ..._core.native import core, loaded, refuse_in_child
from ..._core.table import Made, make
from ..._typing import Any, NoReturn
from ...tensors import arrays
from ...tensors.tensor import Reference
from ...tensors.tensor import Tensor as EagerTensor
from .._arrays import array_of, is_core, name_of
from .._dtypes import DType, as_dtype
from .._names import publish
from .._proto import GraphDef, NodeDef, VersionDef
from .._shape import TensorShape
from ._scopes import ControlDependencies, Controller, DeviceScope, NameScope, NameScopes, Scopes, VariableScopes

_REMEDY = "Run it in a Session and use the array that run() returns, or use `gpuconf`'s eager tensors."
_FORM = 'Tensor names must be of the form "<op_name>:<output_index>".'
_PRODUCER = 2474  # TensorFlow 2.21's GRAPH_DEF_VERSION


class Operation(metaclass=Made):
    """An operation of a graph: a node with one result, or, if its type is ``"NoOp"``, none."""

    __slots__ = ("_control_inputs", "_number", "device", "graph", "inputs", "name", "outputs", "type")

    _made_by = "gpuconf.compat.v1.constant() and the other functions add them to a graph"
    _number: int  # its number in the core
    name: str
    type: str  # such as "MatMul"
    device: str  # the requested device, or ""
    graph: Graph
    inputs: tuple[Tensor, ...]
    outputs: list[Tensor]
    _control_inputs: tuple[Operation, ...]

    @property
    def control_inputs(self) -> list[Operation]:
        """The operations that run before this one without being its inputs; see ``Graph.control_dependencies``."""
        return list(self._control_inputs)

    @property
    def node_def(self) -> NodeDef:
        """The operation as a message, without its attributes."""
        inputs = [tensor.op.name for tensor in self.inputs] + [f"^{each.name}" for each in self._control_inputs]
        return NodeDef(name=self.name, op=self.type, input=inputs, device=self.device)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run the operation in ``session``, by default the default session.

        Raises ValueError if there is no session, or if it runs a different graph.
        """
        _session_for(self.graph, session, _CANT_RUN).run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


class Tensor(metaclass=Made):
    """The result of an operation of a graph. It has a value only inside a session's run.

    ``shape`` has None for a size that is not known before a run: see :func:`placeholder`.
    """

    __slots__ = ("_dtype", "_shape", "op")

    __array_priority__: float = 100.0  # makes NumPy's operators defer `array + tensor` to the tensor
    __array_ufunc__ = None

    _made_by = "gpuconf.compat.v1.constant() and the other functions add them to a graph"
    op: Operation
    _shape: tuple[int | None, ...] | None
    _dtype: str

    @property
    def shape(self) -> TensorShape:
        """The sizes."""
        return TensorShape(self._shape)

    @property
    def graph(self) -> Graph:
        """The graph that the tensor belongs to."""
        return self.op.graph

    @property
    def name(self) -> str:
        """The name, such as ``"MatMul:0"``."""
        return self.op.name + ":0"

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return as_dtype(self._dtype)

    @property
    def device(self) -> str:
        """The requested device, or ``""``. The placement log shows the actual device."""
        return self.op.device

    @property
    def value_index(self) -> int:
        """The index among the results of its operation. Always 0."""
        return 0

    def get_shape(self) -> TensorShape:
        """The sizes."""
        return self.shape

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Compute the tensor in ``session``, by default the default session.

        Raises ValueError if there is no session, or if it runs a different graph.
        """
        return _session_for(self.graph, session, _CANT_EVAL).run(self, feed_dict)

    def ref(self) -> Reference:
        """Return a reference to the tensor, which is equal to each other one."""
        return Reference(self)

    def _operator(self, kind: str, other: Any, name: str) -> Tensor:
        try:
            return node(kind, (self, other), 0, name, self)
        except WRONG:
            give_turn(self, other)
            raise

    def __add__(self, other: Any) -> Tensor:
        return self._operator("Add", other, "add")

    def __radd__(self, other: Any) -> Tensor:
        return node("Add", (other, self), 0, "add", self)

    def __matmul__(self, other: Any) -> Tensor:
        return self._operator("MatMul", other, "matmul")

    def __rmatmul__(self, other: Any) -> Tensor:
        return node("MatMul", (other, self), 0, "matmul", self)

    def __bool__(self) -> bool:
        raise errors.OperatorNotAllowedInGraphError(
            f"Using a symbolic `tf.Tensor` as a Python `bool` is not allowed. {_REMEDY}"
        )

    def __iter__(self) -> NoReturn:
        raise errors.OperatorNotAllowedInGraphError(f"Iterating over a symbolic `tf.Tensor` is not allowed. {_REMEDY}")

    def __len__(self) -> NoReturn:
        raise TypeError(
            f"len is not well defined for a symbolic Tensor ({self.name}). Please call `x.shape` rather than `len(x)` "
            "for shape information."
        )

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            f"Cannot convert a symbolic tf.Tensor ({self.name}) to a numpy array. This error may indicate that you're "
            "trying to pass a Tensor to a NumPy call, which is not supported."
        )

    def __str__(self) -> str:
        shape = "" if self._shape is None else f"shape={self.shape}, "
        device = f", device={self.device}" if self.device else ""
        return f'Tensor("{self.name}", {shape}dtype={self._dtype}{device})'

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self.shape} dtype={self._dtype}>"


class Graph:
    """A graph of operations. It can only grow, is thread-safe, and outlives sessions and resets."""

    _ending = staticmethod(sys.is_finalizing)

    def __init__(self) -> None:
        self._lock = threading.RLock()  # never taken in a forked child
        self._operations: list[Operation] = []  # indexed by their number in the core
        self._named: dict[str, Operation] = {}
        self._scopes = Scopes()
        self._name_scopes = NameScopes()
        self._control = ControlDependencies()
        self.seed: Any = None  # see set_random_seed
        self.computed: dict[Operation, Any] = {}  # what sessions compute in Python: see _python_ops
        self.variables: list[Any] = []  # see _variables
        self.variable_scopes: VariableScopes = VariableScopes()
        self._finalized = False
        self._number = core.pybind_NewGraph()

    def as_default(self) -> _Default:
        """Make this the default graph of this thread for a ``with`` block."""
        return _Default(self)

    def device(self, device_name_or_function: Any) -> Any:
        """Set the device of the operations that a ``with`` block adds; see ``gpuconf.compat.v1.device``."""
        if isinstance(device_name_or_function, LogicalDevice):
            device_name_or_function = device_name_or_function.name
        return DeviceScope(self._scopes, device_name_or_function)

    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> Controller:
        """Make the operations that a ``with`` block adds run after ``control_inputs``, without reading them.

        ``control_inputs`` are operations, tensors or names. Blocks nest: an operation waits for the control inputs of
        all enclosing blocks. None disables all outer blocks. A block applies to the thread that enters it.

        Raises KeyError for an unknown name, ValueError for an element of another graph, and TypeError for any other
        object.

        >>> import gpuconf.compat.v1 as tf
        >>> graph = tf.Graph()
        >>> with graph.as_default():
        ...     first = tf.constant(1.0, name="first")
        ...     with graph.control_dependencies([first]):
        ...         second = tf.constant(2.0, name="second")
        >>> second.op.control_inputs
        [<tf.Operation 'first' type=Const>]
        """
        if control_inputs is None:
            return Controller(self._control, None)
        seen, operations = self._control.current(), []
        for each in control_inputs:
            element = self.as_graph_element(each)
            operation = element.op if isinstance(element, Tensor) else element
            if operation not in seen:
                seen.append(operation)
                operations.append(operation)
        return Controller(self._control, operations)

    def name_scope(self, name: str | None) -> Any:
        """Put a name before the names of the operations that a ``with`` block adds, and return it with a slash:
        ``"outer/name/"``.

        A name that is in use gets a number, and one that ends in a slash is used as it is. None and ``""`` leave all
        outer scopes. Raises ValueError for a name that cannot begin the name of an operation.

        >>> import gpuconf.compat.v1 as tf
        >>> graph = tf.Graph()
        >>> with graph.as_default(), graph.name_scope("layer"):
        ...     tf.constant(1.0, name="weight")
        <tf.Tensor 'layer/weight:0' shape=() dtype=float32>
        """
        return NameScope(self._name_scopes, name)

    def get_name_scope(self) -> str:
        """Return the name scope of this thread, without the slash."""
        return self._name_scopes.current

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Return a name in the current name scope that no operation and no scope has yet."""
        return self._name_scopes.unique(name, mark_as_used)

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False, **_: Any) -> GraphDef:
        """Return the operations as a message, without their attributes."""
        del from_version, add_shapes
        return GraphDef(node=[each.node_def for each in self.get_operations()], versions=VersionDef(producer=_PRODUCER))

    @property
    def finalized(self) -> bool:
        """Whether ``finalize`` was called."""
        return self._finalized

    def finalize(self) -> None:
        """Let no more operations be added: adding one raises RuntimeError. Sessions run the graph as before."""
        self._finalized = True

    def _check_that_it_may_grow(self) -> None:
        refuse_in_child()
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")

    def get_operations(self) -> list[Operation]:
        """Return the operations, in the order in which they were added."""
        return list(self._operations)

    def get_operation_by_name(self, name: str) -> Operation:
        """Return the operation with a name, such as ``"MatMul"``.

        Raises TypeError if the name is not a str, ValueError if it is a tensor's name, and KeyError if it is unknown.
        """
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        found = self.as_graph_element(name, allow_tensor=False)
        assert isinstance(found, Operation)
        return found

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Return the tensor with a name, such as ``"MatMul:0"``.

        Raises TypeError if the name is not a str, ValueError if it is an operation's name, and KeyError if it is
        unknown.
        """
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        found = self.as_graph_element(name, allow_operation=False)
        assert isinstance(found, Tensor)
        return found

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Tensor | Operation:
        """Return the tensor or operation that ``obj`` refers to: a name (a str, or bytes in UTF-8), a tensor or an
        operation.

        Raises KeyError for an unknown name, ValueError for an element of another graph or a malformed name, and
        TypeError for any other object.
        """
        if not allow_tensor and not allow_operation:
            raise ValueError("allow_tensor and allow_operation can't both be False.")
        kinds = [kind for kind, allowed in (("Tensor", allow_tensor), ("Operation", allow_operation)) if allowed]
        if isinstance(obj, (Tensor, Operation)):
            if type(obj).__name__ not in kinds:
                raise TypeError(f"Can not convert a {type(obj).__name__} into a {kinds[0]}.")
            if obj.graph is not self:
                raise ValueError(f"{type(obj).__name__} {obj} is not an element of this graph.")
            return obj
        if isinstance(obj, bytes):
            try:
                obj = obj.decode()
            except UnicodeDecodeError as error:
                raise ValueError(str(error)) from None
        if not isinstance(obj, str):
            raise TypeError(f"Can not convert a {type(obj).__name__} into a {' or '.join(kinds)}.")
        return self._tensor_named(obj, allow_tensor) if ":" in obj else self._operation_named(obj, allow_operation)

    def _tensor_named(self, name: str, allowed: bool) -> Tensor:
        if not allowed:
            raise ValueError(f"Name {name!r} appears to refer to a Tensor, not a Operation.")
        try:
            operation, index = name.split(":")
            number = int(index)
        except ValueError:
            text = f"The name {name!r} looks a like a Tensor name, but is not a valid one. {_FORM}"
            raise ValueError(text) from None
        producer = self._named.get(operation)
        missing = f"The name {name!r} refers to a Tensor which does not exist. The operation, {operation!r},"
        if producer is None:
            raise KeyError(f"{missing} does not exist in the graph.")
        try:
            return producer.outputs[number]
        except IndexError:
            raise KeyError(f"{missing} exists but only has {len(producer.outputs)} outputs.") from None

    def _operation_named(self, name: str, allowed: bool) -> Operation:
        found = self._named.get(name)
        if allowed:
            if found is None:
                raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
            return found
        looks = "refers to an Operation" if found is not None else "looks like an (invalid) Operation name"
        raise ValueError(f"The name {name!r} {looks}, not a Tensor. {_FORM}")

    def constant(self, array: Any, shape: tuple[int, ...], name: str) -> Tensor:
        """Add a constant. Internal: called by the operations of this package."""
        if not is_core(array.dtype.name):
            whole = arrays.numpy().resize(array, shape)
            return self.in_python("Const", (), lambda _: whole, name_of(array), shape, name)
        value = arrays.address_of(array), array.nbytes, arrays.name_of(array), arrays.shape_text(shape)

        def add(name: str, controls: str, device: str) -> str:
            return core.pybind_AddConstant(self._number, name, *value, controls, device)

        return self._added("Const", (), (), name, add).outputs[0]

    def placeholder(
        self,
        dtype: str,
        shape: tuple[int | None, ...] | None,
        name: str,
        kind: str = "Placeholder",
        inputs: Sequence[Tensor] = (),
    ) -> Tensor:
        """Add a placeholder. Internal: called by the operations of this package."""
        sizes = arrays.shape_text(tuple(-1 if size is None else size for size in shape or ()))
        known = dtype if is_core(dtype) else "float32"  # the core never reads it

        def add(name: str, controls: str, device: str) -> str:
            return core.pybind_AddPlaceholder(self._number, name, known, sizes, shape is None, controls, device)

        tensor = self._added(kind, inputs, (), name, add).outputs[0]
        tensor._dtype = dtype
        return tensor

    def in_python(
        self, kind: str, inputs: Sequence[Tensor], function: Any, dtype: str, shape: Any, name: str | None
    ) -> Tensor:
        """Add an operation that sessions compute in Python: see ``_python_ops``."""
        tensor = self.placeholder(dtype, shape, name or kind, kind, inputs)
        self.computed[tensor.op] = function
        return tensor

    def operation(self, kind: str, inputs: tuple[Tensor, ...], flags: int, name: str) -> Operation:
        """Add an operation on tensors of this graph. Internal: called by the operations of this package."""
        read = [each.op for each in inputs]

        def add(name: str, controls: str, device: str) -> str:
            return core.pybind_AddNode(self._number, kind, name, _numbers(read), controls, flags, device)

        return self._added(kind, inputs, read, name, add)

    def _added(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        read: Sequence[Operation],
        name: str,
        add: Callable[[str, str, str], str],
    ) -> Operation:
        """Return an operation that ``add`` adds to the core's graph, of which the core knows that it reads ``read``."""
        self._check_that_it_may_grow()  # before the lock, which another thread may have held
        name = self._name_scopes.full(name or kind)
        device = self._scopes.request(kind, name, self, inputs)
        controls = self._control.of(read)
        with self._lock:
            node = loads(add(name, _numbers(controls), device))
            operation = make(Operation)
            operation.name, operation.type, operation.device = node["name"], kind, device
            operation.graph, operation.inputs, operation._number = self, tuple(inputs), node["id"]
            operation._control_inputs = tuple(controls)
            operation.outputs = []
            if "dtype" in node:
                tensor = make(Tensor)
                tensor.op, tensor._shape, tensor._dtype = operation, _shape(node["shape"]), node["dtype"]
                operation.outputs.append(tensor)
            self._operations.append(operation)
            self._named[operation.name] = operation
            self._name_scopes.note(operation.name)
            self._control.note(operation)
            return operation

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a Graph cannot be copied or pickled: create it in the process that uses it")

    def __repr__(self) -> str:
        return f"<gpuconf.compat.v1.Graph of {len(self._operations)} operations>"

    def __del__(self) -> None:
        if self._ending() or not hasattr(self, "_number") or not loaded():
            return
        try:  # noqa: SIM105
            core.pybind_DropGraph(self._number)
        except errors.GpuconfError:
            pass


def _shape(sizes: list[int] | None) -> tuple[int | None, ...] | None:
    return None if sizes is None else tuple(None if size < 0 else size for size in sizes)


def _numbers(operations: list[Operation]) -> str:
    """Return the numbers of operations, as text for the core."""
    return " ".join(str(each._number) for each in operations)


class _Stack(threading.local):
    """The graphs or sessions that a thread has entered, innermost last."""

    def __init__(self) -> None:
        self.entered: list[Any] = []


class _Graphs(_Stack):
    """The graphs of a thread: those that it has entered, and its own default graph."""

    own: Graph | None = None
    needed = False  # TensorFlow has made the default graph, although nothing is in it


_graphs = _Graphs()
sessions = _Stack()


class _Default(Block):
    """The context manager that ``as_default`` returns."""

    def __init__(self, what: Any, stack: _Stack = _graphs) -> None:
        self._what = what
        self._stack = stack

    def __enter__(self) -> Any:
        self._stack.entered.append(self._what)
        return self._what

    def _leave(self, *_: object) -> None:
        entered = self._stack.entered
        if not entered:  # entered by another thread; as in TensorFlow, it stays entered there
            return
        self.check()
        entered.pop()

    def check(self) -> None:
        """Raise AssertionError if something that was entered later has not been left."""
        entered = self._stack.entered
        if entered and entered[-1] is not self._what:
            raise AssertionError(f"Nesting violated for default stack of {type(self._what)} objects")


def default_session(session: Any) -> _Default:
    """Return a context manager that makes a session the default session."""
    return _Default(session, sessions)


def get_default_graph() -> Graph:
    """Return the default graph of this thread: the innermost one that it has entered, or one of its own.

    As in TensorFlow, threads do not share it: enter a graph with ``as_default()`` in each thread that adds to it.
    """
    if _graphs.entered:
        innermost = _graphs.entered[-1]
        assert isinstance(innermost, Graph)
        return innermost
    if _graphs.own is None:
        _graphs.own = Graph()
    return _graphs.own


def entered() -> bool:
    """Whether this thread is in a graph that it has entered."""
    return bool(_graphs.entered)


def used() -> bool:
    """Whether this thread has a default graph of its own, or TensorFlow has made one."""
    return _graphs.needed or _graphs.own is not None


def mark_used() -> None:
    """Note that TensorFlow makes the default graph of this thread."""
    _graphs.needed = True


def reset_default_graph() -> None:
    """Replace the default graph of this thread. Existing tensors and sessions keep the old one.

    Raises AssertionError inside ``Graph.as_default()`` and ``with`` blocks of sessions.
    """
    if _graphs.entered:
        raise AssertionError(
            "Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, exit the nesting "
            "and create a new graph."
        )
    _graphs.own, _graphs.needed = None, False


def get_default_session() -> Any:
    """Return the default session of this thread, or None."""
    return sessions.entered[-1] if sessions.entered else None


# Errors for `eval()` and `run()`: no session, the default session has another graph, the given session has another
# graph.
_CANT_EVAL = (
    "Cannot evaluate tensor using `eval()`: No default session is registered. Use `with sess.as_default()` or pass an "
    "explicit session to `eval(session=sess)`",
    "Cannot use the default session to evaluate tensor: the tensor's graph is different from the session's graph. "
    "Pass an explicit session to `eval(session=sess)`.",
    "Cannot use the given session to evaluate tensor: the tensor's graph is different from the session's graph.",
)
_CANT_RUN = (
    "Cannot execute operation using `run()`: No default session is registered. Use `with sess.as_default():` or pass "
    "an explicit session to `run(session=sess)`",
    "Cannot use the default session to execute operation: the operation's graph is different from the session's "
    "graph. Pass an explicit session to run(session=sess).",
    "Cannot use the given session to execute operation: the operation's graph is different from the session's graph.",
)


def _session_for(graph: Graph, session: Any, refusals: tuple[str, str, str]) -> Any:
    """Return the session for ``eval()`` or ``run()``: ``session`` if given, otherwise the default session."""
    found = session if session is not None else get_default_session()
    if found is None:
        raise ValueError(refusals[0])
    if found.graph is not graph:
        raise ValueError(refusals[1 if session is None else 2])
    return found


def fit(shape: Any, other: Any) -> bool:
    """Whether two shapes can be the same, as far as they are known."""
    if shape is None or other is None:
        return True
    return len(shape) == len(other) and all(
        None in pair or pair[0] == pair[1] for pair in zip(shape, other, strict=True)
    )


WRONG = (errors.InvalidTypeError, errors.InvalidArgumentError, TypeError, ValueError)


def give_turn(tensor: Tensor, other: Any) -> None:
    """Let NumPy's operator have its turn, as TensorFlow does. Raises NotImplementedError if there is one."""
    if type(other).__module__ == "numpy":
        tensor.__array__()


def node(kind: str, values: Sequence[Any], flags: int, name: str, like: Any = None) -> Tensor:
    """Add an operation on tensors of one graph: see :func:`operands`. An operator is named after its method."""
    arguments = {"MatMul": "ab", "Identity": ["input"], "AddN": ""}.get(kind, "xy")
    name, inputs = operands(arguments, values, name or kind, like)
    graph = inputs[0].graph
    if all(is_core(each._dtype) for each in inputs) and not (kind == "MatMul" and _of_batches(inputs)):
        return graph.operation(kind, inputs, flags, name).outputs[0]
    made: Tensor = _in_python[0](kind, inputs, flags, name)
    return made


_in_python: list[Any] = []  # the function of _python_ops, which imports this module


def compute_in_python(function: Any) -> None:
    """Set the function that adds operations that the core does not compute."""
    _in_python[:] = [function]


def _of_batches(inputs: Sequence[Tensor]) -> bool:
    return any(each._shape is not None and len(each._shape) > 2 for each in inputs)


def operands(
    arguments: Sequence[str], values: Sequence[Any], name: str, like: Any = None
) -> tuple[str, tuple[Tensor, ...]]:
    """Return the name of a new operation, and its inputs in one graph.

    A value that is no tensor becomes a constant, named after the operation and its argument, in the type of ``like`` or
    of the input before it; of an operation without names of its arguments, in its own.
    """
    values = [getattr(value, "_value", value) for value in values]  # of variables
    tensors = [value for value in values if isinstance(value, Tensor)]
    graph = tensors[0].graph if tensors else get_default_graph()
    for tensor in tensors:
        if tensor.graph is not graph:
            raise ValueError(f"{tensor} must be from the same graph as {tensors[0]}.")
    if arguments and len(tensors) < len(values):
        name = graph._name_scopes.own(name)
    inputs: list[Tensor] = []
    for number, value in enumerate(values):
        inputs.append(as_tensor(value, like, graph, f"{name}{arguments[number]}" if arguments else ""))
        like = inputs[-1] if like is None and arguments else like
    return name, tuple(inputs)


def as_tensor(value: Any, like: Any, graph: Graph, name: str = "") -> Tensor:
    """Return a value as a tensor of a graph. Other values take the type of ``like``, a tensor or a type."""
    if hasattr(value, "_value"):  # a variable
        value = value._value
    if isinstance(value, Tensor):
        return value
    if isinstance(value, EagerTensor):
        value = EagerTensor.numpy(value)
    if value is None:
        raise ValueError("None values not supported.")
    array = graph_array(value, like._dtype if isinstance(like, Tensor) else like)
    return graph.constant(array, array.shape, name and f"{name}/")


def graph_array(value: Any, dtype: Any) -> Any:
    """Convert a value to an array. Raises TypeError where an eager operation raises ValueError for an object."""
    try:
        return array_of(value, dtype)
    except errors.InvalidArgumentError as error:
        if "non-rectangular" in error.message:
            array_of(arrays.first_leaf(value), dtype)
        if "Unsupported object type" not in error.message:
            raise
        raise errors.InvalidTypeError(error.message) from None


raise_built_in_class(Graph, everything=True)
raise_built_in_class(Tensor)
raise_built_in_class(Operation)


def control_dependencies(control_inputs: Iterable[Any] | None) -> Controller:
    """Add control dependencies to the operations that a ``with`` block adds to the default graph.

    See :meth:`Graph.control_dependencies`.
    """
    return get_default_graph().control_dependencies(control_inputs)


def device(device_name_or_function: Any) -> Any:
    """Set the device of the operations that a ``with`` block adds to the default graph.

    A string such as ``"/gpu:1"`` sets the fields that inner scopes leave unset. ``None`` disables all outer scopes. A
    function takes the operation and returns a string, which overrides inner scopes. Raises ValueError on entry for a
    malformed string. Whether the device exists is checked later, when the operation is placed.
    """
    return get_default_graph().device(device_name_or_function)


publish(__name__)
