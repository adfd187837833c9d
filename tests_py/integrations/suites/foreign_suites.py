"""Runs the test suites of other projects with and without gpuconf's pytest plugin, and compares every outcome.

    python tests_py/integrations/suites/foreign_suites.py FOLDER [SUITE...]

Each suite runs four times: without gpuconf, with it, and both with four workers of pytest-xdist; suites for GPUs run in
one process only. The outcome of each test, the exit code and the summary's last line must be the same. FOLDER keeps an
environment of its own and the suites, which are fetched from the package index and from GitHub; a git directory
FOLDER/git/OWNER+NAME/repo is used instead, if it is there. What differs is printed, and the suite runs again; the
process exits with 1 if it differs
again.
"""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "foreign_suites.txt"
GPU_SET = HERE.parents[1] / "frameworks" / "requirements" / "torch-2.15-cuda13.txt"
GPU_LIBRARIES = re.findall(r"^(?:torch|cupy-cuda13x|numba-cuda)==.+", GPU_SET.read_text(), re.MULTILINE)
GPU_REQUIREMENTS = HERE / "foreign_gpu_suites.txt"
TIMEOUT_S = 1800
# A suite whose outcomes differ runs again, because tests of sockets and times fail now and then without gpuconf, too.
TRIES = 2
# Plugins that the suites do not use, in an environment that has them.
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:benchmark", "-p", "no:rerunfailures")


class Suite(NamedTuple):
    """A suite, and how to run it."""

    name: str
    sdist: str = ""  # the requirement whose source distribution has the tests; "": they are in the installed package
    repository: str = ""  # or the repository on GitHub that has them
    take: tuple[str, ...] = ()  # the paths of it that are needed
    options: tuple[str, ...] = ()
    folder: str = "."  # in which pytest runs
    gpu: bool = False  # needs the environment with PyTorch and CuPy


