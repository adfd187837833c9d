# SPDX-License-Identifier: Apache-2.0
"""Which formula computes which operator, and which operators are refused."""

from __future__ import annotations

import re

from ...._typing import Any
from .. import memory
from . import attention, normalization, products, recurrent, sequences


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


_BY_NAME = {
    "cudnn_convolution": products.cudnn_convolution,
    "cudnn_convolution_transpose": products.cudnn_convolution_transpose,
    "cudnn_convolution_relu": products.cudnn_convolution_relu,
    "cudnn_convolution_add_relu": products.cudnn_convolution_add_relu,
    "_conv_depthwise2d": products.depthwise,
    "conv_depthwise3d": products.depthwise,
    "cudnn_batch_norm": normalization.cudnn_batch_norm,
    "cudnn_batch_norm_backward": normalization.cudnn_batch_norm_backward,
    "batch_norm_stats": normalization.stats,
    "batch_norm_elemt": normalization.elemt,
    "batch_norm_gather_stats": normalization.gather_stats,
    "batch_norm_gather_stats_with_counts": normalization.gather_stats_with_counts,
    "batch_norm_backward_reduce": normalization.backward_reduce,
    "batch_norm_backward_elemt": normalization.backward_elemt,
    "native_layer_norm_backward": normalization.layer_norm_backward,
    "native_group_norm_backward": normalization.group_norm_backward,
    "native_batch_norm_backward": normalization.batch_norm_backward,
    "batch_norm_backward": normalization.batch_norm_with_update_backward,
    "_fused_rms_norm_backward": normalization.rms_norm_backward,
    "_thnn_fused_lstm_cell": recurrent.lstm,
    "_thnn_fused_lstm_cell_backward_impl": recurrent.lstm_backward,
    "_thnn_fused_gru_cell": recurrent.gru,
    "_thnn_fused_gru_cell_backward": recurrent.gru_backward,
    "_cudnn_rnn": recurrent.forward,
    "_cudnn_rnn_backward": recurrent.backward,
    "_softmax": products.softmax,
    "_log_softmax": products.log_softmax,
    "_softmax_backward_data": products.softmax_backward,
    "_log_softmax_backward_data": products.log_softmax_backward,
    "cholesky_inverse": products.cholesky_inverse,
    "_embedding_bag": products.embedding_bag,
    "_embedding_bag_forward_only": products.embedding_bag,
    "_fused_dropout": products.fused_dropout,
    "_masked_scale": products.masked_scale,
    "cudnn_grid_sampler": products.grid_sampler,
    "cudnn_grid_sampler_backward": products.grid_sampler_backward,
    "cudnn_affine_grid_generator": products.affine_grid,
    "cudnn_affine_grid_generator_backward": products.affine_grid_backward,
    "_cudnn_ctc_loss": products.ctc_loss,
    "_scaled_dot_product_flash_attention": attention.flash,
    "_scaled_dot_product_flash_attention_backward": attention.flash_backward,
    "_scaled_dot_product_efficient_attention": attention.efficient,
    "_scaled_dot_product_efficient_attention_backward": attention.efficient_backward,
    "_scaled_dot_product_cudnn_attention": attention.cudnn,
    "_scaled_dot_product_cudnn_attention_backward": attention.cudnn_backward,
    "_fill_mem_eff_dropout_mask_": attention.dropout_mask,
    "_flash_attention_forward": sequences.flash,
    "_flash_attention_backward": sequences.flash_backward,
    "_efficient_attention_forward": sequences.efficient,
    "_efficient_attention_backward": sequences.efficient_backward,
}
FORMULAS: dict[str, Any] = {
    **{f"aten::{name}": _plain(formula) for name, formula in _BY_NAME.items()},
    **{f"aten::{name}.out": _into(formula) for name, formula in _BY_NAME.items()},
    "aten::_cudnn_ctc_loss.Tensor": _plain(products.ctc_loss),
    "aten::log_sigmoid_backward": _plain(products.log_sigmoid_backward),
    "aten::log_sigmoid_backward.grad_input": _into(products.log_sigmoid_backward),
    "aten::zero_": memory.zero_,
    "aten::_linalg_svd": _plain(products.svd),
    "aten::_linalg_svd.U": _plain(products.svd),
    "aten::nansum": _plain(products.nansum),
    "aten::nansum.out": _into(products.nansum),
    "aten::mm.dtype": _plain(products.mm),
    "aten::mm.dtype_out": _into(products.mm),
    "aten::bmm.dtype": _plain(products.mm),
    "aten::bmm.dtype_out": _into(products.mm),
    "aten::addmm.dtype": _plain(products.addmm),
    "aten::addmm.dtype_out": _into(products.addmm),
    "aten::baddbmm.dtype": _plain(products.addmm),
    "aten::baddbmm.dtype_out": _into(products.addmm),
}

_DENSE = "Compute with the dense weight, by torch.nn.functional.linear"
_SDPA = "Call torch.nn.functional.scaled_dot_product_attention"
REFUSED = {
    f"aten::{name}": instead
    for names, instead in (
        (("_cslt_compress", "_cslt_sparse_mm", "_cslt_sparse_mm_search"), _DENSE),
        (
            (
                "_sparse_semi_structured_linear",
                "_sparse_semi_structured_addmm",
                "_sparse_semi_structured_mm",
                "_sparse_semi_structured_apply",
                "_sparse_semi_structured_apply_dense",
                "_sparse_semi_structured_tile",
                "_to_sparse_semi_structured",
            ),
            _DENSE,
        ),
        (
            ("_mixed_dtypes_linear", "_weight_int4pack_mm", "_convert_weight_to_int4pack"),
            "Compute with weights in bfloat16",
        ),
        (("_triton_scaled_dot_attention", "_triton_multi_head_attention"), _SDPA),
        (
            (
                "quantize_per_channel",
                "quantize_per_tensor",
                "quantize_per_tensor.tensor_qparams",
                "quantize_per_tensor_dynamic",
                "_make_per_channel_quantized_tensor",
                "_make_per_tensor_quantized_tensor",
            ),
            "Quantize tensors on the CPU",
        ),
        (("_nested_tensor_from_mask", "_nested_tensor_from_mask_left_aligned"), "Call torch.nested.nested_tensor"),
        # A few calls of it with a kernel in Python end PyTorch's process: its outputs lose their Python objects.
        (("cudnn_batch_norm.out",), "Call torch.nn.functional.batch_norm"),
    )
    for name in names
}
# Their kernels for CUDA write to the memory of other ranks.
REFUSED_SPACES = {"symm_mem": "Use the collectives of torch.distributed"}
