"""Runs a sample of PyTorch's own tests on simulated GPUs, and compares every failure with the known ones.

    python tests_py/integrations/suites/pytorch_suite.py FOLDER [FILE...] [--tests DIR] [--sample N]

The sample of a file is drawn by a rule: its tests for CUDA, sorted, without those that LEFT_OUT names, shuffled with
SEED, and of these the first ones; FILES says how many. They run in one process, and after a crash or a test that takes
too long in another one. What failed or crashed runs again in another process, and that outcome counts. What fails then,
is not known and has a counterpart on the CPU runs there, too, with gpuconf: a failure that the CPU has is not the
simulator's.

FOLDER keeps an environment of its own and PyTorch's source, which is downloaded from Debian's archive; DIR is its
folder `test`, if it is there already. The process exits with 1 after a failure that is neither the CPU's nor in
pytorch_suite_known.txt.
"""

import argparse
import contextlib
import os
import random
import re
import signal
import subprocess
import tarfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import NamedTuple, TextIO

from foreign_suites import HERE, OPTIONS, Phase, environment, link_gpuconf, outcomes_in

VERSION = "2.6.0"
SOURCE = f"http://deb.debian.org/debian/pool/main/p/pytorch/pytorch_{VERSION}+dfsg.orig.tar.xz"
REQUIREMENTS = HERE / "pytorch_suite.txt"
KNOWN = HERE / "pytorch_suite_known.txt"
MACHINE = "2xH100-80GB:contexts"
SIMULATED = ("-m", "gpuconf", "run", "--simulate", MACHINE, "--values", "cpu", "--")
PYTEST = (
    *("-m", "pytest", *OPTIONS, "-p", "foreign_outcomes", "--noconftest", "-p", "no:gpuconf", "-p", "no:randomly"),
    *("-c", os.devnull, "--rootdir=."),
)
SEED = 20261127
SAMPLE = 40
FILES = {
    "test_cuda.py": None,  # all tests
    "test_cuda_multigpu.py": None,
    "test_torch.py": SAMPLE,
    "test_nn.py": SAMPLE,
    "test_sparse.py": SAMPLE,
    "test_indexing.py": SAMPLE,
    "test_foreach.py": SAMPLE,
    "test_optim.py": SAMPLE,
    "test_autograd.py": SAMPLE,
    "test_linalg.py": SAMPLE,
    "test_reductions.py": SAMPLE,
    "test_multiprocessing.py": SAMPLE,
    "nn/test_convolution.py": SAMPLE,
    "nn/test_embedding.py": SAMPLE,
    "nn/test_multihead_attention.py": SAMPLE,
    "test_transformers.py": SAMPLE,
}
LEFT_OUT = re.compile("large|huge")  # they compute with tens of GB
START_S = 900  # to import and collect
LIMIT_S = 120  # of one test
VERDICTS = ("passed", "skipped", "failed", "crashed", "out of time")


class Result(NamedTuple):
    """What came of a test."""

    verdict: str
    error: str = ""


class Runs(NamedTuple):
    """How tests run."""

    python: Path
    gpuconf: Path
    tests: Path
    folder: Path  # for outputs

    def start(self, device: str, *options: str, stdout: TextIO | int) -> subprocess.Popen[str]:
        """Start pytest for the tests of a device."""
        return subprocess.Popen(
            [str(self.python), *SIMULATED, str(self.python), *PYTEST, *options],
            cwd=self.tests,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("GPUCONF")},
                "PYTHONPATH": os.pathsep.join(map(str, (self.gpuconf, HERE))),
                "PYTORCH_TESTING_DEVICE_ONLY_FOR": device,
                "FOREIGN_OUTCOMES": str(self.results),
            },
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            errors="replace",
        )

    @property
    def results(self) -> Path:
        """The file that has what came of a process's tests."""
        return self.folder / "outcomes.jsonl"


def collect(runs: Runs, file: str, device: str) -> list[str]:
    """Return the names of a file's tests for a device."""
    output = runs.start(device, "--collect-only", file, stdout=subprocess.PIPE).communicate()[0]
    names = re.findall(rf"{re.escape(file)}::\w+::\w+", output)  # standard error may stand before one
    if not names:
        raise RuntimeError(f"no tests in {file}:\n{output[-2000:]}")
    return names


def draw(file: str, names: list[str], count: int | None) -> list[str]:
    """Return a file's sample, in the file's order."""
    if count is None:
        return names
    drawn = sorted(name for name in names if "cuda" in name.removeprefix(file).lower() and not LEFT_OUT.search(name))
    random.Random(SEED).shuffle(drawn)
    return sorted(drawn[:count], key=names.index)


def result_of(phases: list[Phase]) -> Result:
    """Return the verdict on a test that ended."""
    for phase in phases:
        if phase.phase.split()[1] == "failed":
            return Result("failed", phase.error)
    return Result("skipped" if any(phase.phase.split()[1] == "skipped" for phase in phases) else "passed")


