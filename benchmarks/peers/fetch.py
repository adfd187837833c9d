"""Download the other allocators from where they are published, and build each as a shared object behind cpp/peer.h.

A peer that is not available is not an error: the reason becomes its row. All files are written to the environment that
this runs in, not to the tree.
"""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILT = Path(sys.prefix) / "peers"
WHEELS = Path(sysconfig.get_path("platlib"))

RMM = ("librmm-cu13==26.10.0", "nvidia-cuda-runtime==13.5.37", "nvidia-cuda-crt==13.5.37")
RMM_LOGGER = "rapids-logger==0.3.0"
CRATES = ("offset-allocator", "vk-mem", "rlsf")
MIMALLOC_PACKAGES = ("libmimalloc2.0", "libmimalloc3", "libmimalloc2.2")


class MissingError(Exception):
    """The reason why a peer is not available."""


@dataclass
class Peer:
    """A shared object with contenders, or the reason why there is none."""

    contenders: tuple[str, ...]
    source: str
    version: str = ""
    path: Path | None = None
    missing: str = ""


def get_all(progress: Callable[[str], None]) -> list[Peer]:
    """Get every available peer."""
    BUILT.mkdir(exist_ok=True)
    peers = [
        (_torch_shape, Peer(("torch's shape", "torch's shape, expandable"), "written here from its published design")),
        (_tensorflow, Peer(("TensorFlow's BFCAllocator",), "the wheel tensorflow-cpu")),
        (_rmm, Peer(("RMM's free list",), "headers of the wheel librmm-cu13")),
        (
            _crates,
            Peer(
                ("offset-allocator", "Vulkan Memory Allocator", "rlsf (TLSF)"),
                "the crates offset-allocator, vk-mem and rlsf",
            ),
        ),
        (_rmm_arena, Peer(("RMM's arena",), "the library of the wheel librmm-cu13")),
        # Last: its library replaces malloc for what is loaded after it.
        (_mimalloc, Peer(("mimalloc",), "a package of Debian")),
    ]
    for get, peer in peers:
        progress(f"getting {', '.join(peer.contenders)}: {peer.source}")
        try:
            peer.path, peer.version = get()
        except MissingError as why:
            peer.missing = str(why)
            progress(f"  left out: {why}")
    return [peer for _, peer in peers]


def _torch_shape() -> tuple[Path, str]:
    return _cpp("torch_shape.cc", []), "its design of 2026"


def _tensorflow() -> tuple[Path, str]:
    pinned = re.search(
        r"^tensorflow-cpu==\S+", (ROOT / "tests_py" / "oracle" / "requirements" / "requirements.txt").read_text(), re.M
    )
    assert pinned, "the oracle's requirements name no tensorflow-cpu"
    _pip(pinned[0])
    folder = WHEELS / "tensorflow"
    flags = ["-D_GLIBCXX_USE_CXX11_ABI=1", "-DEIGEN_MAX_ALIGN_BYTES=64", "-Wno-deprecated-declarations"]
    flags += [
        "-isystem",
        str(folder / "include"),
        f"-L{folder}",
        "-l:libtensorflow_framework.so.2",
        f"-Wl,-rpath,{folder}",
    ]
    return _cpp("tensorflow.cc", flags), pinned[0].replace("==", " ")


def _rmm() -> tuple[Path, str]:
    for wheel in RMM:
        _pip(wheel)
    return _cpp("rmm.cc", _rmm_headers()), RMM[0].replace("==", " ")


def _rmm_headers() -> list[str]:
    headers = WHEELS / "librmm" / "include"
    folders = [headers, headers / "rapids", WHEELS / "nvidia" / "cu13" / "include"]
    return [part for folder in folders for part in ("-isystem", str(folder))]


def _rmm_arena() -> tuple[Path, str]:
    for wheel in (*RMM, RMM_LOGGER):
        _pip(wheel)
    logger = WHEELS / "rapids_logger"
    flags = ["-std=c++20", *_rmm_headers(), "-isystem", str(logger / "include"), "-Wl,--no-as-needed"]
    for library in (logger / "lib64" / "librapids_logger.so", WHEELS / "librmm" / "lib64" / "librmm.so"):
        flags += [f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}"]
    return _cpp("rmm_arena.cc", flags), RMM[0].replace("==", " ")


