# SPDX-License-Identifier: Apache-2.0
"""Switches for TensorFlow's kernels and compiler. They store a value, do nothing, or raise UnimplementedError."""

from __future__ import annotations

from .. import errors

_tensor_float_32 = True


def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Store whether TensorFloat-32 may be used. Has no effect: gpuconf always computes in full precision."""
    global _tensor_float_32
    _tensor_float_32 = bool(enabled)


def tensor_float_32_execution_enabled() -> bool:
    """Return the value that ``enable_tensor_float_32_execution`` set, by default ``True``.

    >>> tensor_float_32_execution_enabled()
    True
    """
    return _tensor_float_32


def enable_op_determinism() -> None:
    """Do nothing: gpuconf's operations are always deterministic."""


def enable_mlir_bridge() -> None:
    """Not available: raises UnimplementedError."""
    raise errors.UnimplementedError("enable_mlir_bridge controls TensorFlow's TPU compiler; gpuconf has no compiler")


def disable_mlir_bridge() -> None:
    """Not available: raises UnimplementedError."""
    raise errors.UnimplementedError("disable_mlir_bridge controls TensorFlow's TPU compiler; gpuconf has no compiler")
