"""The programs for PyTorch and CuPy on README and in the documentation do what they say.

PyTorch is real. CuPy's arrays need a GPU, so ``zeros`` is replaced by a function that allocates with the allocator that
gpuconf installs.
"""

from collections.abc import Callable

import no_gpu
import pytest
from doc_blocks import block
from test_cupy import STANDIN

pytestmark = [
    pytest.mark.skipif(no_gpu.torch_folder() is None, reason="PyTorch with CUDA is not installed"),
    pytest.mark.simulated_programs,
]

ARRAYS = """
cupy.zeros = lambda n: cupy.cuda.allocator(8 * n)
"""


def test_the_programs_of_readme(run: Callable[..., str]) -> None:
    code = STANDIN + ARRAYS + block("README.md", "import gpuconf") + block("README.md", "import cupy")
    out = run(code + "\nprint(gpuconf.memory.stats().bytes_in_use)", FAKECUDA_MEMORY=str(8 << 30))
    assert (
        "the limit is reached.\n  limit 6.00GiB (6442450944 bytes), in use 4.00GiB (4294967296 bytes) in 1 block" in out
    )
    assert out.splitlines()[-1] == str(6 << 30)


def test_the_program_of_the_page_on_limits(run: Callable[..., str]) -> None:
    code = STANDIN + ARRAYS + block("docs/limits.md", "import gpuconf")
    code += "\nprint(gpuconf.memory.stats().bytes_in_use)"
    out = run(code, FAKECUDA_MEMORY=str(8 << 30))
    assert (
        "the limit is reached.\n  limit 6.00GiB (6442450944 bytes), in use 6.00GiB (6442450944 bytes) in 2 blocks"
        in out
    )
    assert out.splitlines()[-1] == str(6 << 30)


def test_one_call_before_the_imports(run: Callable[..., str]) -> None:
    code = block("docs/frameworks.md", "import gpuconf\ngpuconf.configure(")
    after = "held = torch.empty(1 << 20, device='cuda')\n"
    after += "print(gpuconf.memory.usage().bytes_in_use >> 22, gpuconf.memory.stats().bytes_limit)"
    assert run(STANDIN + code + after, FAKECUDA_MEMORY=str(8 << 30)) == f"1 {6 << 30}\n"


def test_two_models_have_a_budget_each(run: Callable[..., str]) -> None:
    before = "import gpuconf, torch\nModel = lambda: torch.nn.Linear(1024, 1024)\n"
    after = "print([gpuconf.memory.stats(gpu).bytes_in_use >> 22 for gpu in ('GPU:0', 'GPU:1')])"
    code = before + block("docs/frameworks.md", "card = ") + after
    assert run(code, FAKECUDA_MEMORY=str(8 << 30)) == "[1, 1]\n"


def test_memory_by_tag(run: Callable[..., str]) -> None:
    before = """
import gpuconf, torch
gpuconf.configure()
weights = torch.nn.Parameter(torch.empty(1 << 20, device="cuda"))
weights.grad = torch.empty(1 << 20, device="cuda")
optimizer = torch.optim.SGD([weights], lr=0.1, momentum=0.9)
"""
    out = run(before + block("docs/memory.md", "with gpuconf.memory.tag("), FAKECUDA_MEMORY=str(8 << 30))
    assert "optimizer" in out
