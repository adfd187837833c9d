# SPDX-License-Identifier: Apache-2.0
"""Eager tensors: arrays in device memory, created by the operations of ``gpuconf``."""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Iterable

from .. import errors
from .._core import html, runtime, texts
from .._core.message import loads
from .._core.native import core, keep, loaded, refuse_in_child
from .._core.scope import current_scope
from .._core.table import Made
from .._typing import Any
from . import arrays

TYPE_CHECKING = False


class Reference:
    """A tensor or a variable as a key of a dict or an element of a set: references to the same object are equal.

    >>> x = gpuconf.constant(1.0)
    >>> {x.ref(): "x"}[x.ref()]
    'x'
    >>> del x
    """

    __slots__ = ("_wrapped",)

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def deref(self) -> Any:
        """Return the tensor or variable."""
        return self._wrapped

    def __eq__(self, other: object) -> bool:
        if other is None:
            return False
        if not isinstance(other, Reference):
            raise TypeError("Cannot compare wrapped object with unwrapped object")
        return self._wrapped is other._wrapped

    def __hash__(self) -> int:
        return id(self._wrapped)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._wrapped!r}>"


# The log of device placement, written to ``sys.stderr`` so that notebooks and pytest capture it.


def write_log(lines: Iterable[str]) -> None:
    """Write lines in one call, so that lines of different threads do not interleave."""
    text = "".join(f"{line}\n" for line in lines)
    if not text or sys.stderr is None:
        return
    try:
        encoding = getattr(sys.stderr, "encoding", None)
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding) if encoding else text)
        sys.stderr.flush()
    except (OSError, ValueError, LookupError):
        pass  # the stream is closed or full: the operations have run, and their results must not be lost


def write_pending() -> None:
    """Write the queued placements of eager operations, and log their warnings."""
    text = core.pybind_DrainPlacementLog()
    from .._core.message import publish

    write_log(loads(text))
    publish()


_CPU = 1  # DLPack's kind of device


