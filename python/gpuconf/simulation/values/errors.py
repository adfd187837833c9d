# SPDX-License-Identifier: Apache-2.0
"""What fails on one device only: libraries of CUDA that the simulator does not have, and types that the CPU's kernels
lack, or are slow with.
"""

from __future__ import annotations

import functools
import re

import torch

from ..._typing import Any

_LIBRARY = re.compile(
    r"CUDNN_STATUS|CUBLAS_STATUS|CUSOLVER_STATUS|cusolver error|cuFFT error|CUFFT_|cusparse|CUSPARSE|MAGMA|magma|"
    r"not supported on a simulated GPU|NVRTC|nvrtc|cudnn_frontend|cuDNN|info == 0 INTERNAL ASSERT"
)
_NO_KERNEL = re.compile(
    r"not implemented for|MKL FFT doesn't support|not support(ed)?.*(Half|BFloat16|half|bfloat16|Float16)|Unsupported "
    r"(data)?type"
)
_INDEX = re.compile(r"\bindex\b.*out of (bounds|range)")
PRODUCTS = re.compile(r"aten::(_?addmm\w*|addbmm_?|baddbmm_?|bmm|mm|\w*conv\w*)(\.\w+)?")
_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}


def is_library(error: RuntimeError) -> bool:
    """Whether one of CUDA's libraries refused, rather than PyTorch."""
    return not isinstance(error, (torch.OutOfMemoryError, NotImplementedError)) and bool(_LIBRARY.search(str(error)))


def is_index(error: Exception) -> bool:
    """Whether an index lies outside a tensor."""
    return isinstance(error, IndexError) or bool(_INDEX.search(str(error)))


def attempt(compute: Any, keys: Any, args: Any, named: dict[str, Any], *, narrowing: bool = False) -> Any:
    """Call a CPU kernel; if it lacks a narrow type, call it with a wider one.

    With ``narrowing``, narrow its results.
    """
    try:
        return compute(keys, *args, **named)
    except (RuntimeError, NotImplementedError) as error:
        if not _NO_KERNEL.search(str(error)):
            raise
        results, types = _in_wider_types(compute, keys, args, named)
        if not types:
            raise
        return _narrow(results, types) if narrowing else results


def product(compute: Any) -> Any:
    """Make the CPU kernel of a product of matrices or a convolution. Without instructions for half precision the CPU
    needs twenty times as long for it as for float32, in which it sums anyway.
    """

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        if any(isinstance(value, torch.Tensor) and value.dtype in _types_without_instructions() for value in args):
            return _in_wider_types(compute, keys, args, named)[0]
        return compute(keys, *args, **named)

    return kernel


@functools.cache
def _types_without_instructions() -> set[torch.dtype]:
    names = {torch.float16: "_is_mkldnn_fp16_supported", torch.bfloat16: "_is_mkldnn_bf16_supported"}
    return {dtype for dtype, name in names.items() if not getattr(torch.ops.mkldnn, name, lambda: True)()}


def _in_wider_types(
    compute: Any, keys: Any, args: Any, named: dict[str, Any]
) -> tuple[Any, dict[torch.dtype, torch.dtype]]:
    """Return a kernel's results for arguments of wider types, and the narrow type of each wide one that was needed."""
    widened: list[tuple[torch.Tensor, torch.Tensor]] = []
    wide_args = _widen(args, widened)
    wide_named = {name: _widen(value, widened) for name, value in named.items()}
    results = compute(keys, *wide_args, **wide_named) if widened else None
    for narrow, wide in widened:
        if narrow.layout is not torch.strided or torch._debug_has_internal_overlap(narrow) != 1:
            narrow.copy_(wide)  # an operation in place wrote to the wide one, and never to an expanded one
    return results, {wide.dtype: narrow.dtype for narrow, wide in widened}


def _converted(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of another type. Of a sparse one, ``to`` would add the values of equal indices."""
    if value.layout is not torch.sparse_coo:
        return value.to(dtype)
    parts = value._indices(), value._values().to(dtype)
    return torch.ops.aten._sparse_coo_tensor_unsafe(*parts, value.shape, is_coalesced=value.is_coalesced())


def _narrow(value: Any, types: dict[torch.dtype, torch.dtype]) -> Any:
    if isinstance(value, torch.Tensor):
        return _converted(value, types.get(value.dtype, value.dtype))
    return type(value)(_narrow(one, types) for one in value) if type(value) in (list, tuple) else value


def _widen(value: Any, widened: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    if isinstance(value, torch.Tensor):
        wide = _WIDER.get(value.dtype)
        if wide is None:
            return value
        made = _converted(value, wide)
        widened.append((value, made))
        return made
    if isinstance(value, torch.dtype):
        return _WIDER.get(value, value)
    if type(value) in (list, tuple):
        return [_widen(one, widened) for one in value]
    return value
