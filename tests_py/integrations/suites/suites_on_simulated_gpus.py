"""Runs the tests of public PyTorch packages on the CPU and on simulated GPUs, and compares every outcome.

    python tests_py/integrations/suites/suites_on_simulated_gpus.py FOLDER [SUITE...]

The suites choose the device by an option of their own and know nothing of gpuconf. FOLDER is as for foreign_suites.py.
Prints each test whose outcome differs and how often. The process exits with 1 if there is one that docs/pytest.md does
not list.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

from foreign_suites import Outcome, Suite, fetch, link_gpuconf, python_of, run

MACHINE = "T4"


class Trial(NamedTuple):
    """A suite, its options for each device, and the tests that are known to differ."""

    suite: Suite
    cpu: str
    cuda: str
    exceptions: tuple[str, ...] = ()  # regular expressions


TRIALS = {
    "kornia": Trial(
        Suite(
            "kornia",
            repository="kornia/kornia",
            take=("conftest.py", "tests", "testing", "pyproject.toml"),
            options=("tests/color", "tests/enhance", "tests/morphology", "--dtype=float32"),
            gpu=True,
        ),
        "--device=cpu",
        "--device=cuda",
        # Kornia checks values on the CPU only, and skips the test elsewhere.
        (r"TestAdjustContrast::test_negative_factor_errors",),
    )
}


def named_alike(outcome: Outcome) -> dict[str, list[str]]:
    """Return the outcomes by names without the device."""
    return {re.sub(r"\bcuda(:0)?\b", "cpu", name): came for name, came in outcome.tests.items()}


def compare(folder: Path, trial: Trial, gpuconf: Path) -> int:
    """Run a suite on both devices. Return the number of unexpected differences."""
    python = python_of(folder, gpu=True)
    place = fetch(folder, trial.suite, python)
    on_cpu = named_alike(run(python, place, trial.suite, [], trial.cpu))
    on_cuda = named_alike(run(python, place, trial.suite, [gpuconf], trial.cuda, f"--gpuconf-simulate={MACHINE}"))
    different = [name for name in sorted(on_cpu.keys() | on_cuda.keys()) if on_cpu.get(name) != on_cuda.get(name)]
    unexpected = [name for name in different if not any(re.search(one, name) for one in trial.exceptions)]
    print(
        f"{trial.suite.name}: {len(on_cpu)} tests on the CPU, {len(on_cuda)} on simulated GPUs, {len(different)} "
        "different",
        flush=True,
    )
    for name in different:
        known = "" if name in unexpected else " (known)"
        print(f"    {name}: {on_cpu.get(name)}, on simulated GPUs {on_cuda.get(name)}{known}", flush=True)
    return len(unexpected) + (not on_cpu)


def main() -> int:
    """Run the suites that the command line names, or all."""
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    gpuconf = link_gpuconf(folder)
    return int(sum(compare(folder, TRIALS[name], gpuconf) for name in sys.argv[2:] or TRIALS) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
