"""A package for examples/github-actions.yml, as users have one: it has CUDA tests with PyTorch, and does not use
gpuconf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "package"
version = "1"
dependencies = ["torch"]
[tool.setuptools]
py-modules = ["package"]
""",
    "package.py": """
def normalized(x): return x / x.norm(dim=-1, keepdim=True)
""",
    "test_package.py": """
import package, pytest, torch
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
def test_normalized(device):
    x = torch.tensor([[3.0, 4.0]], device=device)
    assert package.normalized(x).tolist() == [[0.6000000238418579, 0.800000011920929]]
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two():
    assert torch.ones(3, device="cuda:1").to("cuda:0").sum().item() == 3
""",
}
PASSED = "3 passed"


def write(folder: Path) -> None:
    """Write the package into a folder."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
