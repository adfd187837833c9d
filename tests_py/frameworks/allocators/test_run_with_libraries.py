"""``gpuconf run`` with the real PyTorch and Numba, unmodified programs, without a GPU. See no_gpu.py."""

import subprocess
import sys
import textwrap
from pathlib import Path

import no_gpu
import pytest
import script

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")

FIRST = """
import torch
torch.cuda.memory.set_per_process_memory_fraction(1.0)
x = torch.empty(1 << 20, device="cuda")
import gpuconf
print(gpuconf.memory.stats().bytes_limit >> 20, [row.library for row in gpuconf.memory.usage().rows], flush=True)
"""
FORKS = """
import os, torch
if os.fork() == 0:
    try:
        x = torch.empty(1 << 20, device="cuda")
        import gpuconf
        print(gpuconf.memory.usage().rows[0].library, flush=True)
    finally:
        os._exit(0)
os.wait()
x = torch.empty(1 << 20, device="cuda")
import gpuconf
print(gpuconf.memory.usage().rows[0].library)
"""
RANK = """
import torch
x = torch.empty(1 << 20, device="cuda:0")
import gpuconf
print(gpuconf.memory.stats().bytes_limit >> 20, flush=True)
"""


def run(folder: Path, tmp_path: Path, words: list[str], program: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a file under a lease of 64 MiB."""
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    done = script.completed(
        [sys.executable, *"-m gpuconf run --memory 64MiB --report --".split(), *words, str(tmp_path / "program.py")],
        env={
            **script.plain(),
            "LD_LIBRARY_PATH": str(folder),
            "LD_PRELOAD": str(folder / "runtime.so"),
            "GPUCONF_LEDGER": str(tmp_path / "ledger"),
            **more,
        },
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_pytorch_is_routed_whichever_function_comes_first(driver: Path, tmp_path: Path) -> None:
    done = run(driver, tmp_path, [sys.executable], FIRST)
    assert done.stdout == "64 ['torch']\n"
    assert "peak torch 20.00MiB of 64.00MiB; guard (preload): peak 64.00MiB" in done.stderr.splitlines()[-1]


def test_expandable_segments_are_replaced(driver: Path, tmp_path: Path) -> None:
    done = run(driver, tmp_path, [sys.executable], FIRST, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert done.stdout == "64 ['torch']\n"
    assert "peak torch 4.00MiB of 64.00MiB; guard (preload): peak 64.00MiB" in done.stderr.splitlines()[-1]


def test_a_program_may_fork_between_the_import_and_the_first_use(driver: Path, tmp_path: Path) -> None:
    assert run(driver, tmp_path, [sys.executable], FORKS).stdout == "torch\ntorch\n"


def test_ranks_of_torchrun_share_the_lease(driver: Path, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    assert run(driver, tmp_path, torchrun, RANK).stdout == "32\n32\n"


def test_numba_is_routed(driver: Path, tmp_path: Path) -> None:
    pytest.importorskip("numba_cuda")
    program = """
        from numba import cuda
        x = cuda.device_array(1 << 20, "u1")
        import gpuconf
        print(gpuconf.memory.stats().bytes_limit >> 20, [row.library for row in gpuconf.memory.usage().rows])
        """
    assert run(driver, tmp_path, [sys.executable, "-W", "ignore"], program).stdout == "64 ['numba']\n"


# Each allocates 8 MiB through gpuconf, as the driver sees it once, and 4 MiB past it.
ONCE = {
    "torch, segments": 'x = __import__("torch").empty(8 << 20, dtype=__import__("torch").uint8, device="cuda")',
    "torch, whole": """
gpuconf.configure(libraries={"torch": "whole"})
import torch
x = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
""",
    "cupy": """
import types, cupy
cupy.cuda.device = types.SimpleNamespace(get_device_id=lambda: 0)
from gpuconf.allocators import cupy as adaptor
function = ctypes.CFUNCTYPE(ctypes.c_ssize_t)(lambda: 0)  # which lives for as long as its address is used
adaptor._current_stream_function = lambda: ctypes.cast(function, ctypes.c_void_p).value
x = adaptor.allocate(8 << 20)
""",
    "numba": 'from numba import cuda; x = cuda.device_array(8 << 20, "u1")',
}
COUNTED = """
library, = {row.library for row in gpuconf.memory.usage().rows}
driver = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and driver.cuCtxSetCurrent(context) == 0
assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4 << 20)) == 0
s = gpuconf.memory.stats()
print(library, s.bytes_in_use >> 20 >= 8, s.budget_pool_bytes == s.bytes_reserved, s.budget_outside_bytes >> 20)
print(s.budget_limit_bytes - s.budget_pool_bytes - s.budget_outside_bytes - s.budget_free_bytes,
      s.budget_limit_bytes >> 20)
"""


@pytest.mark.parametrize("kind", ONCE)
def test_the_guard_counts_what_a_library_has_once(driver: Path, tmp_path: Path, kind: str) -> None:
    library = kind.partition(",")[0]
    if library != "torch":  # which no test imports
        pytest.importorskip({"numba": "numba_cuda"}.get(library, library))
    program = f"import ctypes, gpuconf\n{ONCE[kind]}\n{COUNTED}"
    done = run(driver, tmp_path, [sys.executable, "-W", "ignore"], program, GPUCONF_GROWTH="true")
    assert done.stdout.splitlines() == [f"{library} True True 4", "0 64"]
