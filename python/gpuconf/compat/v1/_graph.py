"""Graphs: operations that run when a session fetches their results."""

from __future__ import annotations

import sys
import threading

from ... import _arrays, errors
from ..._fork import module_lock
from ..._native import core, loaded, refuse_in_child
from ..._types import LogicalDevice
from ._scopes import Scopes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, NoReturn


_NO_VALUE = "it has a value only in a Session, by run()"
_FORM = 'Tensor names must be of the form "<op_name>:<output_index>".'


class Operation:
    """An operation of a graph: a node, with one result."""

    __slots__ = ("_number", "device", "graph", "inputs", "name", "outputs", "type")

    _number: int  # the core's
    name: str
    type: str  # such as "MatMul"
    device: str  # what was asked for, "" for nothing
    graph: Graph
    inputs: tuple[Tensor, ...]
    outputs: list[Tensor]

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run the operation in a session, by default the one that is entered."""
        _session_for(session).run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<gpuconf.compat.v1.Operation '{self.name}' type={self.type}>"


class Tensor:
    """What an operation of a graph will make. It has a value in a session's run only."""

    __slots__ = ("_dtype", "op", "shape")

    __array_priority__ = 100.0  # NumPy's operators leave `array + tensor` to the tensor
    __array_ufunc__ = None

    op: Operation
    shape: tuple[int, ...]
    _dtype: str

    @property
    def graph(self) -> Graph:
        """The graph that it is of."""
        return self.op.graph

    @property
    def name(self) -> str:
        """The name, such as ``"MatMul:0"``."""
        return self.op.name + ":0"

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of the elements."""
        return _arrays.numpy().dtype(self._dtype)

    @property
    def device(self) -> str:
        """The device that was asked for, ``""`` for none. Where it is put shows in the placement log."""
        return self.op.device

    @property
    def value_index(self) -> int:
        """Which result of its operation it is: there is one."""
        return 0

    def get_shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.shape

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Compute the tensor in a session, by default the one that is entered."""
        return _session_for(session).run(self, feed_dict)

    def __add__(self, other: Any) -> Tensor:
        return _binary("Add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _binary("Add", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return _binary("MatMul", self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return _binary("MatMul", other, self)

    def __bool__(self) -> bool:
        raise errors.InvalidTypeError(
            "Using a `tf.Tensor` as a Python `bool` is not allowed: it has a value only in a Session, by run()"
        )

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise errors.InvalidTypeError(f"Cannot convert a symbolic Tensor ({self.name}) to a numpy array: {_NO_VALUE}")

    def __str__(self) -> str:
        return f'Tensor("{self.name}", shape={self.shape}, dtype={self._dtype})'

    def __repr__(self) -> str:
        return f"<gpuconf.compat.v1.Tensor '{self.name}' shape={self.shape} dtype={self._dtype}>"


class Graph:
    """Operations and what they make. It only grows, may be built and run by several threads, and outlives sessions and resets."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # never taken in a forked child
        self._operations: list[Operation] = []  # by the core's number
        self._named: dict[str, Operation] = {}
        self._scopes = Scopes()
        self._number = core.pybind_NewGraph()

    def as_default(self) -> _Default:
        """Make this the graph that operations go to, for a ``with`` block in this thread."""
        return _Default(self)

    def device(self, device_name_or_function: Any) -> Any:
        """Choose the device of the operations that are made in a ``with`` block; see ``gpuconf.compat.v1.device``."""
        if isinstance(device_name_or_function, LogicalDevice):
            device_name_or_function = device_name_or_function.name
        return self._scopes.scope(device_name_or_function)

    def get_operations(self) -> list[Operation]:
        """The operations, in the order of their making."""
        return list(self._operations)

    def get_operation_by_name(self, name: str) -> Operation:
        """Find an operation, such as ``"MatMul"``. Raises ValueError for a tensor's name, LookupError where there is none."""
        found = self.as_graph_element(name, allow_tensor=False)
        assert isinstance(found, Operation)
        return found

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Find a tensor, such as ``"MatMul:0"``. Raises ValueError for an operation's name, LookupError where there is none."""
        found = self.as_graph_element(name, allow_operation=False)
        assert isinstance(found, Tensor)
        return found

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Tensor | Operation:
        """Find what a name, a tensor or an operation stands for in this graph.

        Raises LookupError for a name that is not there, ValueError for what is of another graph or no such name, and TypeError
        for another object.
        """
        kinds = [kind for kind, allowed in (("Tensor", allow_tensor), ("Operation", allow_operation)) if allowed]
        if isinstance(obj, (Tensor, Operation)):
            if type(obj).__name__ not in kinds:
                raise errors.InvalidTypeError(f"Can not convert a {type(obj).__name__} into a {kinds[0]}.")
            if obj.graph is not self:
                raise errors.InvalidArgumentError(f"{type(obj).__name__} {obj} is not an element of this graph.")
            return obj
        if not isinstance(obj, str):
            raise errors.InvalidTypeError(f"Can not convert a {type(obj).__name__} into a {' or '.join(kinds)}.")
        return self._tensor_named(obj, allow_tensor) if ":" in obj else self._operation_named(obj, allow_operation)

    def _tensor_named(self, name: str, allowed: bool) -> Tensor:
        if not allowed:
            raise errors.InvalidArgumentError(f"Name {name!r} appears to refer to a Tensor, not a Operation.")
        operation, _, index = name.partition(":")
        if not index.isdecimal():
            raise errors.InvalidArgumentError(f"The name {name!r} looks a like a Tensor name, but is not a valid one. {_FORM}")
        found = self._named.get(operation)
        missing = f"The name {name!r} refers to a Tensor which does not exist. The operation, {operation!r},"
        if found is None:
            raise errors.NotFoundError(f"{missing} does not exist in the graph.")
        if int(index) != 0:
            raise errors.NotFoundError(f"{missing} exists but only has 1 outputs.")
        return found.outputs[0]

    def _operation_named(self, name: str, allowed: bool) -> Operation:
        found = self._named.get(name)
        if allowed:
            if found is None:
                raise errors.NotFoundError(f"The name {name!r} refers to an Operation not in the graph.")
            return found
        looks = "refers to an Operation" if found is not None else "looks like an (invalid) Operation name"
        raise errors.InvalidArgumentError(f"The name {name!r} {looks}, not a Tensor. {_FORM}")

    def constant(self, array: Any, shape: tuple[int, ...], name: str) -> Tensor:
        """Add a constant; for the operations of this package."""
        refuse_in_child()  # before the lock, which another thread may have held
        device = self._scopes.request("Const", name, self, ())
        with self._lock:
            told = core.pybind_AddConstant(
                self._number,
                name,
                _arrays.address_of(array),
                array.nbytes,
                _arrays.name_of(array),
                _arrays.shape_text(shape),
                device,
            )
            return self._added("Const", told, (), device)

    def operation(self, kind: str, inputs: tuple[Tensor, ...], flags: int, name: str) -> Tensor:
        """Add an operation on tensors of this graph; for the operations of this package."""
        refuse_in_child()
        device = self._scopes.request(kind, name, self, inputs)
        numbers = " ".join(str(each.op._number) for each in inputs)
        with self._lock:
            told = core.pybind_AddNode(self._number, kind, name, numbers, flags, device)
            return self._added(kind, told, inputs, device)

    def _added(self, kind: str, told: str, inputs: tuple[Tensor, ...], device: str) -> Tensor:
        import json

        node = json.loads(told)
        operation = Operation()
        operation.name, operation.type, operation.device = node["name"], kind, device
        operation.graph, operation.inputs, operation._number = self, inputs, node["id"]
        tensor = Tensor()
        tensor.op, tensor.shape, tensor._dtype = operation, tuple(node["shape"]), node["dtype"]
        operation.outputs = [tensor]
        self._operations.append(operation)
        self._named[operation.name] = operation
        return tensor

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise errors.InvalidTypeError("a Graph can't be copied or pickled: create it in the process that uses it")

    def __repr__(self) -> str:
        return f"<gpuconf.compat.v1.Graph of {len(self._operations)} operations>"

    def __del__(self) -> None:
        if not hasattr(self, "_number") or sys.is_finalizing() or not loaded():
            return
        try:  # noqa: SIM105
            core.pybind_DropGraph(self._number)
        except errors.GpuconfError:
            pass


class _Stack(threading.local):
    """A thread's entered graphs or sessions, the innermost last."""

    def __init__(self) -> None:
        self.entered: list[Any] = []


_graphs = _Stack()
sessions = _Stack()
_global: Graph | None = None
_global_lock = module_lock(globals(), "_global_lock")


class _Default:
    """What ``as_default`` gives."""

    def __init__(self, what: Any, stack: _Stack = _graphs) -> None:
        self._what = what
        self._stack = stack

    def __enter__(self) -> Any:
        self._stack.entered.append(self._what)
        return self._what

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        entered = self._stack.entered
        if not entered or entered[-1] is not self._what:
            raise errors.FailedPreconditionError(f"Nesting violated: {self._what!r} is not what was entered last in this thread")
        entered.pop()


def default_session(session: Any) -> _Default:
    """A context in which a session is the default one."""
    return _Default(session, sessions)


def get_default_graph() -> Graph:
    """The graph that operations go to: the innermost that this thread has entered, else one that all threads share."""
    global _global
    if _graphs.entered:
        innermost = _graphs.entered[-1]
        assert isinstance(innermost, Graph)
        return innermost
    with _global_lock:
        if _global is None:
            _global = Graph()
        return _global


def reset_default_graph() -> None:
    """Begin a new default graph. Tensors and sessions of the one before go on. Raises RuntimeError inside ``as_default``."""
    global _global
    if _graphs.entered:
        raise errors.FailedPreconditionError(
            "Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, exit the nesting and "
            "create a new graph."
        )
    with _global_lock:
        _global = None


def get_default_session() -> Any:
    """The session that this thread has entered last, or None."""
    return sessions.entered[-1] if sessions.entered else None


def _session_for(session: Any) -> Any:
    found = session if session is not None else get_default_session()
    if found is None:
        raise errors.InvalidArgumentError(
            "Cannot evaluate tensor using `eval()`: No default session is registered. Use `with sess.as_default()` or pass an "
            "explicit session to `eval(session=sess)`"
        )
    return found


def _binary(kind: str, left: Any, right: Any) -> Tensor:
    from ._ops import node

    return node(kind, (left, right), 0, "")
