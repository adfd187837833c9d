"""Each file of tests is run on the arm64 wheel, or tests_py/wheel/arm64.py says why it is not."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
sys.path.insert(0, str(HERE / "wheel"))  # as where it is run
LISTS = runpy.run_path(str(HERE / "wheel" / "arm64.py"))
del sys.path[0]
FILES = {str(path.relative_to(HERE)) for path in HERE.rglob("test_*.py")}


def files(names: str) -> list[str]:
    """The files of a list, in which a folder stands for all of its files."""
    return [file for name in names.split() for file in FILES if file == name or file.startswith(f"{name}/")]


def test_each_file_is_run_or_left_out_for_a_reason() -> None:
    listed = [*files(LISTS["RUN"]), *(file for names in LISTS["LEFT_OUT"].values() for file in files(names))]
    assert sorted(listed) == sorted(FILES)  # add a new file to RUN, or to LEFT_OUT with its reason


def test_each_name_in_the_lists_exists() -> None:
    for names in (LISTS["RUN"], *LISTS["LEFT_OUT"].values()):
        assert [name for name in names.split() if not files(name)] == []
    run = files(LISTS["RUN"])
    for names in LISTS["DESELECTED"].values():
        for name in names.split():
            file, _, test = name.partition("::")
            assert file in run, name
            assert f"def {test.partition('[')[0]}(" in (HERE / file).read_text(), name
