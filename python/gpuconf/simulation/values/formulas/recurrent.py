# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks of cuDNN."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...._typing import Any
from .. import generators
from .results import Seed, read_seed
from .table import formula


def _sum(gates: Tensor, other: Tensor, first: Tensor | None, second: Tensor | None) -> Tensor:
    total = gates + other
    return total if first is None or second is None else total + first + second


@formula("_thnn_fused_lstm_cell")
def lstm(
    gates: Tensor, hidden: Tensor, cx: Tensor, bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> tuple[Tensor, ...]:
    """``aten::_thnn_fused_lstm_cell``."""
    i, f, g, o = _sum(gates, hidden, bias, hidden_bias).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)


@formula("_thnn_fused_lstm_cell_backward_impl")
def lstm_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor | None, ...]:
    """``aten::_thnn_fused_lstm_cell_backward_impl``."""
    i, f, g, o = workspace.chunk(4, 1)
    bent = cy.tanh()
    grad_hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    total = grad_hy * o * (1 - bent * bent)
    if grad_cy is not None:
        total = total + grad_cy
    grads = torch.cat(
        (total * g * i * (1 - i), total * cx * f * (1 - f), total * i * (1 - g * g), grad_hy * bent * o * (1 - o)), 1
    )
    return grads, total * f, grads.sum(0) if has_bias else None


@formula("_thnn_fused_gru_cell")
def gru(
    gates: Tensor, hidden: Tensor, hx: Tensor, bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> tuple[Tensor, ...]:
    """``aten::_thnn_fused_gru_cell``."""
    if bias is not None and hidden_bias is not None:
        gates, hidden = gates + bias, hidden + hidden_bias
    ir, iz, inew = gates.chunk(3, 1)
    hr, hz, hnew = hidden.chunk(3, 1)
    reset, update = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    new = (inew + reset * hnew).tanh()
    return (hx - new) * update + new, torch.cat((reset, update, new, hx, hnew), 1)


@formula("_thnn_fused_gru_cell_backward")
def gru_backward(grad: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    """``aten::_thnn_fused_gru_cell_backward``."""
    reset, update, new, hx, hnew = workspace.chunk(5, 1)
    of_update = grad * (hx - new) * update * (1 - update)
    of_new = grad * (1 - update) * (1 - new * new)
    of_reset = of_new * hnew * reset * (1 - reset)
    grad_gates = torch.cat((of_reset, of_update, of_new), 1)
    grad_hidden = torch.cat((of_reset, of_update, of_new * reset), 1)
    biases = (grad_gates.sum(0), grad_hidden.sum(0)) if has_bias else (None, None)
    return grad_gates, grad_hidden, grad * update, *biases


_LSTM, _GRU = 2, 3
_RUN = {0: torch._VF.rnn_relu, 1: torch._VF.rnn_tanh, _LSTM: torch._VF.lstm, _GRU: torch._VF.gru}
_KEYS = torch._C.DispatchKey


def _run(x: Tensor, weights: Sequence[Tensor], hx: Tensor, cx: Tensor | None, mode: int, rest: tuple[Any, ...]) -> Any:
    per_layer, layers, batch_first, dropout, train, both, sizes = rest
    state: Any = (hx, cx) if mode == _LSTM else hx
    biases = per_layer >= 4
    if sizes:
        return _RUN[mode](
            x, torch.tensor(sizes, device="cpu"), state, list(weights), biases, layers, dropout, train, both
        )
    return _RUN[mode](x, state, list(weights), biases, layers, dropout, train, both, batch_first)


def _shaped(
    weight: Sequence[Tensor], x: Tensor, per_layer: int, hidden: int, projected: int, both: bool
) -> list[Tensor]:
    """Return the weights in the shapes of the module.

    Under autocast, PyTorch passes columns: views of cuDNN's buffer.
    """
    views = []
    for number, one in enumerate(weight):
        layer, kind = number // per_layer // (1 + both), number % per_layer
        rows = one.numel()
        if kind == 0:
            rows //= x.shape[-1] if layer == 0 else (projected or hidden) * (1 + both)
        elif kind == 1:
            rows //= projected or hidden
        elif per_layer in (3, 5) and kind == per_layer - 1:  # of a projection
            rows = projected
        views.append(one.reshape(rows) if per_layer >= 4 and kind in (2, 3) else one.reshape(rows, -1))
    return views


@formula("_cudnn_rnn")
def forward(x: Tensor, weight: Sequence[Tensor], *args: Any) -> tuple[Any, ...]:
    """``aten::_cudnn_rnn``. The reserve keeps the seed of the dropout between layers."""
    per_layer, _buffer, hx, cx, mode, hidden, projected, layers, batch_first, dropout, train, both, sizes, _state = args
    seed = torch.default_generator.initial_seed()
    weight = _shaped(weight, x, per_layer, hidden, projected, both)
    results = _run(x, weight, hx, cx, mode, (per_layer, layers, batch_first, dropout, train, both, sizes))
    cy = results[2] if mode == _LSTM else None
    return results[0], results[1], cy, Seed(seed) if train else None, None


@formula("_cudnn_rnn_backward")
def backward(x: Tensor, weight: Sequence[Tensor], *args: Any) -> tuple[Any, ...]:
    """``aten::_cudnn_rnn_backward``: the forward pass again, on the CPU, and its gradients."""
    per_layer, _buffer, hx, cx, _output, *grads_of_results, mode, hidden, projected = args[:11]
    layers, batch_first, dropout, train, both, sizes, _dropout_state, reserve, mask = args[11:]
    keys = torch._C.DispatchKeySet(_KEYS.BackendSelect).add(_KEYS.ADInplaceOrView)
    with torch._C._ForceDispatchKeyGuard(keys, torch._C.DispatchKeySet(_KEYS.AutocastCPU)), torch.enable_grad():
        leaves = [None if one is None else one.detach().requires_grad_() for one in (x, hx, cx, *weight)]
        rest = (per_layer, layers, batch_first, dropout, train, both, sizes)
        with generators.DefaultSeeded(read_seed(reserve)):
            shaped = _shaped(leaves[3:], x, per_layer, hidden, projected, both)
            results = _run(leaves[0], shaped, leaves[1], leaves[2], mode, rest)
        pairs = [(one, grad) for one, grad in zip(results, grads_of_results, strict=False) if grad is not None]
        wanted = [one for one in leaves if one is not None]
        found = torch.autograd.grad([one for one, _ in pairs], wanted, [grad for _, grad in pairs], allow_unused=True)
    grads = iter(found)
    per_leaf = [None if one is None else next(grads) for one in leaves]
    of_weights = [
        torch.zeros_like(one) if grad is None else grad for one, grad in zip(weight, per_leaf[3:], strict=True)
    ]
    return (*per_leaf[:3], of_weights if mask[3] else None)
