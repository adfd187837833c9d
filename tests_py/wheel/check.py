"""Check the result of `make wheel`: its tag, what it links, and that it works on every available CPython.

    python tests_py/wheel/check.py dist

Not a test module: pytest's tests run in their own environment; this creates new ones.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import licenses
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

LIBRARIES = [
    "gpuconf/_core/_gpuconf.abi3.so",
    "gpuconf/_always/libgpuconf-always.so",
    "gpuconf/_cover/libgpuconf-mapped.so",
    "gpuconf/_guard/libgpuconf-gate.so",
    "gpuconf/_guard/libgpuconf-guard.so",
    "gpuconf/_guard/libgpuconf-preload.so",
    "gpuconf/_simulator/libcuda.so.1",
    "gpuconf/_simulator/libgpuconf-runtime.so",
    "gpuconf/_simulator/libnvidia-ml.so.1",
    "gpuconf/_simulator/link/libcuda.so",
    "gpuconf/_simulator/link/libcuda.so.1",
]

SMOKE = """
import gpuconf as tf
tf.simulate("2xT4")
gpu = tf.config.list_physical_devices("GPU")[0]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=8)])
with tf.memory.allocate(1000, "GPU:0") as buffer:
    buffer.copy_from_host(b"abc")
    assert bytes(buffer.view()[:3]) == b"abc"
    assert tf.config.experimental.get_memory_info("GPU:0") == {"current": 1024, "peak": 1024}
try:
    tf.memory.allocate(9 << 20, "GPU:0")
except MemoryError:
    pass
else:
    raise SystemExit("9 MiB fitted into 8")
tf.reset()
"""


def main(dist: str) -> None:
    """Run all checks; a failure ends the program with a message."""
    wheels, sdists = list(Path(dist).glob("*.whl")), list(Path(dist).glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1:
        raise SystemExit(f"{dist} should hold one wheel and one sdist, but holds {wheels + sdists}")
    check_tag(wheels[0])
    check_licenses(wheels[0])
    check_links(wheels[0])
    check_sdist(sdists[0])
    for interpreter in interpreters():
        smoke(interpreter, wheels[0])


def check_tag(wheel: Path) -> None:
    """One wheel for every CPython from 3.10."""
    if not re.fullmatch(r"gpuconf-[\d.]+-cp310-abi3-linux_(x86_64|aarch64)\.whl", wheel.name):
        raise SystemExit(f"{wheel.name}: the tag should be cp310-abi3-linux_*")
    names = zipfile.ZipFile(wheel).namelist()
    at_root = {name for name in names if "/" not in name}
    if at_root != {"gpuconf_startup.pth", "_gpuconf_startup.py"}:
        raise SystemExit(f"{wheel.name} should not hold {at_root} outside of its package")
    libraries = [name for name in names if name.endswith((".so", ".so.1"))]
    if (
        sorted(libraries) != sorted(LIBRARIES)
        or "gpuconf/py.typed" not in names
        or "gpuconf/include/gpuconf.h" not in names
    ):
        raise SystemExit(f"{wheel.name} does not hold what it should: {names}")
    launcher = next(
        (one for one in zipfile.ZipFile(wheel).infolist() if one.filename == "gpuconf/_cover/gpuconf-cover"), None
    )
    if launcher is None or not launcher.external_attr >> 16 & 0o111:
        raise SystemExit(f"{wheel.name} has no launcher of covers that can be run")
    print(f"{wheel.name}: tag and content are right, {wheel.stat().st_size:,} bytes")


def check_licenses(wheel: Path) -> None:
    """The wheel has the license and the notices of everything that is linked in, and names it in a bill of
    materials.
    """
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        shipped = {
            name.rpartition("/")[2]: archive.read(name).decode() for name in names if "/licenses/LICENSES/" in name
        }
        metadata = archive.read(
            next(name for name in names if re.fullmatch(r"gpuconf-[^/]*.dist-info/METADATA", name))
        ).decode()
        declared = re.search(r"^License-Expression: (.*)$", metadata, re.M)
        wrong = licenses.complaints(
            Path(archive.extract(LIBRARIES[0], folder)), shipped, declared[1] if declared else ""
        )
        bills = [name for name in names if name.endswith(".dist-info/sboms/gpuconf.cdx.json")]
        errors = [JsonStrictValidator(SchemaVersion.V1_6).validate_str(archive.read(name).decode()) for name in bills]
    if errors != [None]:
        raise SystemExit(f"{wheel.name}: the bill of materials {bills} is wrong: {errors}")
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"licenses: {', '.join(sorted(shipped))}")


def check_links(wheel: Path) -> None:
    """Run auditwheel to find the oldest Linux it runs on; it rejects a link to libpython."""
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True, check=False
    )
    found = re.search(r'consistent with the following platform\s+tag:\s+"(\w+)"', " ".join(done.stdout.split()))
    if done.returncode or not found or not found[1].startswith("manylinux"):
        raise SystemExit(f"auditwheel does not like {wheel.name}:\n{done.stdout}{done.stderr}")
    print(f"auditwheel: {found[1]}, no link to libpython")


def interpreters() -> list[str]:
    """Every CPython from 3.10 on PATH and in pyenv, one of each version."""
    places = [*os.environ["PATH"].split(os.pathsep), *glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin"))]
    candidates = [
        sys.executable,
        *(shutil.which(f"python3.{minor}", path=place) for place in places for minor in range(10, 30)),
    ]
    found: dict[str, str] = {}
    for candidate in filter(None, candidates):
        asked = "import sys, venv, ensurepip; print(sys.version_info[:2] >= (3, 10), *sys.version_info[:2])"
        told = subprocess.run([candidate, "-c", asked], capture_output=True, text=True, check=False).stdout.split()
        if told[:1] == ["True"]:
            found.setdefault(".".join(told[1:]), candidate)
    return [found[version] for version in sorted(found, key=lambda v: int(v.split(".")[1]))]


def smoke(interpreter: str, wheel: Path) -> None:
    """Install the wheel alone into a new environment and use it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
        python = os.path.join(folder, "bin", "python")
        pip = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-index",
            str(wheel.resolve()),
        ]
        subprocess.run(pip, check=True)
        subprocess.run([python, "-c", SMOKE], check=True, cwd=folder)
        told = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        print(f"smoke test passed on {told}")


def check_sdist(sdist: Path) -> None:
    """The source archive, of which the wheel was built, has the licenses, the tests and the docs."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    found = {name.rpartition("/")[2] for name in names if name.startswith("LICENSES/")}
    if found != {path.name for path in licenses.FOLDER.iterdir()}:
        raise SystemExit(f"{sdist.name} has other licenses than {licenses.FOLDER}: {sorted(found)}")
    lacking = {
        "Makefile",
        "docs/index.md",
        "tests_py/conftest.py",
        "tests_go/pool/bfc/allocator_test.go",
        "CHANGELOG.md",
    } - names
    if lacking:
        raise SystemExit(f"{sdist.name} lacks {', '.join(sorted(lacking))}")
    print(f"{sdist.name} has what it should")


if __name__ == "__main__":
    main(sys.argv[1])