WHOLE = [
    Suite("attrs", sdist="attrs==26.1.0", options=("tests",)),
    Suite("click", sdist="click==8.5.1", options=("tests",)),
    # Which need a network.
    Suite("requests", sdist="requests==2.34.2", options=("tests", "-k", "not timeout and not Timeout")),
    # Without IPv6, sockets that its tests leave to the garbage collector fail some later test, now one and now another.
    # On a busy machine a test takes longer than the 20 s that anyio allows it.
    Suite(
        "anyio",
        sdist="anyio==4.16.0",
        options=(
            "tests",
            "-k",
            "not getaddrinfo and not getnameinfo and not interrupt and not ipv6 and not does_not_hang",
            "-o",
            "timeout=300",
        ),
    ),
    Suite("pluggy", sdist="pluggy==1.7.0", options=("testing", "--ignore=testing/benchmark.py")),
    Suite(
        "pytest",
        sdist="pytest==9.2.0",
        options=tuple(f"testing/{name}" for name in ("test_mark.py", "test_skipping.py", "python")),
    ),
    Suite("networkx", options=("--pyargs", "networkx.classes", "networkx.utils", "networkx.algorithms.shortest_paths")),
    Suite("numpy", options=("--pyargs", "numpy.lib", "-m", "not slow")),
    Suite("scipy", options=("--pyargs", "scipy.cluster", "scipy.fft", "-m", "not slow")),
    Suite(
        "pandas",
        options=("--pyargs", "pandas.tests.indexes.ranges", "pandas.tests.util", "pandas.tests.arrays.boolean"),
    ),
]
# Suites with marks, fixtures and options for GPUs, on a machine without one. Where a suite needs its package as the
# repository has it, pytest runs in the folder in which Python finds it.
# (repository, the paths of it that are needed, in which folder pytest runs, its arguments)
_GPU = {
    "torchmetrics": (
        "Lightning-AI/torchmetrics",
        ["src", "tests/unittests"],
        "src",
        ["../tests/unittests/bases/test_metric.py"],
    ),
    "lightning": ("Lightning-AI/pytorch-lightning", ["tests/tests_fabric"], "tests", ["tests_fabric/accelerators"]),
    "cupy": ("cupy/cupy", ["tests", "pyproject.toml"], ".", ["tests/cupy_tests/testing_tests"]),
    "kornia": (
        "kornia/kornia",
        ["conftest.py", "tests", "testing", "pyproject.toml"],
        ".",
        ["tests/core/test_check.py", "--device=cpu"],
    ),
    "monai": ("Project-MONAI/MONAI", ["monai", "tests", "setup.cfg"], ".", ["tests/losses/test_dice_loss.py"]),
    "scipy-arrays": ("scipy/scipy", ["pytest.ini"], ".", ["--pyargs", "scipy.fft.tests.test_helper"]),
    "composer": (
        "mosaicml/composer",
        ["tests", "pyproject.toml", "composer"],
        ".",
        ["-o", "addopts=", "tests/test_time.py", "tests/algorithms/test_ema.py"],
    ),
    "distributed": (
        "dask/distributed",
        ["conftest.py", "distributed", "pyproject.toml"],
        ".",
        [f"distributed/{name}" for name in ("diagnostics/tests/test_nvml.py", "protocol/tests/test_cupy.py")],
    ),
    "ignite": ("pytorch/ignite", ["ignite", "tests", "pyproject.toml"], ".", ["tests/ignite/metrics/test_metric.py"]),
    "transformers": (
        "huggingface/transformers",
        ["conftest.py", "tests"],
        ".",
        [
            f"tests/{name}.py"
            for name in ("test_monkey_patching", "utils/test_expectations", "utils/test_skip_decorators")
        ],
    ),
    "deepspeed": (
        "deepspeedai/DeepSpeed",
        ["accelerator", "deepspeed", "op_builder", "tests", "version.txt"],
        ".",
        [
            "tests/unit/runtime/zero/test_zero_config.py",
            "tests/unit/runtime/sparse_tensor/test_csr.py",
            "tests/unit/utils/test_groups.py",
        ],
    ),
    "pyg": (
        "pyg-team/pytorch_geometric",
        ["test", "torch_geometric", "pyproject.toml"],
        ".",
        [f"test/{name}.py" for name in ("utils/test_scatter", "nn/conv/test_gcn_conv", "nn/conv/test_sage_conv")],
    ),
    "pyro": (
        "pyro-ppl/pyro",
        ["pyro", "tests", "setup.cfg"],
        ".",
        ["tests/ops/test_linalg.py", "tests/nn/test_module.py"],
    ),
    "botorch": ("pytorch/botorch", ["botorch", "test", "pyproject.toml"], ".", ["test/utils/test_transforms.py"]),
    "thinc": ("explosion/thinc", ["thinc/tests"], ".", ["thinc/tests/model/test_model.py", "--slow"]),
}
GPU = [
    Suite(name, repository=repository, take=tuple(take), folder=folder, options=tuple(options), gpu=True)
    for name, (repository, take, folder, options) in _GPU.items()
]
SUITES = {suite.name: suite for suite in WHOLE + GPU}


class Outcome(NamedTuple):
    """How a run ended."""

    code: int
    summary: str  # the last line, without the time
    tests: dict[str, list[str]]


def environment(place: Path, *installs: Sequence[str]) -> Path:
    """Return the interpreter of an environment. A new one is made with a run of pip for each list of arguments."""
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        for arguments in installs:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *arguments], check=True)
    return python


def python_of(folder: Path, gpu: bool) -> Path:
    """Return the interpreter of one of the folder's environments, which have the suites' requirements and not
    gpuconf.
    """
    installs = ["-r", str(REQUIREMENTS)]
    if gpu:
        return environment(folder / "venv-gpu", [*installs, *GPU_LIBRARIES], ["--no-deps", "-r", str(GPU_REQUIREMENTS)])
    return environment(folder / "venv", installs)


