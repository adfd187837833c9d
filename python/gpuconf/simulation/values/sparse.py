# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors: operators with kernels of their own, which the CPU computes on the indices and values in the
simulated memory. Nested tensors: those are refused.

All other operators on them call operators on their indices and values or on their parts, which are computed like any
others.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..._typing import Any
from . import errors, memory, moves, unmarked
from .kernels import Call, Kernel, Operator, arguments_on_cpu, named_on_cpu, tensor_places


def padded(_keys: Any, nested: torch.Tensor, padding: float, output_size: Any = None) -> torch.Tensor:
    """``aten::to_padded_tensor``, by operators that are computed."""
    parts = nested.unbind()
    if not parts:
        raise RuntimeError("to_padded_tensor: at least one constituent tensor should have non-zero numel")
    sizes = output_size or (
        len(parts),
        *(max(of_each) for of_each in zip(*(part.shape for part in parts), strict=True)),
    )
    result = torch.full(tuple(sizes), padding, dtype=nested.dtype, device=nested.device)
    for row, part in zip(result, parts, strict=False):
        row[tuple(slice(size) for size in part.shape)].copy_(part)
    return result


def nested(overload: Any, original: Kernel) -> Kernel:
    """Make the kernel of an operator on nested tensors, which refuses what PyTorch's kernel launches itself."""
    places = tensor_places(overload)

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        before = unmarked.count()
        results = original(keys, *memory.as_tensors(args, places), **named)
        if unmarked.count() != before and not moves.only_small:
            raise NotImplementedError(
                f"gpuconf: {overload.name()} of nested tensors is not computed on simulated GPUs. "
                "Use layout=torch.jagged or padded tensors"
            )
        return results

    return kernel


_PACKETS = """
    _coalesce _sparse_csr_prod _sparse_csr_sum _sparse_log_softmax _sparse_log_softmax_backward_data
    _sparse_mask_projection _sparse_softmax _sparse_softmax_backward_data _sparse_sparse_matmul _sparse_sum_backward
    _spsolve _to_dense _to_sparse _to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr add add_ addmm addmm_
    addmv any baddbmm bmm cat hspmm index_select mm mul mul_ mv sparse_mask sparse_sampled_addmm sspaddmm sub sub_
    sum triangular_solve
"""


def names(key: str) -> Iterator[str]:
    """Yield the operators that have a kernel for a dispatch key which computes by itself."""
    packets = _PACKETS.split()
    for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
        space, _, rest = name.partition("::")
        if space == "aten" and rest.partition(".")[0] in packets:
            yield name


def _spread(value: Any) -> Any:
    """Return a sparse tensor without contiguous values: the CPU appends it to another one, as a card does, and merges
    nothing.
    """
    if not isinstance(value, torch.Tensor) or value.layout is not torch.sparse_coo:
        return value
    values = value._values()
    spread = values.new_empty((*values.shape, 2))[..., 0].copy_(values)
    coalesced = value.is_coalesced()
    return torch.ops.aten._sparse_coo_tensor_unsafe(value._indices(), spread, value.shape, is_coalesced=coalesced)


def computing(overload: Any) -> Kernel:
    """Make the kernel of an operator on sparse tensors."""
    operator = Operator(overload, None, None)
    adds = overload._schema.name.removeprefix("aten::").rstrip("_") in ("add", "sub")

    def compute(_keys: Any, *args: Any, **named: Any) -> Any:
        if adds:
            args = (args[0], _spread(args[1]), *args[2:])
        return overload(*args, **named)

    def stages(call: Call) -> Any:
        args, named = arguments_on_cpu(call.args), named_on_cpu(call.named)
        computed = errors.attempt(compute, None, args, named, narrowing=True)
        if not operator.written:
            return moves.to_gpu(computed, (call.args, call.named))
        results = operator.targets(call.args, call.named)
        for target, source in zip(results, operator.targets(args, named), strict=True):
            moves.replace(target, source)
        return results[0] if len(results) == 1 else tuple(results)

    return lambda keys, *args, **named: Call(operator, keys, args, named).run(stages)
