# SPDX-License-Identifier: Apache-2.0
"""Python numbers in the place of tensors.

PyTorch makes a tensor of a number in ``x * 0.5`` that takes part in type promotion as a number, and gives it to a
Python kernel as a number. A kernel that is called from there needs such a tensor again. Nothing makes one by itself,
but a detached one
is one, too.
"""

from __future__ import annotations

import torch

from ..._typing import Any

_KINDS = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}
_made: dict[Any, torch.Tensor] = {}
_MOST = 4096


def _template(value: Any) -> torch.Tensor:
    """Return the tensor that autograd saves of a number."""
    with torch.inference_mode(False), torch.enable_grad():
        factor = torch.zeros((), dtype=torch.complex64, device="cpu", requires_grad=True)
        saved: torch.Tensor = (factor * value).grad_fn._saved_other
        return saved


# What the dispatcher includes and excludes where no mode and no transform is active.
_PLAIN = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
_TEMPLATES = {kind: _template(kind(1)) for kind in _KINDS}


def as_tensor(value: Any) -> torch.Tensor:
    """Return the tensor that PyTorch makes of a number."""
    kind = type(value)
    key = (kind, repr(value))  # of zeros, too, the sign counts
    tensor = _made.get(key)
    if tensor is None:
        if len(_made) >= _MOST:
            _made.clear()
        # A mode, or a transform, such as the functionalization of torch.export, would make a tensor of its own here.
        off = torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction(), torch._C._DisablePythonDispatcher()
        with off[0], off[1], off[2], torch._C._ForceDispatchKeyGuard(*_PLAIN):
            tensor = _TEMPLATES[kind].detach()
            tensor.set_(torch.full((), value, dtype=_KINDS[kind], device="cpu").untyped_storage(), 0, (), ())
        _made[key] = tensor
    return tensor


def as_tensors(args: tuple[Any, ...], places: tuple[int, ...]) -> tuple[Any, ...]:
    """Return arguments with tensors in place of numbers at these places."""
    for place in places:
        if place < len(args) and type(args[place]) in _KINDS:
            return tuple(as_tensor(one) if at in places and type(one) in _KINDS else one for at, one in enumerate(args))
    return args
