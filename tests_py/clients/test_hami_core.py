# SPDX-License-Identifier: Apache-2.0
"""HAMi-core's memory tests that use the driver alone, from a checkout:
``make test-clients HAMI_CORE=DIR CUDA_INCLUDE=DIR``.

The folder of headers has cuda.h and nvml.h. What uses the CUDA runtime is left out: it needs the driver's tables
without a name.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import gpuconf
import pytest
import simulation

CHECKOUT, HEADERS = os.environ.get("HAMI_CORE", ""), os.environ.get("CUDA_INCLUDE", "")
LIBRARIES = Path(gpuconf.__file__).parent / "_simulator"
TESTS = "alloc alloc_host alloc_managed alloc_pitch create_3d_array create_array host_alloc host_register mem_create"


@pytest.mark.skipif(not (CHECKOUT and HEADERS), reason="HAMI_CORE or CUDA_INCLUDE is not set")
@pytest.mark.parametrize("name", TESTS.split())
def test_hami_cores_own_test(name: str, tmp_path: Path) -> None:
    # The tests include this header, and use no function of it.
    (tmp_path / "cuda_runtime.h").write_text(
        "#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\ntypedef int cudaError_t;\nenum { cudaSuccess "
        "};\n"
    )
    for library in "libcuda.so", "libnvidia-ml.so":
        (tmp_path / library).symlink_to(LIBRARIES / f"{library}.1")
    command = [
        *shlex.split(os.environ.get("CC", "cc")),
        "-w",
        "-o",
        tmp_path / "test",
        f"{CHECKOUT}/test/test_{name}.c",
    ]
    command += [f"-I{tmp_path}", f"-I{CHECKOUT}/src", f"-I{CHECKOUT}", f"-I{HEADERS}", f"-L{tmp_path}"]
    subprocess.run([*command, "-lcuda", "-lnvidia-ml", "-lrt", "-lpthread"], check=True)
    done = simulation.run(tmp_path / "test")
    assert done.returncode == 0, done.stdout + done.stderr