class _Ref(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that outlives a tensor whose release was interrupted."""

    __slots__ = ("receipt",)

    # Of the reference. Those of a weak reference are the tensor's, which has no hash.
    __hash__ = object.__hash__
    __eq__ = object.__eq__
    __ne__ = object.__ne__

    receipt: list[int]


# A tensor is released by its __del__, which Ctrl-C may interrupt, even before its first line. So each tensor has a weak
# reference here. Its callback is not Python code and cannot be interrupted: it adds the reference to the list of
# tensors left to release.
_held: set[_Ref] = set()
_abandoned: list[_Ref] = []


class Tensor(metaclass=Made):
    """An immutable array in device memory, which is freed when the tensor is dropped.

    Tensors are created by ``gpuconf.constant``, ``matmul``, ``add``, ``add_n``, ``identity``, and the operators ``+``
    and ``@``.

    Comparisons are elementwise, with NumPy, and their result is a tensor of bools; tensors whose shapes do not fit are
    not equal. So a tensor has no hash: ``ref()`` is its key. ``&``, ``|``, ``^`` and ``~`` are those of bools, or of
    the bits of integers.
    """

    __module__ = "gpuconf"

    __slots__ = ("__weakref__", "_info", "_receipt", "_ref")

    __array_priority__: float = 100.0  # NumPy's operators leave `array + tensor` to the tensor

    if TYPE_CHECKING:
        _receipt: list[int]  # what the core returned: twice the tensor's number, plus 1 if notices are queued
        _info: dict[str, Any]
        _ref: _Ref | None

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending

    _made_by = "use gpuconf.constant() or another operation"

    def _about(self) -> dict[str, Any]:
        refuse_in_child()
        try:
            return self._info
        except AttributeError:
            self._info = loads(core.pybind_TensorInfo(self._receipt[0] >> 1))
            return self._info

    @property
    def device(self) -> str:
        """The full name of the device that the tensor's operation ran on."""
        return str(self._about()["device"])

    @property
    def backing_device(self) -> str:
        """The full name of the device whose memory holds the tensor.

        Int32 operations on a GPU keep their result in CPU memory.
        """
        return str(self._about()["backing_device"])

    @property
    def shape(self) -> tuple[int, ...]:
        """The size in each dimension; ``()`` for a scalar."""
        return tuple(self._about()["shape"])

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of the elements."""
        return arrays.numpy().dtype(self._about()["dtype"])

    def numpy(self) -> Any:
        """Copy the tensor into a new NumPy array."""
        info = self._about()
        if "values" in info:  # of a type that the core does not have, see compat.v2
            return info["values"].copy()
        array = arrays.empty(tuple(info["shape"]), info["dtype"])
        core.pybind_ReadTensor(self._receipt[0] >> 1, arrays.address_of(array), array.nbytes)
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise errors.InvalidArgumentError(
                "cannot convert a tensor to an array without a copy; see numpy.from_dlpack"
            )
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __add__(self, other: Any) -> Any:
        return _binary("Add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _binary("Add", other, self)

    def __matmul__(self, other: Any) -> Any:
        return _binary("MatMul", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _binary("MatMul", other, self)

    @staticmethod
    def _by_value() -> bool:
        """Report whether ``==`` compares the elements, and not the objects."""
        return True

    def _beside(self, array: Any, other: Any) -> tuple[Any, Any]:
        """Return the elements, ``array``, and another operand, as arrays of one type if that is possible."""
        if isinstance(other, Tensor):
            return array, Tensor.numpy(other)
        try:
            return array, arrays.array_of(other, array.dtype)
        except errors.InvalidArgumentError:  # a number that int32 does not hold
            wide = arrays.numpy().asarray(other)
            if array.dtype.kind != "i" or wide.dtype != "int64":
                raise
            return array.astype("int64"), wide

    def _computed(self, array: Any, kind: str) -> Any:
        """Return a result of NumPy's, in the class of this tensor."""
        array = arrays.array_of(array)
        result: Any = make(kind, array, array.shape, "")
        result.__class__ = type(self)
        return result

    def __eq__(self, other: object) -> Any:
        return other is not None and (_compared("eq", self, other) if self._by_value() else self is other)

    def __ne__(self, other: object) -> Any:
        return other is None or (_compared("ne", self, other) if self._by_value() else self is not other)

    def __lt__(self, other: Any) -> Any:
        return _compared("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return _compared("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return _compared("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return _compared("ge", self, other)

    def __and__(self, other: Any) -> Any:
        return _compared("and", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return _compared("or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return _compared("xor", self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Any:
        array = Tensor.numpy(self)
        kind = arrays.kind_of("invert", array.dtype.name)
        arrays.type_of_result(kind, array.dtype.name)
        return self._computed(arrays.numpy().invert(array), kind)

    def __hash__(self) -> int:
        raise errors.InvalidTypeError("Tensor is unhashable. Instead, use tensor.ref() as the key.")

    def ref(self) -> Reference:
        """Return a reference to the tensor, which can be a key of a dict and an element of a set."""
        return Reference(self)

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __len__(self) -> int:
        if not self.shape:
            raise errors.InvalidTypeError("Scalar tensor has no `len()`")
        return self.shape[0]

    def __repr__(self) -> str:
        try:
            info = self._about()
            return f"<gpuconf.Tensor: shape={self.shape}, dtype={info['dtype']}, numpy={self.numpy()!r}>"
        except _UNREADABLE as error:
            return f"<gpuconf.Tensor, {_reason(error)}>"

    def _repr_html_(self) -> str:
        try:
            info = self._about()
            title = f"Tensor {self.shape} {info['dtype']} on {self.device.rpartition('device:')[2]}"
            values = self.numpy() if math.prod(self.shape) * self.dtype.itemsize <= _SHOWN_BYTES else None
        except _UNREADABLE as error:
            return html.shown(html.line(html.bold("Tensor"), _reason(error)))
        return html.shown(
            html.titled(title, html.line("values: tensor.numpy()") if values is None else html.pre(values))
        )

    def __str__(self) -> str:
        array = self.numpy()
        text = f"\n{array}" if array.ndim else str(array)
        return f"gpuconf.Tensor({text}, shape={self.shape}, dtype={array.dtype.name})"

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """Return a DLPack capsule of the memory, for ``from_dlpack`` of NumPy, PyTorch, CuPy and other libraries.

        The memory of a simulated GPU is CPU memory. The consumer keeps the memory alive, and must not write to it.
        Raises BufferError if ``dl_device`` is another device, or ``copy`` is true on a real GPU; and ValueError for an
        invalid
        stream.
        """
        if not self._about()["host_visible"] and "values" not in self._about():
            from .._core import interchange

            return interchange.tensor_capsule(self, stream, max_version, dl_device, copy)
        if stream is not None:
            raise errors.InvalidArgumentError("stream must be None: the tensor is in CPU memory")
        np = arrays.numpy()
        info = self._about()
        array = np.asarray(_Loan(self)) if info["address"] and "values" not in info else Tensor.numpy(self)
        if max_version is not None and tuple(max_version) >= (1, 0):
            try:  # marked as read-only
                return array.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)
            except TypeError:  # NumPy before 2.1 supports only the older protocol
                pass
        if copy:
            array = array.copy()
        if dl_device is not None and tuple(dl_device) != (_CPU, 0):
            raise BufferError(
                f"this tensor is on DLPack device {(_CPU, 0)} and cannot be moved to {tuple(dl_device)}: copy it"
            )
        return _writable(array, np).__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device: ``(2, ordinal)`` for CUDA memory, ``(13, ordinal)`` for CUDA unified memory.

        Memory that the host can read is CPU memory: ``(1, 0)``.
        """
        info = self._about()
        if info["host_visible"]:
            return _CPU, 0
        from .._core import interchange

        return interchange.gpu_of(info["backing_device"])

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory for CuPy, Numba and other libraries. Only tensors on a real GPU have this attribute."""
        info = self._about()
        if info["host_visible"] or "values" in info:
            raise AttributeError(
                "a tensor that is not on a real GPU has no __cuda_array_interface__: use numpy.from_dlpack"
            )
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (info["address"], True),
            "strides": None,
            "stream": None,  # gpuconf's results are complete when its calls return
            "version": 3,
        }

    def __copy__(self) -> Tensor:
        return self  # immutable

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self

    def __reduce__(self) -> Any:
        return _rebuilt, (self.numpy(),)

    def __del__(self) -> None:
        if self._ending():
            return
        try:
            receipt = self._receipt
        except AttributeError:  # interrupted before it had one
            return
        if receipt and loaded():
            try:  # noqa: SIM105 - as in _release, whose call would take a twentieth of a small operation
                core.pybind_ReleaseTensor.raw(receipt[0] >> 1)  # type: ignore[attr-defined]
            except RuntimeError:
                pass
        ref, self._ref = self._ref, None
        if ref is not None:
            _held.discard(ref)


def _release(receipt: list[int]) -> None:
    if not receipt or not loaded():  # in a forked child the memory is the parent's
        return
    try:  # noqa: SIM105 - importing contextlib takes longer than all the rest of this module
        core.pybind_ReleaseTensor.raw(receipt[0] >> 1)  # type: ignore[attr-defined]
    except RuntimeError:  # already released, or the runtime was reset and its memory freed
        pass


def release_abandoned() -> None:
    """Release the tensors whose ``__del__`` was interrupted.

    Safe to call from several threads and from signal handlers.
    """
    while _abandoned:
        try:
            ref = _abandoned[0]
            _release(getattr(ref, "receipt", []))  # it has none if _begun was interrupted; twice is harmless
            _held.discard(ref)
            _abandoned.remove(ref)  # last, so that Ctrl-C loses nothing
        except (IndexError, ValueError):  # another thread released it
            pass


# What reading a tensor raises in a forked child, after a failure of the core, and before the tensor's operation is
# complete.
_UNREADABLE = (errors.GpuconfError, MemoryError, LookupError)
# A larger tensor is not copied to the host to be shown in HTML, where NumPy leaves out most of it.
_SHOWN_BYTES = 1 << 20


def _reason(error: BaseException) -> str:
    return "in the memory of the parent process" if isinstance(error, errors.ForkedProcessError) else "not readable"


class _Loan:
    """The owner of an array over a tensor's memory: it keeps the tensor alive."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def __array_interface__(self) -> dict[str, Any]:
        info = self.tensor._about()
        return {
            "shape": self.tensor.shape,
            "typestr": self.tensor.dtype.str,
            "data": (info["address"], True),
            "version": 3,
        }


def _writable(array: Any, np: Any) -> Any:
    """Return an array of the same memory without the read-only flag, which the older protocol cannot express."""
    if array.flags.writeable:
        return array
    interface = dict(array.__array_interface__)
    interface["data"] = (interface["data"][0], False)
    holder = type("_Held", (), {"__array_interface__": interface, "array": array})()
    return np.asarray(holder)


def _begun(function: str) -> Tensor:
    """Return a tensor that owns what the core will return as soon as it returns, because Ctrl-C can arrive at any
    time.
    """
    if runtime.current.logical is None or runtime.current.joined:
        runtime.initialize(function)
    if _abandoned:
        release_abandoned()
    tensor: Tensor = object.__new__(Tensor)
    tensor._ref = ref = _Ref(tensor, _abandoned.append)
    tensor._receipt = ref.receipt = []
    _held.add(ref)
    return tensor


def execute(function: str, op: str, inputs: str, flags: int, name: str) -> Tensor:
    """Run an operation on tensors that the core knows by number, in this thread's scope."""
    tensor = _begun(function)
    receipt = tensor._receipt
    keep(receipt, core.pybind_Execute, op, inputs, flags, name, current_scope())
    if receipt[0] & 1:
        write_pending()
    return tensor


def execute_binary(function: str, op: str, x: Tensor, y: Tensor, flags: int, name: str) -> Tensor:
    """Run an operation on two tensors, which the caller holds, in this thread's scope."""
    first, second = x._receipt[0] >> 1, y._receipt[0] >> 1
    del x, y  # otherwise an error's traceback would keep them alive
    tensor = _begun(function)
    receipt = tensor._receipt
    keep(receipt, core.pybind_ExecuteBinary, op, first, second, flags, name, current_scope())
    if receipt[0] & 1:
        write_pending()
    return tensor


def make(function: str, array: Any, shape: tuple[int, ...], name: str) -> Tensor:
    """Copy an array that :func:`arrays.array_of` returned into a new tensor, in this thread's scope."""
    tensor = _begun(function)
    receipt = tensor._receipt
    text = arrays.shape_text(shape)
    keep(
        receipt,
        core.pybind_MakeTensor,
        arrays.address_of(array),
        array.nbytes,
        arrays.name_of(array),
        text,
        name,
        current_scope(),
    )
    if receipt[0] & 1:
        write_pending()
    return tensor


def _rebuilt(array: Any) -> Tensor:
    """Unpickle a tensor."""
    array = arrays.array_of(array, None)
    return make("constant", array, array.shape, "")


def converted(value: Any, like: Any = None) -> Tensor:
    """Convert a value to a tensor. Python numbers take the dtype of the other operand, ``like``."""
    if isinstance(value, Tensor):
        info = getattr(value, "_info", {})
        if "values" in info:
            raise errors.InvalidTypeError(f"gpuconf has no kernels for {info['dtype']}")
        return value
    if hasattr(value, "op") and hasattr(value, "graph"):
        raise errors.InvalidTypeError(f"{value} is a graph tensor: evaluate it with Session.run()")
    dtype = like.dtype if isinstance(like, Tensor) and isinstance(value, (int, float, list, tuple)) else None
    array = arrays.array_of(value, dtype)
    return make("constant", array, array.shape, "")


def number(tensor: Tensor) -> int:
    """Return the core's number of a tensor."""
    return tensor._receipt[0] >> 1


def name_of(name: Any) -> str:
    """Check a name argument."""
    return "" if name is None else texts.check_text("name", name)


def _binary(op: str, left: Any, right: Any) -> Any:
    if hasattr(left, "graph") or hasattr(right, "graph"):
        return NotImplemented  # the graph tensor's operator creates a node
    refuse_in_child()  # before NumPy is imported
    x, y = converted(left, right), converted(right, left)
    try:
        return execute_binary(op.lower(), op, x, y, 0, "")
    finally:
        del x, y  # otherwise an error's traceback would keep the converted tensors alive


def _compared(method: str, tensor: Tensor, other: Any) -> Any:
    if hasattr(other, "graph"):
        return NotImplemented
    refuse_in_child()
    if hasattr(other, "read_value"):  # a variable
        other = other.read_value()
    ours, theirs = tensor._beside(Tensor.numpy(tensor), other)
    return tensor._computed(arrays.of_operator(method, ours, theirs), arrays.kind_of(method, ours.dtype.name))
