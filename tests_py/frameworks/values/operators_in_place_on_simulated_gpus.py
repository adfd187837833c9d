"""PyTorch's operators in place on a simulated GPU beside the CPU, on tensors of unusual shapes: one number, views.

``python operators_in_place_on_simulated_gpus.py [--share K/N] [--samples N] [NAME ...]`` runs the operators of
PyTorch's own table that have a form in place. Freed blocks hold a pattern, so that a result of stale memory differs. It
prints a line for each operator, type and shape that differs, and at the end how many are equal.
"""

from collections.abc import Callable, Iterator

from operators_on_simulated_gpus import chosen, compare, copied, on_cpu  # before torch: it simulates a GPU

import torch  # isort: skip
from freed_blocks import fill_freed_blocks

TYPES = (torch.float32, torch.int64, torch.complex64)
AROUND = ("as_strided", "resize")  # They see what lies around a tensor, which nothing has written.


def stepped(one: torch.Tensor) -> torch.Tensor:
    """Return the same values in every second place of a longer storage, after three others."""
    longer = torch.zeros(2 * one.numel() + 3, dtype=one.dtype, device=one.device)[3:]
    return longer.as_strided(one.shape, [2 * step for step in one.contiguous().stride()], 3).copy_(one)


SHAPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as it is": lambda one: one,
    "one number": lambda one: one.flatten()[:1].clone(),
    "a number": lambda one: one.flatten()[0].clone(),
    "of the last dimension": lambda one: one.flatten(0, -2)[0].clone() if one.dim() > 1 else one,
    "broadcast in the first dimension": lambda one: one[:1].clone() if one.dim() else one,
    "broadcast in the last dimension": lambda one: one[..., :1].clone() if one.dim() else one,
    "a view": lambda one: torch.cat([one.flatten()[:1], one.flatten()])[1:].view(one.shape),
    "stepped": stepped,
    "transposed": lambda one: one.mT.contiguous().mT if one.dim() > 1 else one,
}


def outcome(call: Callable[..., object], arguments: object) -> tuple[object, Exception | None]:
    torch.manual_seed(7)
    try:
        return call(arguments[0], *arguments[1], **arguments[2]), None
    except Exception as error:
        return None, error


def differs(call: Callable[..., object], sample: object, shape: Callable[[torch.Tensor], torch.Tensor]) -> str | None:
    """Return what differs or "", and None if the CPU refuses it."""
    there = (shape(sample.input.cpu()), *on_cpu((sample.args, sample.kwargs)))
    here = (shape(sample.input), *copied((sample.args, sample.kwargs)))
    expected, refused = outcome(call, there)
    if refused is not None:
        return None
    fill_freed_blocks()
    found, error = outcome(call, here)
    if error is not None:
        return f"{type(error).__name__}: {str(error)[:200]}"
    try:
        compare((expected, there), (found, here))
    except AssertionError as error:
        return str(error)[:300]
    return ""


def checked(op: object, dtype: torch.dtype, samples: int) -> Iterator[tuple[str, str | None]]:
    """Yield a shape, and what `differs` returns."""
    torch.manual_seed(0)
    try:
        cases = list(op.sample_inputs("cuda", dtype, requires_grad=False))[:samples]
    except Exception:
        return  # a library that the samples need is missing
    for name, shape in SHAPES.items():
        for case in cases:
            if isinstance(case.input, torch.Tensor) and case.input.layout is torch.strided and case.input.numel():
                yield name, differs(op.inplace_variant, case, shape)


def main() -> None:
    equal = differing = refused = 0
    for op, samples in chosen():
        if op.inplace_variant is None or op.name.startswith(AROUND):
            continue
        for dtype in TYPES:
            if dtype not in op.dtypes or dtype not in op.dtypesIfCUDA:
                continue
            for name, trouble in checked(op, dtype, samples):
                refused += trouble is None
                equal += trouble == ""
                differing += bool(trouble)
                if trouble:
                    print(f"{op.formatted_name} {dtype}, {name}: {trouble}".replace("\n", " "), flush=True)
    print(f"{equal} equal, {differing} different, {refused} refused by the CPU")


if __name__ == "__main__":
    main()
