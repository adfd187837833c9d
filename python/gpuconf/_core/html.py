# SPDX-License-Identifier: Apache-2.0
"""HTML of objects in notebooks: static, without scripts and style sheets, legible on light and dark pages.

Text has the page's color. The colors of bars contrast with white and with black, and their grays are translucent. Some
pages, such as GitHub's, remove styles, so the text beside a bar has all of its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .table import human_bytes, human_limit

USED = "#3b82d0"
PEAK = "rgba(59,130,208,.45)"
RESERVED = "rgba(128,128,128,.5)"
FREE = "rgba(128,128,128,.2)"
_APART = "padding-left:.5em;padding-right:.5em"  # as in JupyterLab; marimo's page leaves nothing between cells

_SPECIAL = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;", "\0": "\ufffd"}


class Html(str):
    """Text that is HTML already. Everything else is escaped where it is inserted."""

    __slots__ = ()


class Displayed:
    """HTML as an object that shows itself."""

    def __init__(self, html: str) -> None:
        self._html = html

    def _repr_html_(self) -> str:
        return self._html


class InLists:
    """A mixin for named tuples that show themselves as HTML.

    Without it, marimo shows those in a list as plain tuples.
    """

    __slots__ = ()

    def _display_(self) -> Displayed:
        return Displayed(self._repr_html_())  # type: ignore[attr-defined]  # the class's own


def shown(html: Html) -> str:
    """Return HTML as what ``_repr_html_`` returns: text of no other class, because marimo refuses those."""
    return str(html)


def escape(value: object) -> Html:
    """Return the text of a value as HTML.

    Lone surrogates, which a message to a notebook cannot contain, are escaped too.
    """
    if isinstance(value, Html):
        return value
    text = str(value).encode("utf-8", "backslashreplace").decode()
    return Html("".join(_SPECIAL.get(character, character) for character in text))


def size(count: int | None) -> Html:
    """Return a number of bytes for people; hovering shows all digits."""
    return Html("-") if count is None else Html(f'<span title="{count} bytes">{human_bytes(count)}</span>')


def limit(count: int) -> Html:
    """Return a limit that is needed: rounded up."""
    return Html(f'<span title="{count} bytes">{human_limit(count)}</span>')


def code(value: object) -> Html:
    """Return a value in the font of code."""
    return Html(f"<code>{escape(value)}</code>")


def bar(parts: Iterable[tuple[int, str]], total: int, width: str = "14em", most: str = "10vw") -> Html:
    """Return a bar of ``total`` bytes with colored parts, from the left.

    Zeros are left out; the smallest part is 2 pixels wide.

    ``most`` limits the width in a narrow window.
    """
    total = max(total, 1)
    drawn = [
        f'<div style="float:left;box-sizing:border-box;width:{100 * min(nbytes, total) / total:.2f}%;min-width:2px;'
        f'height:0.8em;background-color:{color}"></div>'
        for nbytes, color in parts
        if nbytes > 0
    ]
    return Html(
        f'<div style="width:{width};max-width:{most};height:0.8em;margin:0.2em '
        f'0;overflow:hidden;background-color:{FREE}" aria-hidden="true">{"".join(drawn)}</div>'
    )


def memory_bar(in_use: int, peak: int, reserved: int, limit: int) -> Html:
    """Return the bar of a pool: in use, up to the peak, reserved, and the rest of the limit."""
    parts = ((in_use, USED), (peak - in_use, PEAK), (reserved - max(peak, in_use), RESERVED))
    return bar(parts, max(limit, in_use, peak, reserved))


def change_bar(before: int, peak: int, after: int, total: int) -> Html:
    """Return the bar of a measurement: what was there before, what was added and stayed, and the peak."""
    kept = min(before, after)
    return bar(((kept, RESERVED), (after - kept, USED), (peak - after, PEAK)), total)


def table(head: Sequence[object], rows: Iterable[Sequence[object]], left: int = 1) -> Html:
    """Return a table. The first ``left`` columns are left-aligned, the others right-aligned."""

    def cells(tag: str, row: Sequence[object]) -> str:
        sides = ("left" if i < left else "right" for i in range(len(row)))
        return "".join(
            f'<{tag} style="text-align:{side};{_APART}">{escape(value)}</{tag}>'
            for side, value in zip(sides, row, strict=True)
        )

    top = f"<thead><tr>{cells('th', head)}</tr></thead>" if head else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return Html(f"<table>{top}<tbody>{body}</tbody></table>")


def listed(title: object, head: Sequence[object], rows: Sequence[Sequence[object]], left: int) -> str:
    """Return what ``_repr_html_`` returns for a title and rows: a table, if there are any."""
    return shown(titled(title, table(head, rows, left) if rows else ""))


def titled(title: object, *contents: object) -> Html:
    """Return contents below a bold title."""
    return Html(f"<div><b>{escape(title)}</b>{''.join(map(escape, contents))}</div>")


def bold(value: object) -> Html:
    """Return a value in bold."""
    return Html(f"<b>{escape(value)}</b>")


def pre(value: object) -> Html:
    """Return lines of text in the font of code."""
    return Html(f'<pre style="margin:0">{escape(value)}</pre>')


def line(*parts: object) -> Html:
    """Return a line of text."""
    return Html(f"<div>{' '.join(map(escape, parts))}</div>")
