"""Products by the BLAS that is found at run time: which one, its results beside NumPy's, and bad choices."""

from __future__ import annotations

import glob
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from script import run, run_well

# Random products of both types, with and without transpositions, vectors and empty matrices; compared with NumPy in
# float64.
PRODUCTS = """
import sys
import gpuconf
import numpy as np

random = np.random.default_rng(7)
gpuconf.simulate("T4")
sizes = [0, 1, 2, 3, 15, 16, 17, 33, 64, 100, 257]
for device in ("CPU:0", "GPU:0"):
    for dtype, bound in ((np.float32, 2e-5), (np.float64, 1e-13), (np.int32, 0)):
        if dtype is np.int32 and device == "GPU:0":
            continue
        for _ in range(60):
            m, n, k = random.choice(sizes, 3)
            ta, tb = random.random(2) < 0.5
            a = (random.standard_normal((k, m) if ta else (m, k)) * 9).astype(dtype)
            b = (random.standard_normal((n, k) if tb else (k, n)) * 9).astype(dtype)
            with gpuconf.device(device):
                got = gpuconf.matmul(a, b, transpose_a=bool(ta), transpose_b=bool(tb)).numpy()
            x, y = (a.T if ta else a).astype(np.float64), (b.T if tb else b).astype(np.float64)
            want, most = x @ y, np.abs(x) @ np.abs(y)
            assert got.dtype == dtype and got.shape == want.shape
            assert np.all(np.abs(got - want) <= bound * most + (bound and 1e-30)), (device, dtype, m, n, k, ta, tb)
mapped = {line.split()[-1].rpartition("/")[2] for line in open("/proc/self/maps")}
print(*sorted(name for name in mapped if "blas" in name or "blis" in name or "mkl_rt" in name))
"""


def folders() -> list[Path]:
    return [Path(entry) for entry in sys.path if os.path.isabs(entry)]


def libraries() -> list[str]:
    """The libraries that are here: NumPy's, those of wheels, and those that GPUCONF_TEST_BLAS lists."""
    patterns = (
        "numpy.libs/*openblas*.so",
        "scipy_openblas64/lib/*.so",
        "scipy_openblas32/lib/*.so",
        "../../libmkl_rt.so.?",
    )
    found = [path for pattern in patterns for folder in folders() for path in sorted(glob.glob(str(folder / pattern)))]
    return ["gonum", *found, *filter(None, os.environ.get("GPUCONF_TEST_BLAS", "").split(":"))]


@pytest.mark.parametrize("choice", libraries(), ids=lambda choice: Path(choice).name)
def test_products_are_numpys(choice: str) -> None:
    loaded = run_well(PRODUCTS, env={"GPUCONF_BLAS": choice}, timeout=120).split()
    assert choice == "gonum" or Path(choice).resolve().name in loaded


def test_numpys_library_is_used() -> None:
    """NumPy's own, once: another one would double the threads."""
    if not glob.glob(str(Path(np.__file__).parent.parent / "numpy.libs" / "*openblas*.so")):
        pytest.skip("this NumPy does not contain OpenBLAS")
    assert run_well(PRODUCTS, timeout=120).count("openblas") == 1


def test_nothing_is_loaded_before_a_large_product() -> None:
    code = """
import gpuconf, sys

def loaded():
    return any("openblas" in line.rpartition("/")[2] for line in open("/proc/self/maps"))
before = loaded()
gpuconf.simulate("T4")
gpuconf.memory.allocate(64).free()
assert "numpy" not in sys.modules
print(before, loaded())
"""
    assert run_well(code).split() == ["False", "False"]


@pytest.mark.parametrize("choice", ["/nowhere/libblas.so", __file__, "fast", "caf\u00e9\n"])
def test_a_bad_choice_is_an_error_of_large_products(choice: str) -> None:
    code = """
import gpuconf, numpy as np
gpuconf.simulate("T4")
small, large = np.ones((2, 2), "f"), np.ones((99, 99), "f")
for device in ("CPU:0", "GPU:0"):
    with gpuconf.device(device):
        assert gpuconf.matmul(small, small).numpy()[0, 0] == 2
        for _ in range(2):
            before = gpuconf.memory.stats("GPU:0").bytes_in_use
            try:
                gpuconf.matmul(large, large)
            except gpuconf.errors.InvalidArgumentError as error:
                assert "GPUCONF_BLAS is" in str(error) and "cannot be used" in str(error), error
            else:
                raise AssertionError("no error")
            assert gpuconf.memory.stats("GPU:0").bytes_in_use == before
print("done")
"""
    assert run_well(code, env={"GPUCONF_BLAS": choice}) == "done\n"


def test_a_settings_file_chooses(tmp_path: Path) -> None:
    (tmp_path / "gpuconf.toml").write_text('blas = "/nowhere/libblas.so"\n')
    code = "import gpuconf, numpy as np\na = np.ones((99, 99))\ngpuconf.simulate('T4')\ngpuconf.matmul(a, a)"
    env = {"GPUCONF_TRUST_SETTINGS": str(tmp_path)}
    assert 'GPUCONF_BLAS is "/nowhere/libblas.so"' in run(code, cwd=tmp_path, env=env).stderr
    (tmp_path / "gpuconf.toml").write_text('blas = "./libblas.so"\n')
    (tmp_path / "below").mkdir()
    said = run(code, cwd=tmp_path / "below", env=env).stderr
    assert f'GPUCONF_BLAS is "{tmp_path}/./libblas.so"' in said, "it is beside the file, not in the working directory"


def test_the_same_product_has_the_same_result() -> None:
    code = """
import gpuconf, numpy as np
a = np.random.default_rng(1).standard_normal((300, 300)).astype("f")
gpuconf.simulate("T4")
first = gpuconf.matmul(a, a).numpy().tobytes()
for device in ("CPU:0", "GPU:0"):
    with gpuconf.device(device):
        assert all(gpuconf.matmul(a, a).numpy().tobytes() == first for _ in range(20))
print("done")
"""
    assert run_well(code) == "done\n"


def test_many_threads() -> None:
    """More threads than OpenBLAS has buffers for, which it answers by ending the process."""
    code = """
import gpuconf, numpy as np, threading
a = np.ones((64, 64), "f")
gpuconf.simulate("T4")
tensor = gpuconf.constant(a)
wrong = []
def work():
    for _ in range(20):
        if (gpuconf.matmul(tensor, tensor).numpy() != 64).any():
            wrong.append(1)
threads = [threading.Thread(target=work) for _ in range(200)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(wrong))
"""
    assert run_well(code, timeout=120) == "0\n"


def test_a_forked_child_does_not_hang() -> None:
    """The child may not use gpuconf, but NumPy, with the library whose threads are the parent's."""
    code = """
import gpuconf, numpy as np, os, warnings
warnings.simplefilter("ignore")  # Python 3.12 and newer advise against a fork beside threads
a = np.ones((300, 300), "f")
gpuconf.simulate("T4")
tensor = gpuconf.constant(a)
gpuconf.matmul(tensor, tensor)
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        try:
            gpuconf.matmul(tensor, tensor)
        except gpuconf.errors.ForkedProcessError:
            os._exit(int((a @ a)[0, 0] != 300))
        os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert gpuconf.matmul(tensor, tensor).numpy()[0, 0] == 300
print("done")
"""
    assert run_well(code) == "done\n"