def _crates() -> tuple[Path, str]:
    cargo = shutil.which("cargo")
    if cargo is None:
        raise MissingError("there is no cargo here (Rust's package manager)")
    manifest = HERE / "crates" / "Cargo.toml"
    target = BUILT / "crates"
    _run(
        [
            cargo,
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--manifest-path",
            str(manifest),
            "--target-dir",
            str(target),
        ]
    )
    pinned = re.findall(r'^([\w-]+) = "=(.+)"', manifest.read_text(), re.M)
    return target / "release" / "libpeers.so", ", ".join(
        f"{name} {version}" for name, version in pinned if name in CRATES
    )


def _mimalloc() -> tuple[Path, str]:
    library, version = _installed_mimalloc() or _debian_mimalloc()
    flags = [f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}"]
    return _cpp("mimalloc.cc", flags), version


def _installed_mimalloc() -> tuple[Path, str] | None:
    name = ctypes.util.find_library("mimalloc")
    for folder in ("/usr/lib", "/usr/lib64", "/usr/local/lib", f"/usr/lib/{os.uname().machine}-linux-gnu"):
        if name and Path(folder, name).exists():
            return Path(folder, name), f"{Path(folder, name).resolve().name}, as it is installed"
    return None


def _debian_mimalloc() -> tuple[Path, str]:
    """Unpack the package; installing it would need root."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise MissingError(
            "libmimalloc is not installed, and without apt-get and dpkg-deb there is no package to unpack"
        )
    folder = BUILT / "mimalloc"
    folder.mkdir(exist_ok=True)
    why = MissingError("no package")
    for package in MIMALLOC_PACKAGES:
        try:
            found = list(folder.glob(f"{package}_*.deb"))
            if not found:
                _run(["apt-get", "download", "--quiet", package], cwd=folder)
                found = list(folder.glob(f"{package}_*.deb"))
            _run(["dpkg-deb", "-x", str(found[0]), str(folder)])
        except MissingError as error:
            why = error
            continue
        library = next(folder.glob("usr/lib/*/libmimalloc.so.?"))
        version = subprocess.run(
            ["dpkg-deb", "-f", str(found[0]), "Version"], capture_output=True, text=True, check=True
        ).stdout.strip()
        return library, f"{package} {version}"
    raise why


def _cpp(source: str, flags: list[str]) -> Path:
    """Compile a C++ file of this folder."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise MissingError("there is no C++ compiler here")
    target = BUILT / Path(source).with_suffix(".so").name
    usual = ["-std=c++17", "-O3", "-DNDEBUG", "-shared", "-fPIC"]
    _run([compiler, *usual, str(HERE / "cpp" / source), "-o", str(target), *flags])
    return target


def _pip(wheel: str) -> None:
    """Install one wheel without its dependencies: only its headers and libraries are used."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary",
        ":all:",
    ]
    _run([*pip, wheel])


def _run(command: list[str], cwd: Path | None = None) -> None:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except OSError as error:
        raise MissingError(f"{command[0]} can't be run: {error.strerror}") from None
    if done.returncode:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        reason = next((line for line in said if "error" in line.lower()), said[-1] if said else "nothing")
        words = [Path(command[0]).name, *(word for word in command[1:] if not word.startswith("-"))][:3]
        raise MissingError(f"`{' '.join(Path(word).name for word in words)}` failed and said: {reason[:160]}")


def go_program() -> Path:
    """Build the program that runs them all, with the profile that gpuconf itself is built with."""
    target = BUILT / "peers"
    go = shutil.which("go")
    if go is None:
        sys.exit("there is no Go here: make bench WHAT=allocator gets one where it is missing")
    command = [go, "build", "-pgo=pybind/_gpuconf/default.pgo", "-o", str(target), "./benchmarks/peers"]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "CGO_ENABLED": "1"})
    return target
