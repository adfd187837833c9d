"""Nested and quantized tensors on a simulated GPU: each line is equal to the CPU's, refused by name, or differs."""

import warnings
from collections.abc import Callable

import gpuconf

gpuconf.simulate("A100-40GB")
warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812

Call = Callable[[str], object]


def nested(device: str, *shape: int) -> torch.Tensor:
    shape = shape or (3,)
    parts = [torch.arange(1.0, 1 + rows * torch.Size(shape).numel()).view(rows, *shape) for rows in (2, 1)]
    return torch.nested.nested_tensor(parts, device=device)


def ones(device: str, *shape: int) -> torch.Tensor:
    return torch.ones(shape, device=device)


NESTED: dict[str, Call] = {
    "padded": lambda d: nested(d).to_padded_tensor(0.5),
    "from a mask": lambda d: torch._nested_tensor_from_mask(ones(d, 2, 3, 4), ones(d, 2, 3).bool()),
    "from padded": lambda d: torch._nested_from_padded(ones(d, 2, 2, 3), torch.tensor([[2, 3], [1, 3]])),
    **{
        name: (lambda d, name=name: getattr(torch, name)(nested(d)))
        for name in ("relu", "tanh", "sin", "cos", "neg", "abs", "sqrt", "isnan", "logical_not", "clone", "ones_like")
    },
    "gelu": lambda d: F.gelu(nested(d)),
    "softmax": lambda d: torch.softmax(nested(d), -1),
    "of two": lambda d: nested(d) * nested(d) + nested(d) - nested(d),
    "of numbers": lambda d: nested(d) * 2 / 4,
    "times a dense one": lambda d: nested(d) * ones(d, 2, 1, 3),
    "plus a dense one": lambda d: nested(d) + ones(d, 2, 1, 3),
    "in place": lambda d: nested(d).mul_(3.0).relu_().neg_().fill_(2.0).zero_(),
    "matmul": lambda d: torch.matmul(nested(d), nested(d).transpose(1, 2)),
    "linear": lambda d: F.linear(nested(d), ones(d, 4, 3), ones(d, 4)),
    "normalized": lambda d: F.layer_norm(nested(d), (3,), ones(d, 3), ones(d, 3)),
    "attention": lambda d: F.scaled_dot_product_attention(*[nested(d, 4, 8).transpose(1, 2).contiguous()] * 3),
    "rescaled": lambda d: torch._transform_bias_rescale_qkv(nested(d, 12), ones(d, 12), 2),
    "compared": lambda d: (nested(d) == 2, nested(d) > 1, nested(d).masked_fill(nested(d) > 1, 0.0)),
    "embedded": lambda d: F.embedding(
        torch.nested.nested_tensor([torch.tensor([1, 0]), torch.tensor([2])], device=d),
        torch.arange(6.0, device=d).view(3, 2),
    ),
    "selected": lambda d: nested(d).select(0, 1),
    "jagged": lambda d: (
        torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged, device=d) * 2
    ).to_padded_tensor(0.0),
}
INTEGERS = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 0, torch.qint8)
QUANTIZED: dict[str, Call] = {
    "moved": lambda d: INTEGERS.to(d),
    "quantized": lambda d: torch.quantize_per_tensor(ones(d, 3), 0.1, 0, torch.qint8),
    "by channel": lambda d: torch.quantize_per_channel(ones(d, 3, 4), ones(d, 3), ones(d, 3), 0, torch.qint8),
    "dynamic": lambda d: torch.quantize_per_tensor_dynamic(ones(d, 3), torch.qint8, False),
    "empty": lambda d: torch._empty_affine_quantized([3], scale=1.0, zero_point=0, dtype=torch.qint8, device=d),
    "alike": lambda d: torch.empty_like(INTEGERS, device=d),
    "of integers": lambda d: torch._make_per_tensor_quantized_tensor(ones(d, 3).to(torch.int8), 0.1, 0),
}


def parts(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [part.cpu() for part in (value.unbind() if value.is_nested else [value])]
    return [part for each in value for part in parts(each)]


def outcome(call: Call) -> str:
    try:
        found = parts(call("cuda"))
    except NotImplementedError as error:
        return "refused" if "is not computed on simulated GPUs" in str(error) else str(error)
    try:
        same = all(torch.allclose(one, other) for one, other in zip(parts(call("cpu")), found, strict=True))
    except RuntimeError:
        return "the CPU refuses"
    return "equal" if same else "different"


for kind, table in (("nested", NESTED), ("quantized", QUANTIZED)):
    for name, call in table.items():
        print(f"{kind}, {name}: {outcome(call)}")
