"""README says nothing that no test and no page with a figure stands for."""

from __future__ import annotations

import re
from pathlib import Path

import gpuconf
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# What README says, and where it is held: a test, FILE::NAME, or a page, FILE: TEXT. The test of each command's options,
# and of each block of Python, is tests_py/package/test_docs.py.
CLAIMS = {
    "waits until a GPU has that much memory free": "tests_py/leases/test_leased_run.py::"
    "test_programs_of_different_needs_share_the_cards",
    "# a hard limit": "tests_py/leases/test_leased_run.py::test_the_limit_is_exact_and_the_card_is_visible_by_its_uuid",
    "PyTorch without a GPU": "tests_py/frameworks/simulated/test_torch_simulated.py::test_the_program_of_readme",
    "One hard limit": "tests_py/frameworks/allocators/test_readme.py::test_the_programs_of_readme",
    "and in CI": "tests_py/frameworks/simulated/test_ci_workflow.py::test_",
    "by library, tag and line of code": "tests_py/memory/test_usage.py::test_",
    "54 of 56 cases passed and two have not run": "benchmarks/reports/gpu-results.md: "
    "**54 of 56 cases passed, and none failed.**",
    "compared with NVIDIA's": "tests_py/driver/test_driver_answers.py::test_the_simulator_answers_as_the_driver",
    "make each call fail": "tests_go/devices/devmgr/failurewalk_test.go: func TestWalkOfFailures",
    "Linux with glibc": "pybind/build/hatch_build.py: gpuconf builds on Linux with glibc only",
    "CPython 3.10 or newer": 'pyproject.toml: requires-python = ">=3.10"',
    "no Python dependencies": "pyproject.toml: dependencies = []",
    "its error has the command": "tests_py/package/test_extras.py::test_a_call_names_its_extra",
    "and a MemoryError": "tests_py/frameworks/allocators/test_torch.py::test_",
    "its child processes": "tests_py/leases/test_leased_run.py::"
    "test_children_keep_the_lease_when_everything_above_them_is_killed",
    "the next one gets the memory": "tests_py/leases/test_ledger.py::"
    "test_a_claim_waits_for_the_end_of_a_killed_process",
    "sudo gpuconf ledger init --shared": "tests_py/leases/test_ledger_command.py::test_init",
    "`gpuconf top` shows cards and programs live": "tests_py/cli/test_top.py::test_it_fits_and_follows_the_size",
    "$ gpuconf plan --gpu T4,L4,A100-40GB": "tests_py/frameworks/simulated/test_tutorial.py::test_each_command",
    "It changes no file": "tests_py/cover/test_cover_kinds.py::test_kinds_of_writes",
    "Large tensors get no values": "tests_py/frameworks/rehearsed/test_rehearsed.py::"
    "test_checkpoints_logs_and_pushes_go_nowhere",
    "skipped without a GPU": "tests_py/pytest_plugin/test_fixtures.py::test_fixtures",
    "fails if device memory stays allocated": "tests_py/pytest_plugin/test_expectations.py::test_a_known_leak",
    "several logical GPUs on one card": "tests_py/conformance/cases/logical_devices.txt: == case 61:",
    "`gpuconf run --as-tensorflow train.py`": "tests_py/compat/test_tensorflow_root.py::test_",
    "a million calls": "benchmarks/reports/conformance.md: | configuration (calls) | 700,010 |",
    "their own settings": "tests_py/frameworks/test_jax.py::test_",
    "does not run custom CUDA kernels": "docs/simulation.md: such as Triton kernels and those of extensions, do not "
    "run",
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_is_held(claim: str) -> None:
    assert claim in README
    file, double, name = CLAIMS[claim].partition("::")
    if double:
        assert re.search(rf"^def {name}", (ROOT / file).read_text(encoding="utf-8"), re.M), CLAIMS[claim]
    else:
        file, _, text = CLAIMS[claim].partition(": ")
        assert text in " ".join((ROOT / file).read_text(encoding="utf-8").split()), CLAIMS[claim]


def test_every_figure_of_the_status_is_here() -> None:
    """A number in a sentence is a claim.

    Those of code, of output and of examples are held by the tests of these blocks.
    """
    prose = re.sub(r"```.*?```|^ {4}.*?$|`[^`\n]*`|\]\([^)]*\)", " ", README, flags=re.M | re.S)
    numbers = set(re.findall(r"(?<![\w.-])\d[\d,.]*\b", prose))
    held = " ".join(CLAIMS)
    assert [number for number in sorted(numbers) if number not in held] == [gpuconf.__version__.rpartition(".")[0]]


def test_the_figures_of_measurements_are_those_of_the_reports() -> None:
    sections = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(sections) == len(list((ROOT / "benchmarks" / "reports").glob("*.md")))
    for section in sections:
        heading = section.partition("\n")[0]
        report = re.findall(r"\]\(\.\./(benchmarks/reports/[a-z-]+\.md)\)", section)
        assert len(report) == 1, heading
        numbers = set(re.findall(r"(?<![\w.])\d[\d,.]*\d|(?<![\w.])\d\b", re.sub(r"\]\([^)]*\)", " ", section)))
        text = (ROOT / report[0]).read_text(encoding="utf-8")
        assert [number for number in sorted(numbers) if number not in text] == [], heading


def test_the_front_page_of_the_site_shows_the_same_commands() -> None:
    block = re.search(r"^```shell-session\n.*?^```$", README, re.M | re.S)
    assert block
    assert block[0] in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 120
