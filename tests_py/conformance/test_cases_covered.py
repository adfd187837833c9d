"""Each of TensorFlow's 188 conformance cases is tested here or in Go, or has a reason why not."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
CASES = range(1, 189)

# Cases that Python cannot observe, or not completely, with the Go test that covers them.
IN_GO: dict[int, str] = {
    65: "config TestSessions",  # a device of a type other than CPU and GPU
    124: "devname TestSpecs",
    125: "devname TestSpecs",
    126: "devname TestSpecs",
    127: "devname TestSpecs",
    128: "devname TestSpecs",
    129: "devname TestSpecs",
    131: "devname TestSpecs",
    147: "graph TestEagerPlacementErrors",  # no Python name leads to an operation that does not exist
    160: "config TestFractionIsOfTheTotalAndLeavesNoReserve",
    163: "config TestUsableGPUs",
    164: "config TestUsableGPUs",
    165: "bfc TestNoDuplicatesAmongManySizes",
    166: "bfc TestCoalescingLeavesNothingBehind",
    168: "bfc TestZeroBytes",
    169: "bfc TestGoldenTraces",
    170: "bfc TestGoldenTraces",
    171: "bfc TestGoldenTraces",
    172: "bfc TestGoldenTraces",
    173: "bfc TestGoldenTraces",
    174: "bfc TestGoldenTraces",
    175: "bfc TestGoldenTraces",
    176: "bfc TestGoldenTraces",
    177: "bfc TestOneLiveBlockKeepsItsRegion",
    178: "bfc TestIdleRegionsGiveWay",
    179: "bfc TestGoldenTraces",
    180: "bfc TestGoldenTraces",
    183: "bfc TestClearStats",
}

# Cases that do not apply, or not yet.
NOT_HERE: dict[int, str] = {
    120: "the CPU has no pool, so there is none to choose",
    121: "TF_GPU_ALLOCATOR is ignored with a warning: there is a single allocator, which enforces limits and keeps "
    "statistics",
    122: "TF_GPU_ALLOCATOR is ignored with a warning: there is a single allocator, which enforces limits and keeps "
    "statistics",
    145: "no function puts operations on one device: there is no colocate_with",
    184: "chunks are not kept in TensorFlow's 21 bins",
    185: "there is no timestamped allocator",
    186: "regions never join: no device gives adjacent ones on purpose",
}


def cases_of(source: str) -> dict[int, list[str]]:
    """The cases that a test file names, with their functions.

    A function names them as ``test_case_024_029_words``, a row as ``pytest.param(..., id="case 24: words")``, and a
    file of ``cases`` as ``== case 24 29: words`` and ``:: row  # case 24: words``.
    """
    found: dict[int, list[str]] = {}
    if source.startswith("# "):
        for line in re.findall(r"^(?:== |:: .*# )case ([\d ]+): .*", source, re.MULTILINE):
            for number in line.split():
                found.setdefault(int(number), []).append(f"case {line}")
        return found
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
            continue
        numbers = []
        if name := re.match(r"test_case((?:_\d{3})+)_", node.name):
            numbers += name.group(1).split("_")[1:]
        for decorator in node.decorator_list:
            for part in ast.walk(decorator):
                if isinstance(part, ast.keyword) and part.arg == "id" and isinstance(part.value, ast.Constant):
                    numbers += re.findall(r"^case (\d+)", part.value.value)
        for number in numbers:
            found.setdefault(int(number), []).append(node.name)
    return found


def covered() -> dict[int, list[str]]:
    """All cases that this folder tests, with their tests."""
    found: dict[int, list[str]] = {}
    for path in sorted([*FOLDER.glob("test_*.py"), *FOLDER.glob("cases/*.txt")]):
        for number, names in cases_of(path.read_text()).items():
            found.setdefault(number, []).extend(f"{path.name}::{name}" for name in names)
    return found


def test_every_case_is_tested_or_has_a_reason() -> None:
    tested = covered()
    assert sorted({*tested, *IN_GO, *NOT_HERE} - set(CASES)) == []
    assert [n for n in CASES if n not in tested and n not in IN_GO and n not in NOT_HERE] == []


def test_no_case_is_both_tested_and_excused() -> None:
    assert {n: names for n, names in covered().items() if n in NOT_HERE} == {}
    assert sorted(set(IN_GO) & set(NOT_HERE)) == []


@pytest.mark.parametrize("where", sorted(set(IN_GO.values())))
def test_the_go_tests_are_there(where: str) -> None:
    package, name = where.split()
    sources = [path.read_text() for path in (ROOT / "tests_go").glob(f"*/{package}/*_test.go")]
    assert any(f"func {name}(t *testing.T)" in source for source in sources)


def test_numbers_are_found_in_names_and_ids() -> None:
    source = """
@pytest.mark.parametrize("x", [pytest.param(1, id="case 7: words"), pytest.param(2, id="other")])
def test_words(x): ...
def test_case_008_009_words(): ...
def helper_case_010_words(): ...
"""
    assert cases_of(source) == {7: ["test_words"], 8: ["test_case_008_009_words"], 9: ["test_case_008_009_words"]}
