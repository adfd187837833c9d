"""Which arguments of a call make the size of a tensor, as PyTorch's schemas and annotations say."""

from __future__ import annotations

import ast

import pytest
from gpuconf.plans.programs import sizes

torch = pytest.importorskip("torch", reason="PyTorch is not installed")  # whose schemas are read
IMPORTED = {"torch", "nn", "F", "np", "zeros", "Linear"}


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("torch.zeros(a, b, device=c)", "a b"),
        ("torch.zeros(size=a, dtype=b)", "a"),
        ("torch.zeros(*a, **b)", "a b"),
        ("zeros((a, b))", "(a, b)"),
        ("x.repeat(a, b)", "a b"),
        ("x.to(a).repeat(a, b)", "a b"),
        ("x.new_zeros(a)", "a"),
        ("x.expand(a, -1)", "a -1"),
        ("x[0].view(a, b)", "a b"),
        ("torch.full(a, b)", "a"),
        ("torch.arange(a)", "a"),
        ("torch.randint(0, 9, a)", "0 9 a"),
        ("np.zeros(a)", "a"),
        ("F.interpolate(a, size=b, mode=c)", "b"),
        ("F.interpolate(a, scale_factor=b)", "b"),
        ("F.pad(a, b, value=c)", "b"),
        ("F.gumbel_softmax(a, tau=b)", ""),
        ("F.dropout(a, b)", ""),
        ("nn.Linear(a, b, bias=c)", "a b"),
        ("Linear(a, b)", "a b"),
        ("torch.cat([a, b], 0)", "0"),
        ("torch.tensor(a)", ""),
        ("torch.Tensor(a, b)", "a b"),
        ("torch.Tensor([a])", ""),
        ("torch.cuda.FloatTensor(a)", "a"),
        ("torch.lerp(a, b, c)", ""),
        ("x.mul_(a).add_(b, alpha=c)", ""),
        ("x.pow(a)", ""),
        ("torch.manual_seed(a)", ""),
        ("torch.save(a, b)", ""),
        ("log.write(a)", ""),
        ("writer.add_scalar(a, b, c)", ""),
        ("model(a)", ""),
    ],
)
def test_the_sizes_of_a_call(call: str, wanted: str) -> None:
    assert torch.__version__
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    found = (ast.unparse(one) for one in sizes.of_call(node, IMPORTED))
    assert " ".join(dict.fromkeys(found)).replace("*", "") == wanted
