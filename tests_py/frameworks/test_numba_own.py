"""Tests of numba-cuda's own, which come with its package: what passes over the driver without a GPU passes under the
guard, too.

numba_own.txt lists them for the version that it names. They are those of the folders core, cudadrv and nocuda that
passed in every run without the guard. The others need compiled kernels to run, functions that the test driver lacks, or
CuPy's runtime. What made their results vary was time: a copy that was still queued when its memory was freed ends the
context, unless the driver waits as NVIDIA's does (FAKECUDA_LENIENT). Each module runs in a process of its own, with one
seed for hashes
and for
random
numbers.
"""

import importlib.metadata
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

import no_gpu
import pytest

HERE = Path(__file__).parent
VERSION, *TESTS = (HERE / "numba_own.txt").read_text().split()
MODULES = {module: list(tests) for module, tests in groupby(TESTS, lambda name: ".".join(name.split(".")[:2]))}
LIMIT = 1 << 30
# Numba compiles with NVIDIA's own NVRTC, and needs no PyTorch.
PINNED = {"FAKECUDA_LENIENT": "1", "PYTHONHASHSEED": "0", "LD_PRELOAD": ""}

NEEDS = [name for name in ("numba_cuda", "filecheck", "cffi") if importlib.util.find_spec(name) is None]


def skip_reason() -> str:
    if NEEDS:
        return f"{NEEDS} missing"
    has = importlib.metadata.version("numba-cuda")
    return "" if f"numba-cuda=={has}" == VERSION else f"numba_own.txt is for {VERSION}, and this is {has}"


REASON = skip_reason()


@pytest.mark.skipif(bool(REASON), reason=REASON)
@pytest.mark.parametrize("module", MODULES)
def test_what_passes_without_the_guard_passes_under_it(driver: Path, tmp_path: Path, module: str) -> None:
    def outcomes(mode: str) -> list[str]:
        words = (HERE / "numba_own.py", module, *MODULES[module])
        done = no_gpu.under_guard(driver, mode, LIMIT, *words, NUMBA_CACHE_DIR=str(tmp_path / mode), **PINNED)
        assert done.returncode == 0, done.stdout + done.stderr
        return sorted(done.stdout.splitlines())

    with ThreadPoolExecutor(2) as pool:
        without, under = pool.map(outcomes, ("off", "proxy"))
    assert without == under == [f"passed {name}" for name in MODULES[module]]


def test_the_documentation_has_their_number() -> None:
    text = (HERE.parents[1] / "benchmarks" / "reports" / "sharing.md").read_text()
    assert sorted(set(TESTS)) == TESTS
    assert f"{len(TESTS)} tests of {VERSION.replace('==', ' ')}" in " ".join(text.split())
