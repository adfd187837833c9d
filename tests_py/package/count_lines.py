# SPDX-License-Identifier: Apache-2.0
"""Count the product's files and its lines of code: without blank lines, comments, docstrings and generated files.

``python tests_py/package/count_lines.py`` prints a row for each folder below gocore, pybind and python/gpuconf. A
generated file is one that .gitattributes calls ``linguist-generated``.
"""

from __future__ import annotations

import ast
import collections
import io
import re
import subprocess
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("gocore", "pybind", "python")
C_COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`[^`]*`)', re.S)


def git(*args: str) -> list[str]:
    return subprocess.run(["git", *args], cwd=ROOT, text=True, capture_output=True, check=True).stdout.splitlines()


def product() -> list[Path]:
    """Return the product's source files that people write."""
    paths = [path for path in git("ls-files", *PRODUCT) if Path(path).suffix in CODE and (ROOT / path).exists()]
    marked = git("check-attr", "linguist-generated", "--", *paths)
    return [Path(path) for path, line in zip(paths, marked, strict=True) if not line.endswith((": true", ": set"))]


def code_of_c(text: str) -> int:
    """Return the number of lines with code in C or Go: their comments and strings look alike."""
    bare = C_COMMENT.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)
    return sum(1 for line in bare.split("\n") if line.strip())


def code_of_python(text: str) -> int:
    """Return the number of lines with code in Python."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            doc = node.body[0]
            lines.difference_update(range(doc.lineno, (doc.end_lineno or doc.lineno) + 1))
    return len(lines)


_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
CODE = {".go": code_of_c, ".c": code_of_c, ".h": code_of_c, ".S": code_of_c, ".py": code_of_python}


def main() -> None:
    files: collections.Counter[str] = collections.Counter()
    lines: collections.Counter[str] = collections.Counter()
    for path in product():
        folder = "/".join(path.parts[: 3 if path.parts[0] == "python" else 2][: len(path.parts) - 1])
        files[folder] += 1
        lines[folder] += CODE[path.suffix]((ROOT / path).read_text(encoding="utf-8"))
    for folder in sorted(files):
        print(f"{files[folder]:5} files {lines[folder]:7,} lines  {folder}")
    print(f"{files.total():5} files {lines.total():7,} lines")


if __name__ == "__main__":
    main()
