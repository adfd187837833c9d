"""Real PyTorch on a machine without a GPU: over the CUDA driver of tests_go/fakecuda and the CUDA runtime of cuda_runtime.c."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).parent
FAKECUDA = HERE.parent.parent / "tests_go" / "fakecuda"

PRELUDE = """
import ctypes
import gpuconf
driver = ctypes.CDLL("libcuda.so.1")
driver.fakecuda_count.argtypes = driver.fakecuda_live.argtypes = [ctypes.c_char_p]
driver.fakecuda_count.restype = ctypes.c_ulong
MIB = 1 << 20
def taken_beside_gpuconf():
    return driver.fakecuda_live(b"allocations") - sum(len(gpuconf.memory.memory_map(d.name).regions) for d in gpus())
def gpus():
    return gpuconf.config.list_logical_devices("GPU")
def live():
    return [gpuconf.memory.stats(d.name).live_blocks for d in gpus()]
def split(*limits):
    card = gpuconf.config.list_physical_devices("GPU")[0]
    gpuconf.config.set_logical_device_configuration(
        card, [gpuconf.config.LogicalDeviceConfiguration(memory_limit=limit) for limit in limits])
"""


def torch_folder() -> Path | None:
    """Where a PyTorch that is built for CUDA keeps its libraries, if there is one. It is not imported."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "lib"
    return folder if (folder / "libtorch_cuda.so").exists() else None


# What PyTorch asks the driver itself, and what the driver of tests_go/fakecuda has no need of.
DRIVER = """
int cuDevicePrimaryCtxGetState(int d, unsigned *flags, int *active) { (void)d; *flags = 0; *active = 1; return 0; }
int cuGetErrorString(int error, const char **text) { (void)error; *text = "an error"; return 0; }
"""


def build(folder: Path) -> None:
    """Put both libraries into ``folder``, with a function that says success for each that PyTorch wants and they lack."""
    libraries = torch_folder()
    assert libraries is not None
    runtime, asked = set(), set()
    for name in ("libc10_cuda.so", "libtorch_cuda.so", "libtorch_python.so", "libcaffe2_nvrtc.so"):
        command = ["nm", "-D", "--undefined-only", libraries / name]
        imported = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        runtime.update(re.findall(r" U (cuda[A-Z]\w+)", imported))
        asked.update(re.findall(r" U (cu[A-Z]\w+)", imported))
    asked.update(name.decode() for name in re.findall(rb"\0(cu[A-Z]\w+)(?=\0)", (libraries / "libc10_cuda.so").read_bytes()))
    driver = folder / "driver.c"
    has = set(re.findall(r"\b(cu[A-Z]\w+)\(", DRIVER + "".join(path.read_text() for path in FAKECUDA.glob("libcuda/*.c"))))
    driver.write_text(_visible(DRIVER) + _stubs(asked - has))
    build_driver = runpy.run_path(str(FAKECUDA / "build.py"))["build"]
    build_driver(folder, extra=(driver,))
    source = (HERE / "cuda_runtime.c").read_text()
    has = set(re.findall(r"^int (cuda\w+)\(", source, re.M))
    (folder / "runtime.c").write_text(source + _stubs(runtime - has))
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-w", "-shared", "-fPIC", folder / "runtime.c", "-o", folder / "runtime.so", "-ldl"], check=True)


def _stubs(names: set[str]) -> str:
    return _visible("".join(f"int {name}(void);\nint {name}(void) {{ return 0; }}\n" for name in sorted(names)))


def _visible(source: str) -> str:
    return f"#pragma GCC visibility push(default)\n{source}#pragma GCC visibility pop\n"


def run(folder: Path, program: str, **environment: str) -> str:
    """Run a program with PyTorch on the GPU that isn't there; it must end well. Gives what it printed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPUCONF_", "TF_", "CUDA_", "FAKECUDA_", "PYTORCH_", "LD_"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRELUDE + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        env={**kept, "LD_LIBRARY_PATH": str(folder), "LD_PRELOAD": str(folder / "runtime.so"), **environment},
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
