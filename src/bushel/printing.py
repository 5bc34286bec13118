"""Tables for people: as text on a terminal, and as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

__all__ = ["html_table", "text_table"]

Row = Sequence[str]


def text_table(head: Row, rows: Sequence[Row], *, numbers: bool = True) -> Iterator[str]:
    """Lines of a table. The first column is aligned to the left, the others to the right if they hold numbers."""
    table = [head, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    for row in table:
        first, *rest = zip(row, widths, strict=True)
        aligned = [text.rjust(width) if numbers else text.ljust(width) for text, width in rest]
        yield "  ".join([first[0].ljust(first[1]), *aligned]).rstrip()


def html_table(head: Row, rows: Sequence[Row], *, title: str = "") -> str:
    """The same for a notebook. All text is escaped: it may come from data."""
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    top = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table>{caption}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
