"""C that a reader can follow: no conditional expression within another one, and comments."""

from __future__ import annotations

import re

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