def link_gpuconf(folder: Path) -> Path:
    """Link the installed gpuconf into a folder of its own, which a run may have on its path or not."""
    place = folder / "gpuconf"
    place.mkdir(exist_ok=True)
    distribution = importlib.metadata.distribution("gpuconf")
    for name in {Path(str(file)).parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
        link = place / name
        link.unlink(missing_ok=True)
        link.symlink_to(Path(str(distribution.locate_file(name))).resolve())
    return place


def fetch(folder: Path, suite: Suite, python: Path) -> Path:
    """Return the folder in which pytest runs a suite."""
    place = folder / "suites" / suite.name
    if not place.exists():
        place.mkdir(parents=True)
        # So that suites without a configuration have none, not that of a folder above.
        (place.parent / "pytest.ini").touch()
        if suite.sdist:
            name = suite.sdist.partition("==")[0]
            into = folder / "sdists"
            pip = [
                python,
                *"-m pip download --quiet --no-deps --no-binary".split(),
                name,
                "--dest",
                str(into),
                suite.sdist,
            ]
            if not list(into.glob(f"{name}-*.tar.gz")):
                subprocess.run(pip, check=True)
            with tarfile.open(next(into.glob(f"{name}-*.tar.gz"))) as archive:
                archive.extractall(place, filter="data")
            return next(place.iterdir())
        if suite.repository:
            git = folder / "git" / suite.repository.replace("/", "+") / "repo"
            if not git.exists():
                url = f"https://github.com/{suite.repository}"
                subprocess.run(["git", "clone", "--quiet", "--bare", "--depth=1", url, str(git)], check=True)
            archived = subprocess.run(
                ["git", "archive", "HEAD", *suite.take], cwd=git, check=True, stdout=subprocess.PIPE
            )
            subprocess.run(["tar", "-x", "-C", str(place)], input=archived.stdout, check=True)
    return next(place.iterdir()) if suite.sdist else place / suite.folder


class Phase(NamedTuple):
    """The outcome of a phase of a test, and the last line of what it raised."""

    phase: str
    error: str


def outcomes_in(results: Path) -> dict[str, list[Phase]]:
    """Return what foreign_outcomes.py has written of each test so far."""
    found: dict[str, list[Phase]] = {}
    for line in results.read_text().splitlines() if results.exists() else ():
        name, *rest = json.loads(line)
        found.setdefault(name, []).append(Phase(*rest))
    return found


def run(python: Path, place: Path, suite: Suite, paths: list[Path], *options: str) -> Outcome:
    """Run a suite once."""
    results = place / "outcomes.json"
    results.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [*paths, HERE])),
        "FOREIGN_OUTCOMES": str(results),
    }
    environment.pop("GPUCONF_SIMULATE", None)
    done = subprocess.run(
        [str(python), "-m", "pytest", *OPTIONS, "-p", "foreign_outcomes", *suite.options, *options],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    (place / f"output{'-gpuconf' if paths else ''}{'-xdist' if '-n' in options else ''}.txt").write_text(
        done.stdout + done.stderr
    )
    lines = done.stdout.strip().splitlines()
    last = re.sub(r"\x1b\[[0-9;]*m", "", lines[-1]) if lines else ""  # without colors
    summary = re.sub(r" in \d.*", "", last.strip("= ")) if lines else done.stderr.strip()[-300:]
    return Outcome(
        done.returncode, summary, {name: [one.phase for one in came] for name, came in outcomes_in(results).items()}
    )


def differences(one: Outcome, other: Outcome) -> list[str]:
    """Return what differs between two runs."""
    found = [] if one.tests else ["no test ran: see output.txt of the suite"]
    if one.code != other.code:
        found.append(f"exit code {one.code}, with gpuconf {other.code}")
    if one.summary != other.summary:
        found.append(f"{one.summary!r}, with gpuconf {other.summary!r}")
    for name in sorted(one.tests.keys() | other.tests.keys()):
        if one.tests.get(name) != other.tests.get(name):
            found.append(f"{name}: {one.tests.get(name)}, with gpuconf {other.tests.get(name)}")
    return found


def compare(folder: Path, suite: Suite, python: Path, gpuconf: Path) -> int:
    """Run a suite in all ways and print what came. Return the number of differences."""
    place = fetch(folder, suite, python)
    count = 0
    for options in ((),) if suite.gpu else ((), ("-n", "4")):
        how = " ".join(options) or "one process"
        for _ in range(TRIES):
            without = run(python, place, suite, [], *options)
            found = differences(without, run(python, place, suite, [gpuconf], *options))
            print(
                f"{suite.name}, {how}: {len(without.tests)} tests, exit code {without.code}, {without.summary}",
                flush=True,
            )
            print("".join(f"    {line}\n" for line in found[:20]) or "    the same with gpuconf\n", end="", flush=True)
            if not found or not without.tests:
                break
        count += len(found)
    return count


def main() -> int:
    """Run the suites that the command line names, or all."""
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    gpuconf = link_gpuconf(folder)
    counts = [
        compare(folder, SUITES[name], python_of(folder, SUITES[name].gpu), gpuconf) for name in sys.argv[2:] or SUITES
    ]
    return int(any(counts))


if __name__ == "__main__":
    raise SystemExit(main())
