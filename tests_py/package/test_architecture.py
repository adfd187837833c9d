"""ARCHITECTURE.md and the rooms' README.md: each file, package and identifier that they name exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("gocore", "pybind", "python", "tests_go", "tests_py", "docs")
DOCUMENTS = [
    ROOT / "ARCHITECTURE.md",
    *sorted(ROOT.glob("gocore/*/README.md")),
    *(ROOT / room / "README.md" for room in ("pybind", "python")),
]
NAMES = {name for path in DOCUMENTS for name in re.findall(r"`(\w[\w./]+)`", path.read_text(encoding="utf-8"))}
PATHS = {name for name in NAMES if "/" in name or re.search(r"\.(go|py|c|h|md)$", name)}

# Of other projects, and of the operating system.
FOREIGN = {"GODEBUG", "GOMEMLIMIT", "sigwait", "libc10_cuda.so"}


def files() -> list[Path]:
    return [path.relative_to(ROOT) for part in FOLDERS for path in (ROOT / part).rglob("*")] + [
        path.relative_to(ROOT) for path in ROOT.glob("*.*")
    ]


def test_it_is_short() -> None:
    assert len(DOCUMENTS[0].read_text(encoding="utf-8").splitlines()) <= 200


def test_the_files_and_folders_exist() -> None:
    known = {path.parts[-count:] for path in files() for count in range(1, len(path.parts) + 1)}
    assert len(PATHS) > 50
    assert [name for name in PATHS if Path(name).parts not in known] == []


def test_the_identifiers_exist() -> None:
    words: set[str] = set()
    for path in files():
        if path.suffix in {".go", ".py", ".c", ".h", ".pyi", ".toml"}:
            words.update(re.findall(r"\w+", (ROOT / path).read_text(encoding="utf-8", errors="replace")))
    missing = {
        name for name in NAMES - PATHS - FOREIGN if not words.issuperset(part for part in name.split(".") if part)
    }
    assert missing == set()
