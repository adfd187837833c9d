# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of gpuconf find the simulated driver and NVML under ``gpuconf run --simulate`` by their
names.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gpuconf
import pytest
import script
import simulator_sources
from gpuconf import errors
from gpuconf._core import elf
from gpuconf.leases import environment as _environment

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "tests_py" / "clients"
FOLDER = Path(gpuconf.__file__).parent / "_simulator"
RUN = [sys.executable, "-m", "gpuconf", "run", "--simulate", "2xA100-40GB"]
CARD = "NVIDIA A100-SXM4-40GB"


def plain() -> dict[str, str]:
    return script.plain()


def run(*words: object, **environment: str) -> str:
    return script.printed([*RUN, *map(str, words)], env={**plain(), **environment}, timeout=120)


def in_c(folder: Path) -> None:
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, "-o", folder / "client", CLIENTS / "client.c", "-ldl"], check=True)


def in_rust(folder: Path) -> None:
    if not simulator_sources.rust():
        pytest.skip("there is no Rust compiler")
    subprocess.run(["rustc", "-o", folder / "client", CLIENTS / "client.rs"], check=True)


def in_go(folder: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("there is no go")
    subprocess.run(
        ["go", "build", "-buildvcs=false", "-o", folder / "client", "./tests_py/clients/go"], cwd=ROOT, check=True
    )


@pytest.mark.parametrize("build", [in_c, in_rust, in_go])
def test_a_program_of_another_language(build: Callable[[Path], None], tmp_path: Path) -> None:
    build(tmp_path)
    cuda, nvml = run("--", tmp_path / "client").splitlines()
    assert cuda == f"cuda: 2 x {CARD}, 40339 MiB, 1024 MiB in use, written, 2"
    assert nvml.startswith(f"nvml: 2 x {CARD}, 40960 MiB, ")
    used = int(nvml.split(", ")[2].split()[0])
    assert used >= 1024, "NVML counts the program's memory"


def test_a_program_below_a_lease_finds_them_too() -> None:
    code = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0), ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2())"
    assert run("--memory", "1GiB", sys.executable, "-I", "-c", code) == "0 0\n"


@pytest.mark.parametrize("before", ["", ":", "::/a:", "/a;;", f"{FOLDER}:/a"])
def test_no_empty_element_enters_the_loaders_path(before: str) -> None:
    told = run("--", "/bin/sh", "-c", 'echo "$LD_LIBRARY_PATH"', LD_LIBRARY_PATH=before).rstrip("\n")
    assert told == ":".join([str(FOLDER), *(["/a"] if "/a" in before else [])])
    assert FOLDER.is_absolute()


def test_a_folder_that_the_loader_would_split(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in "/x:y/_simulator", "/x;y/_simulator", "/$LIB/_simulator":
        monkeypatch.setattr(_environment, "SIMULATOR", wrong)
        with pytest.raises(errors.FailedPreconditionError, match="Install gpuconf in a folder without it"):
            _environment.loader_path({})


def test_this_process_and_its_lease_leave_the_path_alone() -> None:
    assert "LD_LIBRARY_PATH" not in _environment.of_process([], 1 << 30, "T4")
    assert "LD_LIBRARY_PATH" not in _environment.of_program([], 1 << 30)


@pytest.mark.parametrize("library", ["cuda", ":libcuda.so.1"])
def test_a_linker_finds_the_driver(tmp_path: Path, library: str) -> None:
    """As Triton calls it.

    What it links must need a driver by the name that NVIDIA's has: it is kept for machines with a GPU.
    """
    source = "int cuInit(unsigned flags); int begin(void) { return cuInit(0); }"
    output = tmp_path / "linked.so"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    command = [*compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(output), f"-L{FOLDER / 'link'}", f"-l{library}"]
    subprocess.run(command, input=source, text=True, check=True, cwd=tmp_path)
    assert "libcuda.so.1" in elf.needs(str(output))[0]
