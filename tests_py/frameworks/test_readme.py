"""README's program for PyTorch and CuPy does what it says.

PyTorch is real. CuPy's arrays need a GPU, so ``zeros`` is replaced by a function that allocates with the allocator that gpuconf
installs.
"""

from __future__ import annotations

import re
from pathlib import Path

import no_gpu
import pytest
from test_cupy import STANDIN

README = Path(__file__).resolve().parent.parent.parent / "README.md"

ARRAYS = """
cupy.zeros = lambda n: cupy.cuda.allocator(8 * n)
"""


def test_the_program_in_the_readme(driver: Path) -> None:
    if no_gpu.torch_folder() is None:
        pytest.skip("PyTorch with CUDA is not installed")
    blocks = re.findall(r"```python\n(import gpuconf\n.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 1
    out = no_gpu.run(
        driver, STANDIN + ARRAYS + blocks[0] + "\nprint(gpuconf.memory.stats().bytes_in_use)", FAKECUDA_MEMORY=str(8 << 30)
    )
    assert "the limit is reached.\n  limit 6.00GiB (6442450944 bytes), in use 6.00GiB (6442450944 bytes) in 2 blocks" in out
    assert out.splitlines()[-1] == str(6 << 30)
