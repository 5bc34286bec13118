"""Tables of a run, as text and as HTML."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from bushel.training.verdict.metrics import metric_words

__all__ = ["cell", "html_table", "metric_table", "text_table"]


def cell(value: Any) -> str:
    """One value, to be read."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(cell(item) for item in value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def metric_table(metrics: Mapping[str, Mapping[str, float]]) -> tuple[list[str], list[list[str]]]:
    """The metrics of each split: the head, and a row per split."""
    names = list(dict.fromkeys(name for values in metrics.values() for name in values))
    rows = [[split, *(cell(values.get(name)) for name in names)] for split, values in metrics.items()]
    return ["split", *map(metric_words, names)], rows


def html_table(head: list[str], rows: list[list[str]]) -> str:
    """A table as HTML."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


def text_table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """A table as lines, numbers to the right."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    for row in (head, *rows):
        rest = (text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join((row[0].ljust(widths[0]), *rest))
