"""Files that users keep are written by gpuconf._core.files.replacing: a full disk leaves the old one as it was."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import gpuconf

ROOT = Path(gpuconf.__file__).parent

# Functions that write into a folder of the program's own, or to what is no file; and why.
OTHERS = {
    "_core/files.py": "the function itself",
    "cli/console.py": "the null device",
    "compat/_files.py": "TensorFlow's gfile: the program's own files, opened as it says",
    "jobs/agent.py": "a program's standard error, if it is a pipe",
    "jobs/budget.py": "the private folder of a job",
    "jobs/supervise.py": "the name of a process, in /proc",
    "memory/_profiles.py": "an anonymous file",
    "notebook/_fresh.py": "the script of a child, in a temporary folder",
    "plans/programs/cover.py": "the program's files, in the folder that the user asked to keep",
    "plans/programs/launch.py": "the folder of one rehearsal",
    "plans/programs/torch_recording.py": "the folder of one rehearsal",
    "plans/programs/trackers.py": "the program's files, in the cover",
    "plans/programs/xla/card_memory.py": "the folder of one rehearsal",
    "plans/programs/xla/jax_recording.py": "the folder of one rehearsal",
    "pytest_plugin/_processes.py": "the request to a child, in a temporary folder",
}
OPENING = ("open", "write_text", "write_bytes", "copyfile", "copy", "copy2")


def writes(tree: ast.Module) -> Iterator[int]:
    """The lines with calls that write a file."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name not in OPENING:
            continue
        words = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        opens = name == "open" and any(word.strip("bt+") in ("w", "x") for word in words)
        shutil = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "shutil"
        if opens or (shutil and name.startswith("copy")) or name in ("write_text", "write_bytes"):
            yield node.lineno


def test_no_other_function_writes_files() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in sorted(ROOT.rglob("*.py"))
        if (lines := list(writes(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert {path: lines for path, lines in found.items() if path not in OTHERS} == {}
    assert sorted(found) == sorted(OTHERS), "each of them still writes"


def test_the_search_finds_writes() -> None:
    code = "open(p, 'w')\nopen(p)\nopen(p, mode='xb')\nPath(p).write_text(t)\nshutil.copyfile(a, b)\nopen(p, 'rb')"
    assert list(writes(ast.parse(code))) == [1, 3, 4, 5]
