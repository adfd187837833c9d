# SPDX-License-Identifier: Apache-2.0
"""Fused cells of LSTM and GRU. What a workspace holds is only read by the backward pass below."""

from __future__ import annotations

import torch
from torch import Tensor


def _sum(gates: Tensor, other: Tensor, first: Tensor | None, second: Tensor | None) -> Tensor:
    total = gates + other
    return total if first is None or second is None else total + first + second


def lstm(
    gates: Tensor, hidden: Tensor, cx: Tensor, bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> tuple[Tensor, ...]:
    """``aten::_thnn_fused_lstm_cell``."""
    i, f, g, o = _sum(gates, hidden, bias, hidden_bias).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)


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
