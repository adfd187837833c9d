# SPDX-License-Identifier: Apache-2.0
"""``tf.Tensor`` as it prints and as programs use it: a ``gpuconf.Tensor`` with TensorFlow's form.

Its arithmetic beyond ``+`` and ``@`` computes with NumPy, and puts the result on the device.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

from ... import errors
from ..._core import runtime, scope
from ..._core.built_in_errors import built_in, raise_built_in_class
from ..._typing import Any
from ...tensors import arrays, operations
from ...tensors import arrays as checked
from ...tensors.tensor import Tensor as Plain
from .. import _numpy_ops as numpy_ops
from .._arrays import array_of as any_array_of
from .._arrays import is_core, name_of
from .._dtypes import DType, as_dtype
from .._shape import TensorShape
from ..v1._mode import by_value, executing_eagerly

TYPE_CHECKING = False


class EagerTensor(Plain):
    """An immutable array in device memory."""

    __module__ = "gpuconf.compat.v2"
    __slots__ = ()

    _by_value = staticmethod(by_value)

    if not TYPE_CHECKING:

        @property
        def shape(self) -> TensorShape:
            """The sizes."""
            return TensorShape(super().shape)

        @property
        def dtype(self) -> DType:
            """The type of the elements."""
            return as_dtype(self._about()["dtype"])

    def get_shape(self) -> TensorShape:
        """The sizes."""
        return TensorShape(super().shape)

    def numpy(self) -> Any:
        """Copy the tensor into a new NumPy array; a scalar into a NumPy scalar."""
        array = super().numpy()
        return array if array.ndim else array[()]

    experimental_ref = Plain.ref

    def gpu(self, gpu_index: int = 0) -> Any:
        """Copy the tensor to a GPU, also where the device policy forbids implicit copies."""
        return self._copied(f"GPU:{gpu_index}")

    def cpu(self) -> Any:
        """Copy the tensor to the CPU."""
        return self._copied("CPU:0")

    def _copied(self, device: str) -> Any:
        with scope.device(device):
            return shown(operations.identity(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("cannot convert a tensor to an array without a copy; see numpy.from_dlpack")
        array = super().numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __reduce__(self) -> Any:
        return computed, (super().numpy(),)

    def __repr__(self) -> str:
        array = super().numpy()
        text = repr(array) if array.ndim else repr(array.item())
        start = "\n" if "\n" in text else ""
        return f"<tf.Tensor: shape={self.shape}, dtype={name_of(array)}, numpy={start}{text}>"

    def __str__(self) -> str:
        array = super().numpy()
        text = str(array) if array.ndim else str(array[()])
        start = "\n" if "\n" in text else ""
        return f"tf.Tensor({start}{text}, shape={self.shape}, dtype={name_of(array)})"

    def __format__(self, spec: str) -> str:
        return str(format(self.numpy(), spec))

    def __bool__(self) -> bool:
        return bool(super().numpy())

    def __int__(self) -> int:
        return int(super().numpy())

    def __float__(self) -> float:
        return float(super().numpy())

    def __index__(self) -> int:
        return self.numpy().__index__()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("Scalar tensor has no `len()`")
        return int(super().shape[0])

    def __getitem__(self, key: Any) -> EagerTensor:
        try:
            return computed(super().numpy()[key])
        except IndexError as error:
            raise errors.InvalidArgumentError(f"{error} [Op:StridedSlice] name: strided_slice/") from None

    def __iter__(self) -> Any:
        return (computed(each) for each in super().numpy())

    def _beside(self, array: Any, other: Any) -> tuple[Any, Any]:
        try:
            return array, of(other, self)
        except ValueError:
            if array.dtype.kind != "i":
                raise
        return super()._beside(array, other)  # a number that int32 does not hold

    def _computed(self, array: Any, kind: str) -> EagerTensor:
        return computed(array, kind)

    def __add__(self, other: Any) -> Any:
        return _core_operator("Add", Plain.__add__, self, beside(other, self._about()["dtype"]))

    def __radd__(self, other: Any) -> Any:
        return _core_operator("Add", Plain.__radd__, self, as_type_of(other, self), reverse=True)

    def __matmul__(self, other: Any) -> Any:
        return _core_operator("MatMul", Plain.__matmul__, self, beside(other, self._about()["dtype"]))

    def __rmatmul__(self, other: Any) -> Any:
        return _core_operator("MatMul", Plain.__rmatmul__, self, as_type_of(other, self), reverse=True)

    def __abs__(self) -> EagerTensor:
        return computed(numpy_ops.compute("Abs", super().numpy()), "Abs")

    def __neg__(self) -> EagerTensor:
        return computed(numpy_ops.compute("Neg", super().numpy()))


def begin() -> None:
    """Initialize the runtime where operations run eagerly, as TensorFlow does before it looks at an operand."""
    if executing_eagerly():
        runtime.initialize("constant")


def array_of(value: Any, dtype: Any = None) -> Any:
    """Convert a value to an array. Raises ValueError for an object that is neither a number nor a string."""
    begin()
    try:
        return any_array_of(value, dtype)
    except errors.InvalidTypeError as error:
        if "with an unsupported type" not in error.message or arrays.numpy().asarray(value).dtype.kind != "O":
            raise
        raise errors.checked_in_python(errors.InvalidArgumentError(error.message)) from None


def beside(value: Any, dtype: str) -> Any:
    """Return the second operand of ``+`` or ``@``: in the type of the first if it can have it, else in its own."""
    if isinstance(value, Plain) or hasattr(value, "graph"):
        return value
    try:
        return array_of(value, dtype)
    except (TypeError, ValueError):
        own = array_of(value)
        if (dtype, own.dtype.name) == ("int32", "int64"):
            raise
        return own


def as_type_of(value: Any, like: Plain) -> Any:
    """Return the first operand of ``+`` or ``@``, in the type of the second."""
    return value if isinstance(value, Plain) or hasattr(value, "graph") else of(value, like)


def shown(tensor: Any) -> Any:
    """Give a tensor of gpuconf TensorFlow's form."""
    if type(tensor) is Plain:
        tensor.__class__ = EagerTensor
    return tensor


