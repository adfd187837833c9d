"""Run the Python tests on the arm64 wheel, on an x86-64 machine: ``python tests_py/wheel/arm64.py dist``.

qemu-user translates the instructions of one program and passes its system calls to this machine's kernel, so neither an arm64
machine nor root is needed. Debian's packages are downloaded and unpacked, not installed:

- qemu from bookworm-backports. The table of pages of bookworm's own, 7.2, takes minutes to fill for a simulated card of 80 GB.
- Python 3.11 and the libraries that it needs, for arm64.

``sys.executable`` is a script that starts qemu, so that processes that tests start are arm64 processes, too. Nothing is in
PATH, so tests that need a compiler or another program cannot run. `TESTS` need neither; arguments replace them. Of the files
that were tried, these do not run as a whole:

- test_containers.py needs the program ``unshare``, test_plan.py the program ``gpuconf``, test_errors_travel.py the package
  distributed, test_packing.py OR-tools.
- test_ledger.py and test_threads.py: a wait did not end in time after Ctrl-C, and a process's name under qemu is qemu's.
- test_any_value.py, test_bad_sizes.py, test_lease.py and test_tensors.py take minutes under qemu.
- test_foreign_memory.py gives a process 30 seconds, which it does not meet under qemu on a busy machine.

It needs apt and the list of mirrors of a Debian machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "arm64"
GUEST = WORK / "root"
PYTHON = "3.11"
PACKAGES = [f"python{PYTHON}", f"libpython{PYTHON}-stdlib", f"python{PYTHON}-minimal", "libc6", "libgcc-s1", "libstdc++6"]
TESTS = [
    "tests_py/conformance",
    *(
        f"tests_py/test_{name}.py"
        for name in (
            "buffer",
            "config_messages",
            "constructors",
            "device_arguments",
            "gate",
            "injected",
            "interchange",
            "local_devices",
            "missing_names",
            "placeholders",
            "record",
            "release",
            "session_steps",
            "sessions",
            "simulate",
            "sizes",
            "stacks",
            "tensorflow_root",
            "trace_files",
            "usage",
        )
    ),
]
TOOLS = r'^ *"((?:pytest|pytest-timeout|hypothesis|numpy|cloudpickle|tblib|rich|shtab|prometheus-client)==[^";]*)'


def apt(architecture: str, suite: str) -> list[str]:
    """The options with which apt works in a folder of its own, for a machine and a suite that are not this machine's."""
    home = WORK / f"apt-{architecture}-{suite}"
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "state" / "status").touch()
    mirrors = subprocess.check_output(["apt-get", "indextargets", "--format", "$(REPO_URI)"], text=True).splitlines()
    site = next(mirror for mirror in mirrors if "security" not in mirror)
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (home / "sources.list").write_text(f"deb [signed-by={key}] {site} {suite} main\n")
    settings = {
        "Dir::State": home / "state",
        "Dir::State::status": home / "state" / "status",
        "Dir::Cache": home / "cache",
        "Dir::Etc::sourcelist": home / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }
    options = [f"-o={name}={value}" for name, value in settings.items()]
    subprocess.run(["apt-get", "-qq", *options, "update"], check=True)
    return options


def unpack(architecture: str, suite: str, packages: list[str], into: Path) -> None:
    """Download Debian's packages, with what they depend on, and unpack them."""
    options = apt(architecture, suite)
    archives = WORK / f"apt-{architecture}-{suite}" / "cache" / "archives"
    subprocess.run(["apt-get", "-qq", *options, "--yes", "--download-only", "install", *packages], check=True)
    into.mkdir(parents=True, exist_ok=True)
    for package in archives.glob("*.deb"):
        subprocess.run(["dpkg", "--extract", package, into], check=True)


def emulator() -> Path:
    """qemu, unpacked."""
    folder = WORK / "qemu"
    found = folder / "usr" / "bin" / "qemu-aarch64"
    if not found.exists():
        options = apt("amd64", "bookworm-backports")
        subprocess.run(["apt-get", "-qq", *options, "download", "qemu-user"], check=True, cwd=WORK)
        subprocess.run(["dpkg", "--extract", next(WORK.glob("qemu-user_*.deb")), folder], check=True)
    return found


def interpreter() -> Path:
    """A Python of arm64, as a script of this machine."""
    real = GUEST / "usr" / "bin" / f"python{PYTHON}"
    if not real.exists():
        unpack("arm64", "bookworm", PACKAGES, GUEST)
    # Python finds its library from the place of the script, which is why the script lies beside the real one.
    script = GUEST / "usr" / "bin" / "python-arm64"
    script.write_text(f'#!/bin/sh\nexec "{emulator()}" -L "{GUEST}" -0 "$0" "{real}" "$@"\n')
    script.chmod(0o755)
    return script


def install(wheel: Path, site: Path) -> None:
    """The wheel and what the tests need, unpacked for arm64 by this machine's pip."""
    shutil.rmtree(site, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", site]
    pip += ["--only-binary", ":all:", "--python-version", PYTHON]
    pip += ["--platform", "manylinux_2_28_aarch64", "--platform", "manylinux_2_17_aarch64"]
    tools = {
        tool.partition("==")[0]: tool for tool in reversed(re.findall(TOOLS, (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    }
    subprocess.run([*pip, wheel, *tools.values()], check=True)  # of two NumPys the first, for older Pythons


def main(dist: str, *arguments: str) -> int:
    """Run the tests; pytest's exit status."""
    wheels = list(Path(dist).glob("*_aarch64.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"{dist} should hold one wheel for aarch64, but holds {len(wheels)}: run make wheels")
    python = interpreter()
    install(wheels[0], GUEST / "usr" / "lib" / "python3" / "dist-packages")
    environment = {"HOME": os.environ.get("HOME", "/"), "PATH": str(WORK / "bin"), "LANG": "C.UTF-8"}
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", *(arguments or TESTS)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
