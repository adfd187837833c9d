"""Switches of TensorFlow's own kernels and compiler. Those that a program may ask for keep their state; the others say why not."""

from __future__ import annotations

from .. import errors

_tensor_float_32 = True


def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Keep whether TensorFloat-32 may be used. gpuconf computes in full precision either way."""
    global _tensor_float_32
    _tensor_float_32 = bool(enabled)


def tensor_float_32_execution_enabled() -> bool:
    """Give back what ``enable_tensor_float_32_execution`` set; ``True`` at first.

    >>> tensor_float_32_execution_enabled()
    True
    """
    return _tensor_float_32


def enable_op_determinism() -> None:
    """Do nothing: everything that gpuconf computes is deterministic already."""


def enable_mlir_bridge() -> None:
    """Not available: raises UnimplementedError."""
    raise errors.UnimplementedError("enable_mlir_bridge switches TensorFlow's compiler for TPUs; gpuconf has no compiler")


def disable_mlir_bridge() -> None:
    """Not available: raises UnimplementedError."""
    raise errors.UnimplementedError("disable_mlir_bridge switches TensorFlow's compiler for TPUs; gpuconf has no compiler")
