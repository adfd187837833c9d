"""The programs for PyTorch and CuPy on README and in the documentation do what they say.

PyTorch is real. CuPy's arrays need a GPU, so ``zeros`` is replaced by a function that allocates with the allocator that gpuconf
installs.
"""

from __future__ import annotations

import re
from pathlib import Path

import no_gpu
import pytest
from test_cupy import STANDIN

ROOT = Path(__file__).resolve().parent.parent.parent

ARRAYS = """
cupy.zeros = lambda n: cupy.cuda.allocator(8 * n)
"""


@pytest.mark.parametrize("page", ["README.md", "docs/howto/limit-pytorch-and-cupy.md"])
def test_the_program(page: str, driver: Path) -> None:
    if no_gpu.torch_folder() is None:
        pytest.skip("PyTorch with CUDA is not installed")
    blocks = re.findall(r"```python\n(import gpuconf\n.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert len(blocks) == 1
    out = no_gpu.run(
        driver, STANDIN + ARRAYS + blocks[0] + "\nprint(gpuconf.memory.stats().bytes_in_use)", FAKECUDA_MEMORY=str(8 << 30)
    )
    assert "the limit is reached.\n  limit 6.00GiB (6442450944 bytes), in use 6.00GiB (6442450944 bytes) in 2 blocks" in out
    assert out.splitlines()[-1] == str(6 << 30)
