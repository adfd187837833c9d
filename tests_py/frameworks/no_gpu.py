"""The real libraries on a machine without a GPU.

gpuconf and Numba run on the CUDA driver of tests_go/machine/fakecuda, PyTorch on that and the runtime that gpuconf
ships for simulated GPUs. It is loaded before the program, as CUDA's own libraries would be, so nothing in the process
knows that its GPU is simulated. Memory, streams and events work; kernels compute nothing. So ownership of memory,
accounting and errors are real.
"""

import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import gpuconf
from gpuconf._core import elf
from gpuconf.allocators._share import SETS
from gpuconf.simulation import simulated_torch, stand_ins

sys.path.insert(0, str(Path(__file__).parents[1]))  # where gpu/frameworks.py runs it
import script

HERE = Path(__file__).parent
QUIET = {"CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING": "1"}  # what numba-cuda says as it starts
FIRST_CARD = "GPU-f0ced00d-1234-4567-89ab-cdef01234500"
NEWEST_TORCH = list(SETS.values())[-1]["torch"]  # README and docs/tutorial.md have its figures
FAKECUDA = HERE.parent.parent / "tests_go" / "machine" / "fakecuda"

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

# Opens the empty libraries in the names of CUDA's, so that PyTorch finds these loaded.
RUNTIME = """
#include <dlfcn.h>
void gpuconf_runtime_versions(int cuda, int cudnn, int nccl, int cublas);
__attribute__((constructor)) static void begin(void) { gpuconf_runtime_versions%s; %s }
"""

# PyTorch's thread for the backward pass drops the pass's Python objects after backward() has returned. If Python has
# begun to end by then, versions before 3.14 end a thread that requests the GIL by pthread_exit(), which unwinds through
# a C++ destructor, and that aborts the process: in 3 of 12 runs, without gpuconf, too.
_NO_EXIT = """
import os, sys
sys.stdout.flush()
os._exit(0)
"""


def torch_folder() -> Path | None:
    """The library folder of a PyTorch that is built for CUDA, if there is one. PyTorch is not imported."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "lib"
    return folder if (folder / "libtorch_cuda.so").exists() else None


def build(folder: Path) -> None:
    """Build the driver into ``folder``, and for a PyTorch ``runtime.so``, to preload: the shipped runtime over that
    driver.
    """
    runpy.run_path(str(FAKECUDA / "build.py"))["build"](folder)
    hide(folder / "libnvidia-ml.so.1")  # on a machine with a GPU, the real one would name other cards
    libraries = torch_folder()
    if libraries is None:
        return
    needed = {name for path in simulated_torch.libraries_of(str(libraries)) for name in elf.needs(path)[0]}
    empty = [folder / "cuda" / name for name in needed if re.match(stand_ins.CUDA, name)]
    (folder / "cuda").mkdir()
    for path in empty:
        path.write_bytes(elf.library(path.name, ["libgpuconf-runtime.so"]))
    source, versions = folder / "runtime.c", simulated_torch._versions(str(libraries))
    source.write_text(RUNTIME % (versions, "".join(f'dlopen("{path}", RTLD_NOW | RTLD_GLOBAL);' for path in empty)))
    shipped = Path(gpuconf.__file__).parent / "_simulator"
    linked = [
        folder / "libcuda.so.1",
        shipped / "libgpuconf-runtime.so",
        f"-Wl,--enable-new-dtags,-rpath,{folder}:{shipped}",
    ]
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", source, "-o", folder / "runtime.so"]
    subprocess.run([*command, "-Wl,--no-as-needed", *linked, "-ldl"], check=True)


def hide(library: Path) -> None:
    """A library that is found in place of the machine's own and does not load, because it needs one that is missing."""
    needed = library.with_name("a_missing_library.so")
    linked = [os.environ.get("CC", "cc"), "-shared", "-x", "c", os.devnull, "-x", "none"]
    subprocess.run([*linked, f"-Wl,-soname,{needed.name}", "-o", needed], check=True)
    subprocess.run([*linked, "-Wl,--no-as-needed", needed, "-o", library], check=True)
    needed.unlink()


def run(folder: Path, program: str, **environment: str) -> str:
    """Run a program on the fake GPU; it must succeed. Returns its output."""
    done = completed(folder, textwrap.dedent(program) + (_NO_EXIT if ".backward()" in program else ""), **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def completed(folder: Path, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program on the fake GPU; it may fail."""
    if (folder / "runtime.so").exists():
        environment = {"LD_PRELOAD": str(folder / "runtime.so"), **environment}
    return script.completed(
        [sys.executable, "-W", "ignore", "-c", PRELUDE + textwrap.dedent(program)],
        env={**script.plain(), **QUIET, "LD_LIBRARY_PATH": str(folder), **environment},
        timeout=120,
    )


def printed(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines of a rehearsed program, whose output is on standard error beside gpuconf's own lines."""
    return [line for line in done.stderr.splitlines() if not line.startswith("gpuconf plan: ")]


def under_guard(
    folder: Path, mode: str, limit: int, *words: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with these words under the guard, with a limit in bytes on a card of 2 GiB; mode "off" is without the
    guard.
    """
    from gpuconf.jobs import budget as _budget

    base = script.plain()
    base |= {
        "LD_LIBRARY_PATH": str(folder),
        "FAKECUDA_MEMORY": str(2 << 30),
        **QUIET,
    }
    if (folder / "runtime.so").exists():
        base["LD_PRELOAD"] = str(folder / "runtime.so")
    base |= environment
    command = [sys.executable, "-W", "ignore", *map(str, words)]
    if mode == "off":
        return script.completed(command, env=base, timeout=170)
    with _budget.prepare({FIRST_CARD: limit}, mode, environment=base) as budget:
        done = script.completed(command, env={**base, **budget.environment}, timeout=170)
        assert budget.log() == []
        assert budget.usage()[FIRST_CARD].used == 0
    return done


def planned(
    folder: Path, program: str, *options: str, words: tuple[str, ...] = ("train.py",), timeout: float = 170
) -> subprocess.CompletedProcess[str]:
    """Run ``gpuconf plan`` with a program, which is train.py in a folder."""
    (folder / "train.py").write_text(textwrap.dedent(program), encoding="utf-8")
    environment = script.plain()
    environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + environment["PATH"]  # `python` is this one
    command = [sys.executable, "-m", "gpuconf", "plan", *options, "--", *words]
    return script.completed(command, timeout=timeout, cwd=folder, env=environment)


def answer(folder: Path, program: str, *options: str, **how: Any) -> dict[str, Any]:
    """What ``gpuconf plan --json`` says of a program."""
    done = planned(folder, program, "--json", *options, **how)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
