# SPDX-License-Identifier: Apache-2.0
"""Record what NVIDIA's user-space drivers answer without a device: `make generate WHAT=driver`.

Debian packages them in its component non-free. They are downloaded into a temporary folder by an own list of sources
and unpacked there. Nothing is installed, and nothing is left. Without root, the driver can't make /dev/nvidia*: as
root, the probing processes run as another user.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from driver import answers, functions, observe  # noqa: E402

MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = ("bookworm", "trixie", "sid", "experimental")

# The package and the beginning of its version, by the driver's branch. The newest version of a branch is taken.
PACKAGES = {
    "470": ("libnvidia-tesla-470-cuda1", "470."),
    "525": ("libnvidia-tesla-cuda1", "525."),
    "535": ("libcuda1", "535."),
    "550": ("libcuda1", "550."),
    "555": ("libcuda1", "555."),
}


class Debian:
    """Debian's packages, with lists of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("parts", "lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        sources = "".join(f"deb [arch=amd64 signed-by={KEYRING}] {MIRROR} {suite} non-free\n" for suite in SUITES)
        (folder / "parts" / "non-free.list").write_text(sources)
        self.apt("apt-get", "update")

    def apt(self, *command: str) -> str:
        """Run apt with this folder in the place of the system's."""
        own = {
            "Dir::Etc::SourceList": "/dev/null",
            "Dir::Etc::SourceParts": self.folder / "parts",
            "Dir::State::Lists": self.folder / "lists",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": self.folder / "cache",
            "APT::Sandbox::User": "root",
        }
        options = [f"--option={key}={value}" for key, value in own.items()]
        done = subprocess.run(
            [command[0], *options, *command[1:]], cwd=self.folder, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def unpack(self, package: str, version: str) -> Path:
        """Return the libcuda.so.1 of the newest package whose version begins so."""
        known = [line.split("|")[1].strip() for line in self.apt("apt-cache", "madison", package).splitlines()]
        fitting = [one for one in known if one.startswith(version)]
        if not fitting:
            sys.exit(f"{MIRROR} has no {package} {version}*, only {', '.join(known) or 'none'}")
        self.apt("apt-get", "download", f"{package}={fitting[0]}")
        target = self.folder / package / version
        target.mkdir(parents=True)
        archive = max(self.folder.glob(f"{package}_{version}*.deb"))
        subprocess.run(["dpkg", "-x", archive, target], check=True)
        return next(
            path for path in target.rglob("libcuda.so.*") if re.fullmatch(r"libcuda\.so\.\d+\.[\d.]+", path.name)
        )


def nodes() -> list[str]:
    """Return the device files of NVIDIA's driver."""
    return sorted(glob.glob("/dev/nvidia*"))


def record(libraries: dict[str, Path], folder: Path) -> dict[str, observe.Observation]:
    """Observe each driver."""
    prober = observe.build_prober(folder)
    exports = {driver: observe.exports_of(library) for driver, library in libraries.items()}
    names = frozenset().union(*exports.values(), names_of_headers())
    # cudbg* is the debugger's interface: not part of CUDA's driver API, and partly data.
    calls = frozenset(name for name in names if not name.startswith("cudbg"))
    seen = {}
    for driver, library in libraries.items():
        print(
            f"{library.name}: asking {len(names)} names, calling {len(calls & exports[driver])} functions", flush=True
        )
        seen[driver] = observe.observe(library, prober, names, calls)
    return seen


def names_of_headers() -> frozenset[str]:
    """Return the names that headers.json has, beyond the drivers'."""
    return frozenset(exported for _, exported, *_ in functions.headers()["forms"])


def main() -> None:
    """Download, observe, and write answers.json."""
    before = nodes()
    with tempfile.TemporaryDirectory(prefix="gpuconf-drivers-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        debian = Debian(folder / "apt")
        libraries = {driver: debian.unpack(*package) for driver, package in PACKAGES.items()}
        seen = record(libraries, folder)
    if nodes() != before:
        sys.exit(f"the driver has made device files: {sorted(set(nodes()) - set(before))}")
    data = answers.merge(seen)
    for driver, library in libraries.items():
        data["drivers"][driver]["library"] = library.name
    committed = answers.Answers(data)
    for driver, one in seen.items():
        again = committed.observation(driver, sorted({name for name, _ in one.resolver}))
        for part in ("exports", "resolver", "calls", "errors"):
            if getattr(again, part) != getattr(one, part):
                sys.exit(f"{driver}: {part} do not follow from what is to be written; answers.py must learn that")
    answers.FILE.write_text(answers.text_of(data))
    results = sum(len(one.calls) for one in seen.values()) * len(observe.WAYS)
    print(f"{answers.FILE.path.name}: {answers.FILE.path.stat().st_size} bytes, {results} results of calls")


if __name__ == "__main__":
    os.umask(0o022)
    main()
