"""The places of Python and C sources where run.py may change the code, as sites.go finds them in Go's."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Site:
    """One place of a source file: the bytes ``start`` to ``end`` are replaced by ``new``.

    ``shown`` is the code around them.
    """

    path: str
    line: int
    function: str
    kind: str
    start: int
    end: int
    new: str
    shown: str

    @property
    def key(self) -> str:
        """What the site is, without its line, so that a change elsewhere in the file leaves it."""
        return (
            f"{Path(self.path).name}:{self.function}: {self.kind}: {self.shown} -> "
            f"{' '.join(self.new.split()) or 'removed'}"
        )


OPPOSITES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
WORDS = {"is not": "is", "is": "is not", "not in": "in", "in": "not in"}


class Finder(ast.NodeVisitor):
    """Walks one Python file."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.function: list[str] = []
        self.sites: list[Site] = []

    def visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        """Walk what has a name."""
        self.function.append(node.name)
        self.generic_visit(node)
        self.function.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_function  # noqa: N815 - ast's names

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Positions inside f-strings are those of the string before Python 3.12."""

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        """Add the condition."""
        self.add("condition", *self.span(node.test), f"not ({self.text(node.test)})", self.text(node.test))
        self.generic_visit(node)

    visit_IfExp = visit_If  # noqa: N815

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Add its operators."""
        for before, after in zip(node.values, node.values[1:], strict=False):
            self.operator("condition", before, after, {"and": "or", "or": "and"}, node)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Add its operators."""
        for before, after in zip([node.left, *node.comparators], node.comparators, strict=False):
            self.operator("comparison", before, after, OPPOSITES | WORDS, node)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Add a whole number."""
        if type(node.value) is int:
            line = self.source.splitlines()[node.lineno - 1].decode()
            self.add("constant", *self.span(node), f"({self.text(node)} + 1)", " ".join(line.split()))

    def visit_Raise(self, node: ast.Raise) -> None:
        """Add it."""
        self.add("error", *self.span(node), "pass", self.text(node))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Add a call that is a statement."""
        if isinstance(node.value, ast.Call):
            self.add("call", *self.span(node), "pass", self.text(node))
        self.generic_visit(node)

    def operator(self, kind: str, before: ast.expr, after: ast.expr, opposites: dict[str, str], node: ast.expr) -> None:
        """Add the operator between two expressions."""
        start, end = self.span(before)[1], self.span(after)[0]
        words = "|".join(re.escape(word) for word in sorted(opposites, key=len, reverse=True))
        if match := re.search(words, self.source[start:end].decode()):
            self.add(kind, start + match.start(), start + match.end(), opposites[match.group()], self.text(node))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """The bytes of a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> str:
        """The source of a node."""
        start, end = self.span(node)
        return self.source[start:end].decode()

    def add(self, kind: str, start: int, end: int, new: str, shown: str) -> None:
        """Add a site."""
        line = self.source.count(b"\n", 0, start) + 1
        shown = " ".join(shown.split())
        self.sites.append(Site(self.path, line, ".".join(self.function), kind, start, end, new, shown))


def python_sites(folder: Path) -> list[Site]:
    """The sites of a Python package's own files."""
    sites: list[Site] = []
    for path in sorted(folder.glob("*.py")):
        finder = Finder(path.as_posix(), path.read_bytes())
        finder.visit(ast.parse(finder.source))
        sites += finder.sites
    return sites


# Comments, strings and preprocessor lines are one token each, and nothing in them changes.
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\d[\w.]*"""
    r"""|->|<<=?|>>=?|[<>=!]=|&&|\|\||[^\s]""",
    re.MULTILINE | re.DOTALL,
)


def c_sites(folder: Path) -> list[Site]:
    """The sites of C files, by their tokens."""
    return [
        site
        for path in sorted(folder.glob("*.c"))
        for site in sites_of_c(path.as_posix(), path.read_text(encoding="utf-8"))
    ]


def sites_of_c(path: str, source: str) -> list[Site]:
    """The sites of one C file."""
    tokens = [
        match
        for match in TOKEN.finditer(source)
        if not match.group().startswith(("//", "/*")) and "#" not in match.group()[:9]
    ]
    words = [token.group() for token in tokens]
    sites: list[Site] = []
    function, depth = "", 0

    def add(kind: str, first: int, last: int, new: str) -> None:
        start, end = tokens[first].start(), tokens[last].end()
        begin = source.rfind("\n", 0, start) + 1
        shown = " ".join(source[begin : source.find("\n", end)].split())
        at, after = (len(source[:position].encode()) for position in (start, end))
        sites.append(Site(path, source.count("\n", 0, start) + 1, function, kind, at, after, new, shown))

    for i, word in enumerate(words):
        if depth == 0 and word == "(" and re.match(r"[A-Za-z_]", words[i - 1]):
            function = words[i - 1]
        depth += {"{": 1, "}": -1}.get(word, 0)
        if depth == 0:
            continue
        if word in OPPOSITES:
            add("condition" if word in ("&&", "||") else "comparison", i, i, OPPOSITES[word])
        elif re.fullmatch(r"\d+[uUlL]*", word):
            add("constant", i, i, f"({word} + 1)")
        elif word == "if":
            last = closing(words, i + 1)
            add("condition", i + 1, last, "(!" + source[tokens[i + 1].start() : tokens[last].end()] + ")")
        elif word == "return" and "ERROR" in words[i + 1] and words[i + 2] == ";":
            add("error", i + 1, i + 1, "0")
        elif (
            words[i + 1 : i + 2] == ["("]
            and words[i - 1] in "{};"
            and word not in ("if", "for", "while", "switch", "return")
        ):
            last = closing(words, i + 1)
            if words[last + 1] == ";":
                add("call", i, last, "")
    return sites


def closing(words: list[str], opening: int) -> int:
    """The index of the parenthesis that closes the one at ``opening``."""
    depth = 0
    for i in range(opening, len(words)):
        depth += {"(": 1, ")": -1}.get(words[i], 0)
        if depth == 0:
            return i
    return len(words) - 1
