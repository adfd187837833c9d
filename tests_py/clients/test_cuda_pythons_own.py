# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own tests of cuda-python, which are in the wheel of 11.8.3.

Its CUDA runtime is written over the driver, and runs, too.

Those of kernels and of NVRTC are left out. What fails needs what the simulator refuses by name.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import simulation

reason = "" if os.environ.get("GPUCONF_TEST_DOWNLOADS") else "make test-clients downloads it"
if not reason and importlib.util.find_spec("numpy") is None:
    reason = "numpy is missing"
pytestmark = pytest.mark.skipif(bool(reason), reason=reason)

PACKAGE = "cuda-python==11.8.3"
ARRAYS, NODES = "copies of arrays", "graphs that are made node by node"
REFUSED = {
    "test_cuda.py": {"test_cuda_mem_range_attr": "cuMemRangeGetAttribute"},
    "test_interoperability.py": {"test_interop_graphNode": NODES},
    "test_cudart.py": {
        "test_cudart_cudaMemcpyToArray": ARRAYS,
        "test_cudart_cudaMemcpyToArray_DtoD": ARRAYS,
        "test_cudart_cudaMemcpy2DToArray": ARRAYS,
        "test_cudart_cudaMemcpy2DToArray_DtoD": ARRAYS,
        "test_cudart_cudaMemcpyArrayToArray": ARRAYS,
        "test_cudart_cudaMemcpy2DArrayToArray": ARRAYS,
        "test_cudart_cudaMemcpy3DAsync": ARRAYS,
        "test_cudart_cudaMemcpy3DPeer": ARRAYS,
        "test_cudart_cudaMemcpy3DPeerAsync": ARRAYS,
        "test_cudart_cudaGetTextureObjectTextureDesc": "textures",
        "test_cudart_cudaGraphAddMemcpyNode1D": NODES,
        "test_cudart_cudaGraphAddMemsetNode": NODES,
    },
}
PASSED = {"test_cuda.py": 18, "test_interoperability.py": 6, "test_cudart.py": 17}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the package."""
    folder = tmp_path_factory.mktemp("cuda-python")
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--target",
        folder,
        PACKAGE,
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"there is no wheel of {PACKAGE} for this Python: {done.stderr.strip().splitlines()[-1]}")
    return folder


@pytest.mark.parametrize("name", REFUSED)
def test_nvidias_own_tests(name: str, package: Path) -> None:
    options = ["-q", "--tb=short", "-p", "no:gpuconf", "-p", "no:cacheprovider"]
    words = [sys.executable, "-W", "ignore", "-m", "pytest", *options, package / "cuda" / "tests" / name]
    done = simulation.run(*words, spec="A100-40GB:driver=11.8", PYTHONPATH=str(package))
    failed = re.findall(r"^FAILED \S+::(\w+)", done.stdout, re.MULTILINE)
    assert sorted(failed) == sorted(REFUSED[name]), done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= PASSED[name]
