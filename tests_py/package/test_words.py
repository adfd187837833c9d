"""User-visible text is in plain English: phrases that readers had to decode do not come back.

An early version of gpuconf had its own idiom: a "stream that is none", "nobody's memory", "the books". Each entry below
is one such phrase with its replacement. The tests read what users see: the documents, public docstrings, every string
in the Python package and in the Go and C sources (messages, notices, help), the doc.go pages, and the C header. And
they read all comments and docstrings. Variables have nouns: tests_go/arch/names.go has the same rule for Go.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# What must not come back, and what to write instead. "none" is matched in lower case only: "is None" is Python.
DROPPED = {
    r"\b(?i:nobody|whoever|somebody)\b": "name who it is: the caller, any thread, no thread",
    r"(?<!\bthere )\b(?:is|are|was|were|isn't) none\b": "say that it is invalid, malformed or missing",
    r"\bof what (?:is|are) not\b": "name it",
    r"\b(?i:books)\b": "accounting, counters or statistics",
    r"\b(?i:be had)\b": "is available, can be allocated",
    r"\b(?i:can't|cannot) be right\b": "is invalid",
    r"\b(?i:that|which) (?:can't|cannot) be(?= and\b| or\b|[.,;:)]|$)": "invalid",
    r"\b(?i:(?:that|which) (?:isn't|is not|aren't|are not) there)\b": "unknown",
    r"\b(?i:was|were) due\b": "expected ...",
    r"\b(?:asks for|asked(?: again)? for|[Aa]sk for less)\b": "request, requests, requested",
    r"\b(?i:ask with)\b": "pass",
    r"\b(?i:tells|told)\b(?! apart)": "reports, returns, records",
    r"\b(?i:gives?|gave|given) back\b": "returns, releases",
    r"\b(?i:security wall)\b": "security boundary",
    r"\b(?i:mends?|mended)\b": "fix",
    r"\b(?i:in pieces)\b(?! of)": "fragmented",
    r"\b(?i:part of no|is no loss|without a word|goes away silently|slip of the pen)\b": "say what happens",
}


def complaints(text: str) -> Iterator[str]:
    """Each dropped phrase in a text, with its surroundings and the remedy."""
    text = " ".join(text.split())
    for pattern, better in DROPPED.items():
        for match in re.finditer(pattern, text):
            around = text[max(0, match.start() - 60) : match.end() + 60]
            yield f'"{match.group()}" in "...{around}...": write {better}'


def documents() -> Iterator[tuple[str, str]]:
    folders = ("*.md", "p*/*.md", "gocore/*/*.md", "docs/*.md", "examples/*.md", "benchmarks/*/*.md")
    for path in sorted(path for pattern in folders for path in ROOT.glob(pattern)):
        yield str(path.relative_to(ROOT)), path.read_text()
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        for cell in json.loads(path.read_text())["cells"]:
            yield str(path.relative_to(ROOT)), "".join(cell["source"])


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Of a module and of everything in it that has no leading underscore.

    Most public names live in modules that have one.
    """
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""
            named = [child for child in node.body if isinstance(child, ast.ClassDef | ast.FunctionDef)]
            todo += [child for child in named if not child.name.startswith("_")]


def python_strings(source: str) -> Iterator[tuple[int, str]]:
    """Every string that is not a docstring; the fields of an f-string are X."""
    tree = ast.parse(source)
    skip: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skip.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skip.update(id(part) for part in node.values)
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skip:
            yield node.lineno, node.value


# Comments, strings and characters of Go and C, in this order: each may contain the marks of the others.
TOKENS = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|`[^`]*`|'(?:\\.|[^'\\\n])+'""", re.DOTALL)


def compiled_strings(source: str) -> Iterator[tuple[int, str]]:
    """The strings of a Go or C source. Strings that + or nothing joins are one."""
    source = TOKENS.sub(lambda token: re.sub(r"[^\n]", " ", token[0]) if token[0][0] == "/" else token[0], source)
    joined, end, line = "", 0, 1
    for token in TOKENS.finditer(source):
        text = token.group()
        if text[0] not in '"`':
            continue
        if joined and source[end : token.start()].strip() not in ("", "+"):
            yield line, joined
            joined = ""
        if not joined:
            line = source.count("\n", 0, token.start()) + 1
        joined, end = joined + text[1:-1], token.end()
    if joined:
        yield line, joined


def comments(source: str) -> str:
    """All comments, without their marks."""
    found = (token.group() for token in TOKENS.finditer(source))
    return "\n".join(text.strip("/* ") for token in found if token[0] == "/" for text in token.split("\n"))


