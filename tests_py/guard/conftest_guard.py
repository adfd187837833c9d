"""A CUDA driver of host memory, and programs under a budget over it."""

import os
import runpy
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gpuconf.jobs import budget as _budget
from gpuconf.jobs.budget import Budget

sys.path.insert(0, str(Path(__file__).parents[1]))  # where guard_soak.py is run by itself
import script

ROOT = Path(__file__).parent.parent.parent
CARDS = [
    f"GPU-{0xF0 - 3 * i:02x}ced00d-1234-4567-89ab-cdef012345{i:02x}" for i in range(4)
]  # of tests_go/machine/fakecuda
KIB, MIB = 1 << 10, 1 << 20


def build_driver(folder: Path, version: int = 12040, missing: tuple[str, ...] = ()) -> Path:
    """Build libcuda.so.1 into a folder."""
    folder.mkdir(exist_ok=True)
    runpy.run_path(str(ROOT / "tests_go/machine/fakecuda/build.py"))["build"](folder, version=version, missing=missing)
    return folder


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a driver for CUDA 12.4."""
    return build_driver(tmp_path_factory.mktemp("driver"))


def compile_c(source: Path, output: Path, *flags: str | Path) -> Path:
    """Compile a C program. In C23, an empty list of parameters means that there are none."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run(
        [*compiler, "-std=gnu17", "-w", "-O1", source, "-o", output, *flags, "-ldl", "-lpthread"], check=True
    )
    return output


@pytest.fixture(scope="session")
def client(driver: Path) -> dict[str, Path]:
    """The program of client.c, and the same linked with the driver."""
    source = Path(__file__).parent / "c" / "client.c"
    against = ("-DLINKED", "-Wl,--no-as-needed", driver / "libcuda.so.1")
    return {"": compile_c(source, driver / "client"), "linked": compile_c(source, driver / "linked", *against)}


def environment(driver: Path | None, **more: str) -> dict[str, str]:
    """The environment of a program over a driver, without a budget."""
    kept = script.plain()
    if driver is not None:
        kept["LD_LIBRARY_PATH"] = str(driver)
    return {**kept, "FAKECUDA_MEMORY": str(2048 * MIB), "FAKECUDA_FORKS": "1", **more}


Run = Callable[..., subprocess.CompletedProcess[str]]


class Job:
    """A budget, and programs that run under it."""

    def __init__(self, budget: Budget, base: dict[str, str], prelude: str = "") -> None:
        self.budget, self.prelude = budget, PRELUDE + prelude
        self.environment = {**base, **budget.environment}

    def start(self, *command: str | Path, **more: str) -> subprocess.Popen[str]:
        """Start a program."""
        words = [str(word) for word in command]
        return subprocess.Popen(
            words, env={**self.environment, **more}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def run(self, *command: str | Path, **more: str) -> str:
        """Run a program that must succeed; returns its output."""
        program = self.start(*command, **more)
        out, err = program.communicate(timeout=120)
        assert program.returncode == 0, f"exit {program.returncode}\n{out}\n{err}"
        assert err == "", err
        return out

    def python(self, code: str, **more: str) -> str:
        """Run Python code with ``cuda``, the driver by its usual name."""
        return self.run(sys.executable, "-c", self.prelude + textwrap.dedent(code), **more)

    def told(self, code: str) -> list[str]:
        """The lines that Python code prints, after which nothing is in use or logged."""
        lines = self.python(code).splitlines()
        assert (self.used(), self.budget.log()) == (0, [])
        return lines

    def used(self, card: str = CARDS[0]) -> int:
        """Bytes in use by living processes."""
        return self.budget.usage()[card].used


PRELUDE = """
import ctypes, os, sys
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
KIB, MIB = 1 << 10, 1 << 20
def begin(device=0):
    context = c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(byref(context), device) == 0 and cuda.cuCtxSetCurrent(context) == 0
    return context
def allocate(bytes):
    address = c_uint64()
    result = cuda.cuMemAlloc_v2(byref(address), c_size_t(bytes))
    return result, address.value
def free(address):
    return cuda.cuMemFree_v2(c_uint64(address))
def info():
    free, total = c_size_t(), c_size_t()
    assert cuda.cuMemGetInfo_v2(byref(free), byref(total)) == 0
    return free.value, total.value
"""


@contextmanager
def job(
    driver: Path | None,
    limits: dict[str, int] | int,
    mode: str = "proxy",
    command: tuple[str, ...] = (),
    prelude: str = "",
    **more: str,
) -> Iterator[Job]:
    """A job whose first card has the limit, or with a limit for each card; its Python code follows the prelude."""
    if isinstance(limits, int):
        limits = {CARDS[0]: limits}
    base = environment(driver, **more)
    with _budget.prepare(limits, mode, environment=base, command=command) as budget:
        yield Job(budget, base, prelude)
