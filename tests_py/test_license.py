"""Each source file of the package names its license, as tools that collect licenses expect it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
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