def in_one_process(runs: Runs, device: str, tests: list[str]) -> dict[str, Result]:
    """Run tests until one crashes or takes too long, which has the last result."""
    runs.results.unlink(missing_ok=True)
    with (runs.folder / f"output-{tests[0].partition('.')[0].replace('/', '-')}.txt").open("a") as output:
        process = runs.start(device, *tests, stdout=output)
        size, since, limit, end = 0, time.monotonic(), START_S, "crashed"
        while process.poll() is None:
            time.sleep(0.2)
            now = runs.results.stat().st_size if runs.results.exists() else 0
            if now != size:
                size, since, limit = now, time.monotonic(), LIMIT_S
            elif time.monotonic() - since > limit:
                end = "out of time"
                break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that tests have left
        process.wait()
    came = outcomes_in(runs.results)
    if end == "out of time" and not came:
        raise TimeoutError(f"no test of {tests[0].partition('::')[0]} has begun within {START_S} s")
    found = {name: result_of(phases) for name, phases in came.items() if phases[-1].phase.startswith("teardown")}
    left = [name for name in came if name not in found] or [test for test in tests if test not in found]
    return {**found, left[0]: Result(end, f"exit code {process.returncode}")} if left else found


def in_processes(runs: Runs, device: str, tests: list[str]) -> dict[str, Result]:
    """Run tests in a process, and after each that ends it the rest in another one."""
    found: dict[str, Result] = {}
    while left := [test for test in tests if test not in found]:
        found |= in_one_process(runs, device, left)
    return found


def run(runs: Runs, device: str, tests: list[str]) -> dict[str, Result]:
    """Run tests, those that fail or crash twice."""
    found = in_processes(runs, device, tests)
    again = [test for test, result in found.items() if result.verdict in ("failed", "crashed")]
    return found | in_processes(runs, device, again) if len(again) < len(tests) else found


def on_cpu(test: str) -> str:
    """Return the name that a test would have on the CPU."""
    before, device, after = test.replace("CUDA::", "CPU::").rpartition("_cuda")
    return f"{before}_cpu{after}" if device else test


def known_failures() -> dict[str, str]:
    """Return the reason of each known failure: lines that end with a colon, above tests that have it."""
    found, reason = {}, ""
    for line in KNOWN.read_text().splitlines():
        if line.startswith(" "):
            found[line.strip()] = reason
        elif line and not line.startswith("#"):
            reason = line.removesuffix(":")
    return found


def try_file(runs: Runs, file: str, count: int | None, known: dict[str, str]) -> int:
    """Run a file's sample and print what came. Return the number of new failures."""
    results = run(runs, "cuda", draw(file, collect(runs, file, "cuda"), count))
    verdicts = Counter(result.verdict for result in results.values())
    print(f"{file:34}{len(results):8}" + "".join(f"{verdicts[verdict]:13}" for verdict in VERDICTS), flush=True)
    bad = [test for test, result in results.items() if result.verdict not in ("passed", "skipped")]
    unknown = [test for test in bad if test not in known]
    there = set(collect(runs, file, "cpu")) if any(on_cpu(test) != test for test in unknown) else set()
    counterparts = [on_cpu(test) for test in unknown if on_cpu(test) in there]
    on_cpu_too = run(runs, "cpu", counterparts) if counterparts else {}
    new = 0
    for test in bad:
        why = known.get(test) or "NEW"
        if why == "NEW" and on_cpu_too.get(on_cpu(test), Result("passed")).verdict not in ("passed", "skipped"):
            why = "on the CPU, too"
        new += why == "NEW"
        print(f"    {results[test].verdict}: {test.partition('::')[2]}: {why}", flush=True)
        if why == "NEW":
            print("".join(f"        {line}\n" for line in results[test].error.splitlines()[:4]), end="", flush=True)
    for test in known.keys() & results.keys() - set(bad):
        print(f"    {results[test].verdict}, and is in {KNOWN.name}: {test}", flush=True)
    return new


def fetch(folder: Path) -> Path:
    """Return the folder with PyTorch's tests."""
    place = folder / f"pytorch-{VERSION}"
    if not place.exists():
        archive = folder / SOURCE.rpartition("/")[2]
        if not archive.exists():
            urllib.request.urlretrieve(SOURCE, archive)
        with tarfile.open(archive) as source:
            for member in source:
                member.name = member.name.partition("/")[2]
                if member.name.startswith("test/"):
                    source.extract(member, place, filter="data")
    return place / "test"


def main() -> int:
    """Run the files that the command line names, or all."""
    parser = argparse.ArgumentParser(description="Run a sample of PyTorch's own tests on simulated GPUs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="*", metavar="FILE", help="such as test_nn.py; without one, all of FILES")
    parser.add_argument("--tests", default="", metavar="DIR", help=f"the folder test of PyTorch {VERSION}'s source")
    parser.add_argument("--sample", type=int, metavar="N", help="take N tests of each file")
    options = parser.parse_intermixed_args()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    python = environment(folder / "venv-pytorch", ["--no-deps", "-r", str(REQUIREMENTS)])
    tests = Path(options.tests).absolute() if options.tests else fetch(folder)
    runs = Runs(python, link_gpuconf(folder), tests, folder)
    known = known_failures()
    print(f"{'':34}{'tests':>8}" + "".join(f"{verdict:>13}" for verdict in VERDICTS))
    new = [try_file(runs, file, options.sample or FILES.get(file, SAMPLE), known) for file in options.files or FILES]
    print(f"{sum(new)} new failures")
    return int(any(new))


if __name__ == "__main__":
    raise SystemExit(main())
