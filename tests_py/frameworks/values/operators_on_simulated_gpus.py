"""PyTorch's own table of operators, op_db, on a simulated GPU beside the CPU, forward and backward.

``python operators_on_simulated_gpus.py [--share K/N] [--samples N] [NAME ...]`` runs these operators, else the Kth of N
shares of all, with the first samples of each. Freed blocks hold a pattern, so that a result of stale memory differs. It
prints a line for each operator and type that differs, and at the end how many are equal.
"""

import argparse
import warnings
from collections.abc import Iterator

import gpuconf

gpuconf.simulate("A100-40GB")
warnings.simplefilter("ignore")

import torch  # noqa: E402
from freed_blocks import fill_freed_blocks  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_map  # noqa: E402

TYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
# What differs, and why.
DIFFERENT = {
    "empty": "memory without a value",
    "empty_like": "memory without a value",
    "empty_permuted": "memory without a value",
    "empty_strided": "memory without a value",
    "new_empty": "memory without a value",
    "new_empty_strided": "memory without a value",
    "native_batch_norm": "in inference, CUDA's kernel returns statistics where the CPU's returns empty tensors",
    "_native_batch_norm_legit": "in inference, CUDA's kernel returns statistics where the CPU's returns empty tensors",
    "nn.functional.scaled_dot_product_attention": "some samples have a dropout, which draws other numbers",
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": "is not for CUDA",
}


def on_cpu(values: object) -> object:
    def one(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return value.detach().cpu().requires_grad_(value.requires_grad)
        if isinstance(value, torch.device) or (isinstance(value, str) and value.startswith("cuda")):
            return "cpu"
        return value

    return tree_map(one, values)


def copied(values: object) -> object:
    return tree_map(
        lambda one: one.detach().clone().requires_grad_(one.requires_grad) if isinstance(one, torch.Tensor) else one,
        values,
    )


def tensors(values: object, *, with_grad: bool = False) -> list[torch.Tensor]:
    found = [one for one in tree_flatten(values)[0] if isinstance(one, torch.Tensor)]
    return [one for one in found if one.requires_grad] if with_grad else found


def compare(expected: object, found: object) -> None:
    pairs = list(zip(tensors(expected), tensors(found), strict=True))
    for one, other in pairs:
        torch.testing.assert_close(
            other.detach().cpu(), one.detach(), rtol=1e-5, atol=1e-5, equal_nan=True, check_stride=False
        )


def check(op: object, sample: object, backward: bool) -> None:
    here = copied((sample.input, sample.args, sample.kwargs))
    there = on_cpu((sample.input, sample.args, sample.kwargs))
    torch.manual_seed(7)
    try:
        expected = op(there[0], *there[1], **there[2])
    except Exception:
        return  # the CPU refuses the sample
    torch.manual_seed(7)
    fill_freed_blocks()
    found = op(here[0], *here[1], **here[2])
    compare(expected, found)
    compare(there, here)  # of operators in place
    outs, inputs = tensors(expected, with_grad=True), tensors(there, with_grad=True)
    if not (backward and outs and inputs):
        return
    grads = [torch.randn_like(one) for one in outs]
    try:
        wanted = torch.autograd.grad(outs, inputs, grads, allow_unused=True)
    except RuntimeError:
        return
    fill_freed_blocks()
    own = tensors(found, with_grad=True), tensors(here, with_grad=True)
    compare(wanted, torch.autograd.grad(*own, [one.cuda() for one in grads], allow_unused=True))


def checked(op: object, samples: int) -> Iterator[tuple[str, str]]:
    """Yield a type, and what differs or ""."""
    for dtype in TYPES:
        if dtype not in op.dtypes or dtype not in op.dtypesIfCUDA:
            continue
        backward = op.supports_autograd and dtype in op.backward_dtypes and dtype in op.backward_dtypesIfCUDA
        torch.manual_seed(0)
        try:
            cases = list(
                op.sample_inputs("cuda", dtype, requires_grad=backward and dtype.is_floating_point | dtype.is_complex)
            )
        except Exception:
            continue  # a library that the samples need is missing
        trouble = ""
        for case in cases[:samples]:
            try:
                check(op, case, backward)
            except Exception as error:
                if "Could not run" in str(error):  # PyTorch has no kernel for CUDA
                    break
                trouble = f"{type(error).__name__}: {str(error)[:300]}"
                break
        yield str(dtype), trouble


def chosen() -> Iterator[tuple[object, int]]:
    """Yield each operator that the command line chooses, and the number of samples."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", default="1/1")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    share, shares = map(int, options.share.split("/"))
    for number, op in enumerate(op_db):
        is_asked = op.name in options.names if options.names else number % shares == share - 1
        if op.name not in DIFFERENT and is_asked:
            yield op, options.samples


def main() -> None:
    equal = differing = 0
    for op, samples in chosen():
        for dtype, trouble in checked(op, samples):
            equal += not trouble
            differing += bool(trouble)
            if trouble:
                print(f"{op.formatted_name} {dtype}: {trouble}".replace("\n", " "), flush=True)
    print(f"{equal} equal, {differing} different")


if __name__ == "__main__":
    main()
