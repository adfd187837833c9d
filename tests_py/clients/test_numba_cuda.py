# SPDX-License-Identifier: Apache-2.0
"""The tests of numba-cuda's own that pass without compiled kernels, on the shipped driver:
tests_py/frameworks/numba_own.txt.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from itertools import groupby
from pathlib import Path

import pytest
import simulation

FRAMEWORKS = Path(__file__).resolve().parent.parent / "frameworks"
VERSION, *TESTS = (FRAMEWORKS / "numba_own.txt").read_text().split()
MODULES = {module: list(tests) for module, tests in groupby(TESTS, lambda name: ".".join(name.split(".")[:2]))}


def skip_reason() -> str:
    missing = [name for name in ("numba_cuda", "filecheck", "cffi") if importlib.util.find_spec(name) is None]
    if missing:
        return f"{missing} missing; make test-clients installs them"
    has = importlib.metadata.version("numba-cuda")
    return "" if f"numba-cuda=={has}" == VERSION else f"numba_own.txt is for {VERSION}, and this is {has}"


REASON = skip_reason()


@pytest.mark.skipif(bool(REASON), reason=REASON)
@pytest.mark.parametrize("module", MODULES)
def test_numbas_own_tests(module: str, tmp_path: Path) -> None:
    words = (sys.executable, FRAMEWORKS / "numba_own.py", module, *MODULES[module])
    done = simulation.run(*words, NUMBA_CACHE_DIR=str(tmp_path), PYTHONHASHSEED="0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == [f"passed {name}" for name in MODULES[module]], done.stderr
