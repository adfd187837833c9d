"""How mode segments redirects PyTorch's allocator, tested on a small library that calls the CUDA runtime in the same
way.

test_torch.py tests the real PyTorch if it is installed.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("segments_client.c")
CLIENT = """
import os
folder = os.environ["CLIENT"]
runtime = ctypes.CDLL(folder + "/libruntime.so")
client = ctypes.CDLL(folder + "/libc10_cuda.so")
client.client_free.argtypes = client.client_set_stream.argtypes = (ctypes.c_void_p,)
def take(size):
    pointer = ctypes.c_void_p()
    return client.client_malloc(ctypes.byref(pointer), ctypes.c_size_t(size)), pointer.value
from gpuconf._core import abi as _abi
"""


@pytest.fixture(params=["lazy", "now"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The library's folder.

    With -z now, the slots become read-only; without it, an unused slot still points to the loader.
    """
    compiler = os.environ.get("CC", "cc")
    shared = [compiler, "-shared", "-fPIC", "-O1", f"-Wl,-z,{request.param}", "-Wl,-z,relro", "-Wl,--no-as-needed"]
    runtime, library = tmp_path / "libruntime.so", tmp_path / "libc10_cuda.so"
    subprocess.run([*shared, "-DRUNTIME", SOURCE, "-o", runtime], check=True)
    link = [f"-L{tmp_path}", "-lruntime", f"-Wl,-rpath,{tmp_path}", "-Wl,-soname,libc10_cuda.so"]
    subprocess.run([*shared, SOURCE, "-o", library, *link], check=True)
    return tmp_path


@pytest.mark.parametrize("used_before", [False, True])
def test_segments_come_from_gpuconf_and_go_back_to_whoever_gave_them(
    run: Callable[..., str], client: Path, used_before: bool
) -> None:
    out = run(
        CLIENT
        + f"""
gpuconf.configure(limit="64MiB", libraries=[])
gpus()
foreign = take(1000)[1] if {used_before} else None
_abi.redirect_torch()
_abi.redirect_torch()
result, pointer = take(20 * MIB)
print(result, live(), ctypes.c_int.in_dll(runtime, "runtime_mallocs").value, client.client_device())
print(take(50 * MIB))
print(client.client_free(pointer), live(), client.client_free(foreign),
      ctypes.c_int.in_dll(runtime, "runtime_frees").value)
""",
        CLIENT=str(client),
        LD_PRELOAD="",  # without the runtime for PyTorch: the client has its own
    )
    assert out.splitlines() == [f"0 [1] {int(used_before)} 0", "(2, None)", "0 [0] 0 1"], (
        "2 is CUDA's own code for out of memory"
    )


def test_an_injected_failure_outlasts_pytorchs_retry(run: Callable[..., str], client: Path) -> None:
    """PyTorch answers cudaErrorMemoryAllocation by emptying its cache and asking once more, for the same size."""
    out = run(
        CLIENT
        + """
from gpuconf._core import injected
gpus()
_abi.redirect_torch()
injected.fail_allocation(2)
print(*(take(size * MIB)[0] for size in (2, 20, 20, 20, 2)), injected.counted())
injected.fail_allocation(1)
print(*(take(size * MIB)[0] for size in (2, 20, 2)))
""",
        CLIENT=str(client),
        LD_PRELOAD="",
    )
    assert out.splitlines() == ["0 2 2 0 0 2", "2 0 0"]


def test_a_thread_without_a_scope_is_led_by_its_stream(run: Callable[..., str], client: Path) -> None:
    """Like autograd's threads, which run in the stream of the forward pass."""
    out = run(
        CLIENT
        + """
import threading
split(64, 32)
gpus()
_abi.redirect_torch()
stream = _abi.logical_stream(1)
def backward():
    client.client_set_stream(stream)
    take(2 * MIB)
thread = threading.Thread(target=backward)
thread.start()
thread.join()
print(live())
with gpuconf.device("GPU:1"):
    take(2 * MIB)
print(live())
""",
        CLIENT=str(client),
        LD_PRELOAD="",  # without the runtime for PyTorch: the client has its own
    )
    assert out.splitlines() == ["[0, 1]", "[0, 2]"]


def test_a_pytorch_that_can_not_be_routed_is_refused(run: Callable[..., str], tmp_path: Path) -> None:
    """A library that is not loaded; and one linked statically with the CUDA runtime, which imports nothing."""
    source = tmp_path / "static.c"
    source.write_text("int nothing;\n")
    library = tmp_path / "libc10_cuda.so"
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", source, "-o", library, "-Wl,-soname,libc10_cuda.so"]
    subprocess.run(command, check=True)
    out = run(f"""
        from gpuconf._core import abi as _abi
        def redirect():
            try:
                _abi.redirect_torch()
            except gpuconf.errors.FailedPreconditionError as error:
                print(error)
        redirect()
        ctypes.CDLL({str(library)!r})
        redirect()
        """)
    first, second = out.splitlines()
    assert "libc10_cuda.so, which is not loaded" in first
    assert "does not call the CUDA runtime as a shared library. Use mode 'whole'" in second


@pytest.mark.parametrize(
    ("variable", "setting", "refused"),
    [
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", True),
        ("PYTORCH_ALLOC_CONF", "max_split_size_mb:512, expandable_segments: True", True),
        ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", True),
        ("PYTORCH_CUDA_ALLOC_CONF", "backend:native,expandable_segments:False", False),
    ],
)
def test_settings_that_bypass_segments_are_refused_before_anything_changes(
    run: Callable[..., str], variable: str, setting: str, refused: bool
) -> None:
    out = run(
        """
        card = gpuconf.config.list_physical_devices("GPU")[0]
        for libraries in ({"torch": "segments"}, {"torch": "whole"}):
            try:
                gpuconf.configure(limit="64MiB", libraries=libraries)
                print("set")
            except gpuconf.errors.FailedPreconditionError as error:
                print(error)
                print(gpuconf.config.get_logical_device_configuration(card))
        """,
        **{variable: setting},
    )
    if refused:
        told, configuration, whole = out.splitlines()
        assert variable in told
        assert "mode 'segments'" in told
        assert (configuration, whole) == ("None", "set")
    else:
        assert out.splitlines() == ["set", "set"]
