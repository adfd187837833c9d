# SPDX-License-Identifier: Apache-2.0
"""Which formula computes which operator, and which operators are refused."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...._typing import Any
from .. import memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    F = TypeVar("F", bound=Callable[..., Any])


def _plain(formula: Any) -> Any:
    """Let a formula be called as a kernel is, with a dispatch key set before the arguments."""
    return lambda _keys, *args, **named: formula(*args, **named)


def _into(formula: Any) -> Any:
    """Make the overload that writes into its last arguments, ``out`` or ``out0`` and so on."""

    def compute(_keys: Any, *args: Any, **named: Any) -> Any:
        outs = [named.pop(name) for name in sorted(named) if re.fullmatch(r"out\d*|grad_input", name)]
        results = formula(*args, **named)
        for out, value in zip(outs, (results,) if len(outs) == 1 else results, strict=True):
            if hasattr(value, "fill") and not hasattr(value, "fill_"):
                value.fill(out)
            elif value is not None:
                out.copy_(value)
        return outs[0] if len(outs) == 1 else tuple(outs)

    return compute


# By operator: what computes it on CPU tensors. The first argument is a dispatch key set.
FORMULAS: dict[str, Any] = {"aten::zero_": memory.zero_}


def formula(*names: str) -> Callable[[F], F]:
    """Make a function the formula of operators. A name without an overload is also the one that writes into ``out``."""

    def register(function: F) -> F:
        for name in names:
            writes = name.endswith(("_out", ".grad_input"))
            FORMULAS[f"aten::{name}"] = (_into if writes else _plain)(function)
            if "." not in name:
                FORMULAS[f"aten::{name}.out"] = _into(function)
        return function

    return register


_DENSE = "Compute with the dense weight, by torch.nn.functional.linear"
_SDPA = "Call torch.nn.functional.scaled_dot_product_attention"
_QUANTIZE = "Quantize tensors on the CPU"
_SEMI = [f"_sparse_semi_structured_{what}" for what in ("linear", "addmm", "mm", "apply", "apply_dense", "tile")]
_MIXED = ("_mixed_dtypes_linear", "_weight_int4pack_mm", "_convert_weight_to_int4pack")
REFUSED = {
    f"aten::{name}": instead
    for names, instead in (
        (("_cslt_compress", "_cslt_sparse_mm", "_cslt_sparse_mm_search"), _DENSE),
        ((*_SEMI, "_to_sparse_semi_structured"), _DENSE),
        (_MIXED, "Compute with weights in bfloat16"),
        (("_triton_scaled_dot_attention", "_triton_multi_head_attention"), _SDPA),
        (("quantize_per_tensor", "quantize_per_tensor.tensor_qparams", "quantize_per_tensor_dynamic"), _QUANTIZE),
        (("quantize_per_channel", "_make_per_channel_quantized_tensor"), _QUANTIZE),
        (("_make_per_tensor_quantized_tensor",), _QUANTIZE),
        (("_nested_tensor_from_mask", "_nested_tensor_from_mask_left_aligned"), "Call torch.nested.nested_tensor"),
        # A few calls of it with a kernel in Python end PyTorch's process: its outputs lose their Python objects.
        (("cudnn_batch_norm.out",), "Call torch.nn.functional.batch_norm"),
    )
    for name in names
}
# Their kernels for CUDA write to the memory of other ranks.
REFUSED_SPACES = {"symm_mem": "Use the collectives of torch.distributed"}


def refusal_of(name: str) -> str:
    """Return what to do instead of an operator that is not computed, or ""."""
    return REFUSED.get(name) or REFUSED_SPACES.get(name.partition("::")[0], "")
