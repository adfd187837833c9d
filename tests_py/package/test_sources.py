"""C that a reader can follow: no conditional expression within another one, and comments. Files that users keep are
written by gpuconf._core.files.replacing: a full disk leaves the old one as it was.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import gpuconf
from count_lines import C_COMMENT, ROOT, product

TOKENS = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[?,;{}()\[\]\n]')


def nested(text: str) -> list[int]:
    """Return the lines with a conditional expression within another one."""
    bare = C_COMMENT.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)
    line, lines, levels = 1, [], [False]  # by parenthesis: whether its expression has a conditional so far
    for token in TOKENS.findall(bare):
        if token == "\n":
            line += 1
        elif token in "([{":
            levels.append(False)
        elif token in ")]}" and len(levels) > 1:
            levels.pop()
        if token in ",;{}":
            levels[-1] = False
        elif token == "?":
            if any(levels):
                lines.append(line)
            levels[-1] = True
    return lines


def test_no_conditional_is_within_another_one() -> None:
    sources = [path for path in product() if path.suffix in (".c", ".h")]
    assert len(sources) > 100
    found = [f"{path}:{line}" for path in sources for line in nested((ROOT / path).read_text(encoding="utf-8"))]
    assert found == []


def test_such_a_conditional_is_found() -> None:
    """In a branch, in parentheses or not, and over lines; two beside each other are no such."""
    assert nested("x = a ? b : c ? d : e;") == [1]
    assert nested("x = a ? f(1,\n b ? 2 : 3) : 4;") == [2]
    assert nested("f(a ? b : c, d ? e : f);\nx = (a ? 1 : 2) | (b ? 3 : 4); /* ? ? */") == []
    assert nested('x = a ? "?" : "b"; y = {a ? 1 : 2, b ? 3 : 4};') == []


def commented(text: str) -> tuple[int, int]:
    """Return how many lines have a comment, and how many are not blank."""
    lines = {
        text.count("\n", 0, match.start()) + number
        for match in C_COMMENT.finditer(text)
        if not match[1]
        for number in range(match[0].count("\n") + 1)
    }
    filled = {number for number, line in enumerate(text.split("\n")) if line.strip()}
    return len(lines & filled), len(filled)


def test_one_line_in_seven_has_a_comment() -> None:
    """What is guarded by what, what surprised, and where a value comes from does not show in code."""
    counts = [commented((ROOT / path).read_text(encoding="utf-8")) for path in product() if path.suffix in (".c", ".h")]
    assert sum(some for some, _ in counts) * 7 > sum(every for _, every in counts)


def test_comments_are_counted_by_line() -> None:
    assert commented('/* a\n\n b */\nint x; // c\nchar y[] = "/* d */";\n') == (3, 4)


PACKAGE = Path(gpuconf.__file__).parent

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
        path.relative_to(PACKAGE).as_posix(): lines
        for path in sorted(PACKAGE.rglob("*.py"))
        if (lines := list(writes(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert {path: lines for path, lines in found.items() if path not in OTHERS} == {}
    assert sorted(found) == sorted(OTHERS), "each of them still writes"


def test_the_search_finds_writes() -> None:
    code = "open(p, 'w')\nopen(p)\nopen(p, mode='xb')\nPath(p).write_text(t)\nshutil.copyfile(a, b)\nopen(p, 'rb')"
    assert list(writes(ast.parse(code))) == [1, 3, 4, 5]
