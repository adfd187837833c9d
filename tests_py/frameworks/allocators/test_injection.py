"""The pytest plugin, and the caches of the libraries, with the real libraries on gpuconf's pools, without a GPU."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import no_gpu
import pytest

QUIET = {"CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING": "1"}
NEEDS = {
    "torch whole": no_gpu.torch_folder() is not None,
    "torch segments": no_gpu.torch_folder() is not None,
    "cupy": importlib.util.find_spec("cupy") is not None,
    "numba": importlib.util.find_spec("numba_cuda") is not None,
}

# Each library's way to allocate 4 MiB, and the class of its own error.
LIBRARIES = {
    "torch whole": """
gpuconf.configure(limit="64MiB", libraries={"torch": "whole"})
import torch
ERROR = torch.OutOfMemoryError
def take(): return torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
""",
    "torch segments": """
gpuconf.configure(limit="128MiB", libraries={"torch": "segments"})
import torch
ERROR = torch.OutOfMemoryError
def take(): return torch.empty(20 * MIB, dtype=torch.uint8, device="cuda")  # a segment of its own
""",
    # CuPy contains its own runtime, which needs a real driver: see test_cupy.py.
    "cupy": """
import types, cupy
from gpuconf.allocators import cupy as adaptor
gpuconf.configure(limit="64MiB", libraries=[])
cupy.cuda.device = types.SimpleNamespace(get_device_id=lambda: 0)
null_stream = ctypes.CFUNCTYPE(ctypes.c_ssize_t)(lambda: 0)
adaptor._current_stream_function = lambda: ctypes.cast(null_stream, ctypes.c_void_p).value
ERROR = cupy.cuda.memory.OutOfMemoryError
def take(): return adaptor.allocate(4 * MIB)
""",
    "numba": """
gpuconf.configure(limit="64MiB", libraries=["numba"])
from numba import cuda
ERROR = MemoryError
def take(): return cuda.device_array(4 * MIB, dtype="u1")
""",
}

SUITE = """
def test_the_third_allocation_fails_once(gpu, gpu_oom_after):
    kept = [take()]
    gpu_oom_after(3)
    kept += [take(), take()]
    with pytest.raises(ERROR) as caught:
        take()
    assert isinstance(caught.value, ERROR)
    print("TEXT", str(caught.value).replace(chr(10), " "))
    kept.append(take())
    gpu_oom_after(1)
    gpu_oom_after(0)
    kept.append(take())

@pytest.mark.gpu_leak
def test_cleans_up(gpu, gpu_oom_each):
    kept = [take(), take()]
    assert len(kept) == 2
    print("STEP", gpu_oom_each)

@pytest.mark.gpu_leak
def test_does_not_clean_up(gpu, gpu_oom_each):
    KEPT.append(take())
    try:
        take()
    except MemoryError:
        return
    KEPT.clear()

def test_a_failing_test_holds_most_of_the_card(gpu):
    held = [take() for _ in range(4 if SEGMENTS else 14)]
    assert not held

def test_the_next_one_has_the_card(gpu):
    assert len([take() for _ in range(4 if SEGMENTS else 14)]) > 1
"""


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_plugin(run: Callable[..., str], tmp_path: Path, library: str) -> None:
    if not NEEDS[library]:
        pytest.skip(f"{library.split()[0]} is not installed")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    setup = "import ctypes, gpuconf, pytest\nMIB, KEPT = 1 << 20, []\n" + f"SEGMENTS = {library.endswith('segments')}\n"
    (tmp_path / "test_it.py").write_text(setup + LIBRARIES[library] + SUITE)
    out = run(
        f"""
        import json, os
        import pytest
        os.chdir({str(tmp_path)!r})
        found = {{}}
        class Reports:
            def pytest_runtest_logreport(self, report):
                if report.outcome != "passed" or report.when == "call":
                    found.setdefault(report.nodeid.partition("::")[2], []).append(
                        (report.when, report.outcome, report.capstdout, dict(report.user_properties)))
        code = pytest.main(["-p", "no:cacheprovider", "-q"], plugins=[Reports()])
        print(chr(10) + json.dumps([int(code), found]))
        """,
        **QUIET,
    )
    code, found = json.loads(out.splitlines()[-1])
    assert code == 1, out
    ((_, outcome, printed, _),) = found["test_the_third_allocation_fails_once"]
    assert outcome == "passed", out
    if library == "torch segments":  # the text is PyTorch's own
        assert "CUDA out of memory. Tried to allocate 20.00 MiB" in printed
    else:
        assert " out of memory, an injected failure" in printed
    ((_, outcome, printed, _),) = found["test_cleans_up"]
    # One run for each allocation, and one without a failure.
    assert (outcome, printed[-7:]) == ("passed", "STEP 0\n"), out
    failed = [report for report in found["test_does_not_clean_up"] if report[1] == "failed"]
    assert [(when, extra["gpuconf.injected_allocation"]) for when, _, _, extra in failed] == [("teardown", 2)], out
    assert failed[0][3]["gpuconf.leaked_blocks"] == 1, out
    assert [report[1] for report in found["test_a_failing_test_holds_most_of_the_card"]] == ["failed"], out
    assert [report[1] for report in found["test_the_next_one_has_the_card"]] == ["passed"], out


@pytest.mark.skipif(not NEEDS["cupy"], reason="CuPy is not installed")
def test_release_empties_cupys_pool(run: Callable[..., str]) -> None:
    """CuPy's own pool on top of gpuconf's memory, as programs set it up that want its speed."""
    out = run(
        LIBRARIES["cupy"]
        + """
class Pool:  # cupy.cuda.MemoryPool asks the runtime for the device, which needs a real driver
    def __init__(self):
        self.blocks = [take()]
    def malloc(self, size):
        return take()
    def free_all_blocks(self):
        self.blocks.clear()
pool = Pool()
cupy.cuda.get_allocator = lambda: pool.malloc
cupy.get_default_memory_pool = lambda: None
released = gpuconf.memory.release()
print({step.step: step.bytes_freed >> 20 for step in released.steps}["caches"], released.bytes_in_use)
"""
    )
    assert out == "4 0\n"


@pytest.mark.skipif(not NEEDS["numba"], reason="numba-cuda is not installed")
def test_release_frees_what_numba_has_deferred(run: Callable[..., str]) -> None:
    out = run(
        LIBRARIES["numba"]
        + """
stream = cuda.stream()  # which may still use freed blocks
x = take()
del x
held = gpuconf.memory.stats().bytes_in_use
released = gpuconf.memory.release()
print(held >> 20, released.bytes_in_use, gpuconf.memory.stats().bytes_in_use)
""",
        **QUIET,
    )
    assert out == "4 0 0\n"