# Comments and strings of Python, in this order. A string in an f-string's braces begins with the other quotation mark.
PYTHON_TOKENS = re.compile(
    r"""#[^\n]*|"{3}(?:\\.|[^\\])*?"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The module and all its statements. Expressions, which are many more, are left out."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            parts = getattr(node, field, None)
            todo += parts if isinstance(parts, list) else []


def python_comments(source: str) -> str:
    """All comments and docstrings."""
    found = [token.lstrip("# ") for token in PYTHON_TOKENS.findall(source) if token[0] == "#"]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found += [ast.get_docstring(node) or "" for node in statements(ast.parse(source)) if isinstance(node, documented)]
    return "\n".join(found)


FOREIGN = {"_gpuconf", "target"}  # gopy's output, Cargo's downloads


def sources(folders: tuple[str, ...], suffixes: set[str]) -> list[Path]:
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)
    return sorted(path for path in found if FOREIGN.isdisjoint(path.parts) and path != Path(__file__).resolve())


def compiled_sources() -> list[Path]:
    return sources(("gocore", "pybind"), {".go", ".c", ".cpp", ".h"})


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_documents() -> None:
    found = [f"{name}: {text}" for name, page in documents() for text in complaints(page)]
    assert not found, "\n".join(found)


def test_public_docstrings() -> None:
    found = [
        f"{where(path, line)}: {text}"
        for path in sorted((ROOT / "python").rglob("*.py"))
        for line, docstring in docstrings(path.read_text())
        for text in complaints(docstring)
    ]
    assert not found, "\n".join(found)


def test_messages_of_python() -> None:
    found = [
        f"{where(path, line)}: {text}"
        for path in sorted((ROOT / "python").rglob("*.py"))
        for line, string in python_strings(path.read_text())
        for text in complaints(string)
    ]
    assert not found, "\n".join(found)


def test_messages_of_go_and_c() -> None:
    found = [
        f"{where(path, line)}: {text}"
        for path in compiled_sources()
        for line, string in compiled_strings(path.read_text())
        for text in complaints(string)
    ]
    assert not found, "\n".join(found)


def test_package_pages_and_the_header() -> None:
    pages = [
        *ROOT.glob("gocore/*/*/doc.go"),
        *ROOT.glob("pybind/**/doc.go"),
        ROOT / "python" / "gpuconf" / "include" / "gpuconf.h",
    ]
    assert len(pages) > 15
    found = [f"{where(path, 1)}: {text}" for path in sorted(pages) for text in complaints(comments(path.read_text()))]
    assert not found, "\n".join(found)


def test_comments() -> None:
    folders = ("gocore", "pybind", "python", "tests_go", "tests_py", "benchmarks", "examples")
    read = dict.fromkeys((".go", ".c", ".cc", ".cpp", ".h", ".rs"), comments) | {".py": python_comments}
    paths = sources(folders, set(read))
    assert len(paths) > 500
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in paths
        for text in complaints(read[path.suffix](path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)


# Participles that say nothing of what a variable holds. They are allowed for a few lines only.
VAGUE = {"found", "held", "taken", "told"}
MOST_LINES = 5


def vague_variables(source: str) -> Iterator[tuple[int, str]]:
    """Each variable with a vague name, arguments included, that lives for more than a few lines of a function."""
    for function in statements(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines: dict[str, list[int]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Name | ast.arg):
                lines.setdefault(node.id if isinstance(node, ast.Name) else node.arg, []).append(node.lineno)
        for name in VAGUE & lines.keys():
            if (lived := max(lines[name]) - min(lines[name])) > MOST_LINES:
                yield min(lines[name]), f"{name} lives for {lived} lines of {function.name}: name it by what it is"


def test_variables_have_nouns() -> None:
    vague = [
        f"{where(path, n)}: {text}"
        for path in sources(("python", "pybind"), {".py"})
        for n, text in vague_variables(path.read_text())
    ]
    assert not vague, "\n".join(vague)


@pytest.mark.parametrize(
    ("lines", "complaint"), [(5, []), (6, [(1, "found lives for 6 lines of f: name it by what it is")])]
)
def test_a_vague_variable_is_noticed(lines: int, complaint: list[tuple[int, str]]) -> None:
    assert list(vague_variables("def f(found):" + "\n" * lines + "    return found\n")) == complaint


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("no security wall", "security wall"),
        ("free memory in pieces", "in pieces"),
        ("makes tensors of what are none", "are none"),
        ("writes the books", "books"),
        ("a malformed option that is none", "is none"),
        ("what NVIDIA's monitoring tells of real cards", "tells"),
        ("an argument can't be right", "can't be right"),
        ("a device that isn't there or a size that can't be", "that isn't there"),
        ("a size that can't be", "that can't be"),
        ("a header was due", "was due"),
        ("is a part of no GPU here", "part of no"),
        ("event 5 asks for 3 bytes", "asks for"),
        ("ask with wait= for another thread to do so", "ask with"),
        ("Ask for less", "Ask for less"),
        ("what was asked for", "asked for"),
        ("nobody's memory goes away silently", "nobody"),
        ("a reset gives it\nback; it gives back", "gives back"),
        ("memory that can't be had", "be had"),
        ("a defect was mended", "mended"),
        ("fields that a message does not tell apart; what a user may ask for", ""),
        ("there is none, and no gpu: device is None", ""),
        ("a size that can't be allocated, in pieces of 2 MiB; the core tells apart", ""),
        ("a value that cannot be negative, a booked seat", ""),
    ],
)
def test_the_list_bites(text: str, phrase: str) -> None:
    found = list(complaints(text))
    assert any(f'"{phrase}"' in one for one in found) if phrase else not found


def test_strings_comments_and_docstrings_are_found() -> None:
    go = 'x := f("one " + // the books\n\t"two", `th\'ree`) /* "books" */ + \'"\' + "four"'
    assert [text for _, text in compiled_strings(go)] == ["one two", "th'ree", "four"]
    assert "books" in comments(go)
    python = 'def f(x):\n    """Docs."""\n    raise ValueError(f"the {x} " "end")\n'
    assert list(python_strings(python)) == [(3, "the X end")]
    assert python_comments(python + "# the books\n") == "the books\n\nDocs."
    assert [text for _, text in docstrings(python)] == ["", "Docs."]
