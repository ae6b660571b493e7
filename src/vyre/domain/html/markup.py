"""Pieces of HTML: tables, lists of facts, folded text.

All text is escaped here.  Styles name no colour of text or background, so that a piece looks right on dark and light
pages; it needs no style sheet and has no scripts, since notebooks remove them from documents that are not trusted.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final

from vyre.domain.printable import printable


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


LINE: Final = "rgba(128,128,128,.4)"
"""The colour of lines, visible on dark and on light pages."""
MOST_ROWS: Final = 200
MOST_CHARACTERS: Final = 20_000
_CELL: Final = f"text-align:left;padding:.15em .8em .15em 0;border-bottom:1px solid {LINE};vertical-align:top"
_PRE: Final = "margin:.3em 0;padding:0;background:none;color:inherit;overflow-x:auto"


def text(value: object) -> Html:
    """Returns a value's text, escaped; characters that cannot be printed are written as escapes."""
    return Html(html.escape(printable(str(value))))


def bold(value: object) -> Html:
    """Returns a value's text in bold."""
    return Html(f"<b>{text(value)}</b>")


def table(titles: Sequence[object], rows: Iterable[Sequence[object]]) -> Html:
    """Returns a table; cells that are not ``Html`` are escaped.  Of very long ones the first rows are shown."""
    shown = list(rows)
    head = "".join(f'<th style="{_CELL}">{_cell(title)}</th>' for title in titles)
    body = "".join(map(_row, shown[:MOST_ROWS]))
    more = len(shown) - MOST_ROWS
    return Html(
        f'<table style="border-collapse:collapse;margin:.3em 0"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        f"</table>{paragraph(f'... and {more} more') if more > 0 else ''}"
    )


def paragraph(value: object) -> Html:
    """Returns a paragraph."""
    return Html(f'<p style="margin:.3em 0">{_cell(value)}</p>')


def code(value: str) -> Html:
    """Returns text as it is written, in a font of fixed width; very long text is cut."""
    cut = value if len(value) <= MOST_CHARACTERS else f"{value[:MOST_CHARACTERS]}\n..."
    return Html(f'<pre style="{_PRE}">{text(cut)}</pre>')


def folded(title: object, content: Html) -> Html:
    """Returns content that is shown when the reader opens its title."""
    return Html(f'<details><summary style="cursor:pointer">{_cell(title)}</summary>{content}</details>')


def panel(title: object, *parts: Html) -> Html:
    """Returns a whole piece: a title and what stands below it."""
    return Html(f'<div style="margin:.3em 0">{paragraph(title)}{"".join(parts)}</div>')


def _row(cells: Sequence[object]) -> str:
    joined = "".join([f'<td style="{_CELL}">{_cell(cell)}</td>' for cell in cells])
    return f"<tr>{joined}</tr>"


def _cell(value: object) -> str:
    return value if isinstance(value, Html) else str(text(value))
