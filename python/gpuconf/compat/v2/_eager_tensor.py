# SPDX-License-Identifier: Apache-2.0
"""``tf.Tensor`` as it prints and as programs use it: a ``gpuconf.Tensor`` with TensorFlow's form.

Its arithmetic beyond ``+`` and ``@`` computes with NumPy, and puts the result on the device.
"""

from __future__ import annotations

from functools import partial

from ..._core import scope
from ..._typing import Any
from ...tensors import arrays, operations
from ...tensors import arrays as checked
from ...tensors.tensor import Tensor as Plain
from .. import _numpy_ops as numpy_ops
from .._dtypes import DType, as_dtype
from .._shape import TensorShape
from ..v1._mode import by_value

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

    def __repr__(self) -> str:
        array = super().numpy()
        text = repr(array) if array.ndim else str(array[()])
        start = "\n" if "\n" in text else ""
        return f"<tf.Tensor: shape={self.shape}, dtype={array.dtype.name}, numpy={start}{text}>"

    def __str__(self) -> str:
        array = super().numpy()
        text = str(array) if array.ndim else str(array[()])
        start = "\n" if "\n" in text else ""
        return f"tf.Tensor({start}{text}, shape={self.shape}, dtype={array.dtype.name})"

    def __format__(self, spec: str) -> str:
        return str(format(self.numpy(), spec)) if spec else str(self)

    def __bool__(self) -> bool:
        return bool(super().numpy())

    def __int__(self) -> int:
        return int(super().numpy())

    def __float__(self) -> float:
        return float(super().numpy())

    def __index__(self) -> int:
        return self.numpy().__index__()  # type: ignore[no-any-return]

    def __getitem__(self, key: Any) -> EagerTensor:
        return computed(super().numpy()[key])

    def __iter__(self) -> Any:
        return (computed(each) for each in super().numpy())

    def __add__(self, other: Any) -> Any:
        return shown(Plain.__add__(self, other))

    def __radd__(self, other: Any) -> Any:
        return shown(Plain.__radd__(self, other))

    def __matmul__(self, other: Any) -> Any:
        return shown(Plain.__matmul__(self, other))

    def __rmatmul__(self, other: Any) -> Any:
        return shown(Plain.__rmatmul__(self, other))

    def __neg__(self) -> EagerTensor:
        return computed(numpy_ops.compute("Neg", super().numpy()))


def shown(tensor: Any) -> Any:
    """Give a tensor of gpuconf TensorFlow's form."""
    if type(tensor) is Plain:
        tensor.__class__ = EagerTensor
    return tensor


def computed(array: Any, name: str = "") -> EagerTensor:
    """Put a result of NumPy's on the device. Raises TypeError for element types that gpuconf's tensors do not have."""
    np = arrays.numpy()
    array = np.asarray(array)
    if array.dtype.name not in arrays.DTYPES:
        raise TypeError(f"tensors of {array.dtype.name} need TensorFlow: gpuconf's are {', '.join(arrays.DTYPES)}")
    whole = np.ascontiguousarray(array).reshape(array.shape)
    return shown(operations.constant(whole, name=name or "Const"))  # type: ignore[no-any-return]


def of(value: Any, like: Any = None) -> Any:
    """Return a value as an array, Python numbers in the type of the other operand."""
    if isinstance(value, Plain):
        return Plain.numpy(value)
    wanted = (
        like._about()["dtype"] if isinstance(like, Plain) and isinstance(value, (int, float, list, tuple)) else None
    )
    return arrays.array_of(value, wanted)


def elementwise(kind: str, left: Any, right: Any, name: str | None = None) -> EagerTensor:
    """Compute an operation on two values, elementwise, with NumPy's broadcasting.

    Raises InvalidArgumentError for other types.
    """
    a, b = of(left, right), of(right, left)
    return computed(checked.computed(kind, partial(numpy_ops.compute, kind), a, b, name), name or kind)


def _operators() -> None:
    for method, kind in numpy_ops.OPERATORS.items():

        def forward(self: Any, other: Any, kind: str = kind) -> Any:
            return NotImplemented if hasattr(other, "graph") else elementwise(kind, self, other)

        def reverse(self: Any, other: Any, kind: str = kind) -> Any:
            return NotImplemented if hasattr(other, "graph") else elementwise(kind, other, self)

        setattr(EagerTensor, f"__{method}__", forward)
        setattr(EagerTensor, f"__r{method}__", reverse)


_operators()
