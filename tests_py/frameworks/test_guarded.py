"""The real libraries under the guard, without a GPU: they fill a limit that they know nothing of. See no_gpu.py.

CuPy has a CUDA runtime linked in, which does not start over this driver: beyond a driver of its own version, it
requires two of the unnamed tables of functions that cuGetExportTable returns, which NVIDIA does not document.
tests_py/gpu/cases/guarded.py has
its case.
"""

import importlib.util
import json
from pathlib import Path
from typing import Any

import no_gpu
import pytest

MIB = 1 << 20
LIMIT = 512 * MIB
FILL = Path(__file__).parent.parent / "gpu" / "cases" / "guard_fill.py"
NEEDS_TORCH = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")


def filled(driver: Path, what: str, mode: str = "proxy") -> dict[str, Any]:
    """Fill a limit of 512 MiB on a card of 2 GiB."""
    done = no_gpu.under_guard(driver, mode, LIMIT, FILL, what)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("mode", ["proxy", "preload"])
@pytest.mark.parametrize(
    ("what", "error"),
    [
        pytest.param("torch", "OutOfMemoryError", marks=NEEDS_TORCH),
        pytest.param("numba", "CudaAPIError", marks=needs("numba_cuda")),
    ],
)
def test_a_library_by_itself(driver: Path, what: str, error: str, mode: str) -> None:
    """It sees a card of the limit's size, fills it, gets its own error, and finds room after its cache is emptied."""
    row = filled(driver, what, mode)
    assert (row["total"], row["chunks"], row["error"], row["refused"]) == (LIMIT, 8, error, True)
    assert (row["used"], row["outside"], row["peak"]) == (LIMIT, LIMIT, LIMIT)
    assert row["after"] <= LIMIT // 2 + 64 * MIB


@NEEDS_TORCH
@pytest.mark.parametrize("mode", ["whole", "segments"])
def test_pytorch_on_our_pools_counts_once(driver: Path, mode: str) -> None:
    row = filled(driver, f"torch-{mode}")
    assert (row["total"], row["chunks"], row["error"], row["outside"]) == (LIMIT, 8, "OutOfMemoryError", 0)
    assert (row["used"], row["peak"]) == (LIMIT, LIMIT)


def test_every_way_that_the_check_knows(driver: Path) -> None:
    """Among them the CUDA runtime, with PyTorch: of its functions, the simulated one has what PyTorch and its
    extensions call.
    """
    rows = filled(driver, "driver")
    lacking = [
        rows.pop(name) for name, row in list(rows.items()) if name.endswith("CUDA runtime") and row["result"] == 801
    ]
    assert [(row["chunks"], row["left"]) for row in lacking] == [(0, LIMIT)] * len(lacking)
    runtime = {name.partition(",")[0] for name in rows if name.endswith("CUDA runtime")}
    assert runtime == ({"cuMemAlloc", "cuMemAllocAsync", "cuMemAllocManaged"} if no_gpu.torch_folder() else set())
    assert len(rows) >= 24 + len(runtime)
    assert {
        name for name, row in rows.items() if row != {"before": 0, "chunks": 8, "result": 2, "left": 0, "after": 0}
    } == set()
