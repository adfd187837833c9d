"""Each source file of the package names its license, as tools that collect licenses expect it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from gpuconf._core import native

sys.path.insert(0, str(Path(__file__).parents[1] / "wheel"))  # as where it is run
import licenses

del sys.path[0]

ROOT = Path(__file__).parents[2]
SOURCES = {".go", ".c", ".h", ".S", ".s", ".py", ".pyi", ".map"}
GENERATED = re.compile(r"Code generated|DO NOT EDIT|[Gg]enerated (by|from)")


def begins() -> list[tuple[Path, str]]:
    """Return the beginnings of all source files that people write."""
    folders = [ROOT / "gocore", ROOT / "pybind", ROOT / "python" / "gpuconf"]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in SOURCES]
    texts = [(path, path.read_text(encoding="utf-8")[:600]) for path in files]
    return [(path, text) for path, text in texts if not GENERATED.search(text)]


def test_each_source_file_names_its_license() -> None:
    found = begins()
    assert len(found) > 600
    assert [str(path) for path, text in found if "SPDX-License-Identifier: Apache-2.0" not in text[:200]] == []


LIBRARY = Path(native.__file__).parent / "_gpuconf.abi3.so"


def shipped() -> dict[str, str]:
    """The licenses of what is linked in, in this checkout."""
    return {path.name: path.read_text(encoding="utf-8") for path in licenses.FOLDER.iterdir()}


def declared() -> str:
    found = re.search(r'^license = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert found
    return found[1]


def test_what_is_linked_in_has_its_license() -> None:
    assert licenses.complaints(LIBRARY, shipped(), declared()) == []


@pytest.mark.parametrize("module", ["go", "gonum.org/v1/gonum"])
def test_a_module_without_its_license_is_named(module: str) -> None:
    without = {name: text for name, text in shipped().items() if name != licenses.file_name(module)}
    [complaint] = licenses.complaints(LIBRARY, without, declared())
    assert module in complaint
    assert "is missing" in complaint


def test_a_wrong_expression_is_named() -> None:
    [complaint] = licenses.complaints(LIBRARY, shipped(), "Apache-2.0")
    assert "'Apache-2.0 AND BSD-3-Clause'" in complaint