def computed(array: Any, name: str = "") -> EagerTensor:
    """Put a result of NumPy's on the device. Raises TypeError for element types that TensorFlow does not have."""
    np = arrays.numpy()
    array = np.asarray(array) if not is_text(array) else array_of(array)
    whole = np.ascontiguousarray(array).reshape(array.shape)
    if is_core(array.dtype.name):
        return shown(operations.constant(whole, name=name or "Const"))  # type: ignore[no-any-return]
    kind = name_of(array)
    as_dtype(kind)  # raises for what TensorFlow does not have
    # The core holds as many bytes, on the device; strings are in host memory, as in TensorFlow.
    with scope.device("CPU:0") if kind == "string" else nullcontext():
        tensor = shown(operations.constant(np.zeros(-(-array.nbytes // 8), "float64"), name=name or "Const"))
    tensor._info = {**tensor._about(), "shape": list(array.shape), "dtype": kind, "values": whole}
    return tensor  # type: ignore[no-any-return]


def of(value: Any, like: Any = None) -> Any:
    """Return a value as an array, Python numbers in the type of the other operand."""
    if isinstance(value, Plain):
        return Plain.numpy(value)
    return array_of(value, like._about()["dtype"] if isinstance(like, Plain) else None)


def is_text(value: Any) -> bool:
    """Whether a value is a string, of which the core has no tensors."""
    return isinstance(value, (str, bytes))


def _by_numpy(*values: Any) -> bool:
    """Whether one of several values is a tensor of a type that the core does not have."""
    return any("values" in getattr(value, "_info", ()) for value in values if isinstance(value, Plain))


def is_plain(value: Any) -> bool:
    """Whether the core can compute with a value as it is: not with an array of a type that it does not have."""
    if isinstance(value, Plain):
        return not _by_numpy(value)
    return not is_text(value) and is_core(getattr(getattr(value, "dtype", None), "name", "int32"))


def _core_operator(kind: str, operator: Any, tensor: EagerTensor, other: Any, reverse: bool = False) -> Any:
    """Compute ``+`` or ``@`` by the core, or with NumPy if the core does not have the type or the shapes."""
    if hasattr(other, "graph"):
        return NotImplemented
    if is_plain(tensor) and is_plain(other) and (kind == "Add" or of_matrices(tensor, other)):
        return shown(operator(tensor, other))
    left, right = (other, tensor) if reverse else (tensor, other)
    return of_arrays(kind, of(left), of(right))


def of_matrices(*values: Any) -> bool:
    """Whether values have at most the two dimensions of a matrix."""
    return all(arrays.numpy().ndim(value) <= 2 if not isinstance(value, Plain) else value.ndim <= 2 for value in values)


def elementwise(kind: str, left: Any, right: Any, name: str | None = None) -> EagerTensor:
    """Compute an operation on two values, elementwise, with NumPy's broadcasting.

    Raises InvalidArgumentError for other types.
    """
    if kind == "RealDiv":
        a = of(left, right)
        b = of(beside(right, name_of(a)))
    elif isinstance(left, Plain) or isinstance(right, Plain):
        a, b = of(left, right), of(right, left)
    else:  # the first one's type counts
        a = array_of(left)
        b = array_of(right, name_of(a))
    return of_arrays(kind, a, b, name)


def of_arrays(kind: str, a: Any, b: Any, name: str | None = None) -> EagerTensor:
    """Compute an operation on two arrays. Raises InvalidArgumentError if their types or shapes do not fit."""
    if kind == "RealDiv":
        _check_quotient(as_dtype(name_of(a)), as_dtype(name_of(b)))
    return computed(checked.computed(kind, partial(numpy_ops.compute, kind), a, b, name), name or kind)


def _check_quotient(x: DType, y: DType) -> None:
    """Raise TypeError for types that cannot be divided, as TensorFlow does in Python."""
    if x != y:
        raise TypeError(f"`x` and `y` must have the same dtype, got {x!r} != {y!r}.")
    if x.is_bool or x.kind == "O":
        raise TypeError(f"Invalid dtype {x!r} in __truediv__. Expected a number")


def _operators() -> None:
    for method, kind in numpy_ops.OPERATORS.items():

        def forward(self: Any, other: Any, kind: str = kind) -> Any:
            return NotImplemented if hasattr(other, "graph") else elementwise(kind, self, other)

        def reverse(self: Any, other: Any, kind: str = kind) -> Any:
            return NotImplemented if hasattr(other, "graph") else elementwise(kind, other, self)

        setattr(EagerTensor, f"__{method}__", forward)
        setattr(EagerTensor, f"__r{method}__", reverse)

    for method in ("eq", "ne", "lt", "le", "gt", "ge", "and", "rand", "or", "ror", "xor", "rxor", "invert"):
        inherited = getattr(Plain, f"__{method}__")

        def own(self: Any, *other: Any, inherited: Any = inherited, method: str = method) -> Any:
            try:
                return inherited(self, *other)
            except (TypeError, ValueError) as error:
                is_plain_error = not isinstance(error, errors.GpuconfError) or built_in(error) is not None
                # Types have one since Python 3.10, so TensorFlow tries the value's.
                if method == "or" and is_plain_error:
                    other[0].__ror__  # noqa: B018 - raises AttributeError
                raise

        setattr(EagerTensor, f"__{method}__", own)  # its errors are those of TensorFlow

    EagerTensor.__hash__ = Plain.__hash__  # type: ignore[method-assign]


_operators()
raise_built_in_class(EagerTensor)
