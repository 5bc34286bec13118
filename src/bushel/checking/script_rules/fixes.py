"""Findings at places of a script, and corrections: edits of its text, shown as the statements that they change."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from bushel.checking.report.findings import Confidence, Finding, Location, Severity
from bushel.checking.script.known_values import Link
from bushel.checking.script.source import Source


class Placed(Protocol):
    """Anything of a script with one place: an event, a use, a call of a chain, a layer, a writer."""

    @property
    def node(self) -> ast.AST | None:
        """What stands there."""

    @property
    def source(self) -> Source:
        """The file that it is in."""


@dataclass(frozen=True)
class At:
    """One node of a script."""

    node: Any
    source: Source


def placed(sources: Iterable[Source], node: ast.AST | None) -> At | None:
    """A node in the one of several files that it is in."""
    return next((At(node, source) for source in sources if node is not None and id(node) in source.nodes), None)


@dataclass(frozen=True)
class Edit:
    """Text that takes the place of the bytes from `start` to `end`."""

    source: Source
    start: int
    end: int
    text: str = ""


def replaced(source: Source, node: ast.AST, text: str) -> Edit:
    """Other text for a node."""
    return Edit(source, *source.span(node), text)


def _link_span(link: Link) -> tuple[int, int]:
    """From the dot to the closing bracket of one call of a chain, with the line break before the dot."""
    function = link.node.func
    start = link.source.span(function.value)[1] if isinstance(function, ast.Attribute) else 0
    return start, link.source.span(link.node)[1]


def removed(link: Link) -> Edit:
    """A chain without one of its calls."""
    return Edit(link.source, *_link_span(link))


def inserted_before(link: Link, text: str) -> Edit:
    """One more call before one of a chain."""
    start = _link_span(link)[0]
    return Edit(link.source, start, start, text)


def moved(link: Link, *, before: Link) -> list[Edit]:
    """One call of a chain moved before another; nothing if they stand in two files."""
    if link.source is not before.source:
        return []
    start, end = _link_span(link)
    return [removed(link), inserted_before(before, link.source.raw[start:end].decode())]


def appended(source: Source, node: ast.AST, text: str) -> Edit:
    """Text right after a node."""
    end = source.span(node)[1]
    return Edit(source, end, end, text)


def with_keyword(source: Source, call: ast.Call, name: str, value: str) -> Edit:
    """A call with a keyword argument: one that it has gets the value."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return replaced(source, keyword.value, value)
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    if arguments:
        return appended(source, arguments[-1], f", {name}={value}")
    end = source.span(call)[1] - 1
    return Edit(source, end, end, f"{name}={value}")


def with_argument(source: Source, call: ast.Call, position: int, name: str, value: str) -> Edit:
    """A call with another value for an argument that is given by its place or its name."""
    if len(call.args) > position:
        return replaced(source, call.args[position], value)
    return with_keyword(source, call, name, value)


def without_keyword(source: Source, call: ast.Call, name: str) -> list[Edit]:
    """A call without one of its keyword arguments and the comma before it."""
    for keyword in call.keywords:
        if keyword.arg == name:
            start, end = source.span(keyword)
            before = source.raw[:start].rstrip()
            if before.endswith(b","):
                return [Edit(source, len(before) - 1, end)]
            after = re.match(rb"\s*,\s*", source.raw[end:])
            return [Edit(source, start, end + (after.end() if after else 0))]
    return []


def at(
    where: Placed,
    message: str,
    *edits: Edit,
    help: str | None = None,
    also: Placed | None = None,
    severity: Severity | None = None,
    confidence: Confidence = "proven",
    **evidence: Any,
) -> Finding:
    """A finding at one place of a script. `help` says what to do where the edits do not show it.

    `also` is the other one of two places that contradict each other.
    """
    source = where.source
    line, _ = _place_of(where)
    shown: dict[str, Any] = {"code": source.line(line)}
    said = [help] if help is not None else []
    if edits:
        first, last, text = _corrected(edits)
        shown |= {"corrected": text, "lines": [source.location(line=n).line for n in (first, last)]}
        lines = shown["lines"]
        is_one = lines[0] == lines[1] and "\n" not in text
        said = [f"change it to: {text}" if is_one else f"replace lines {lines[0]} to {lines[1]} with the lines above"]
    return Finding(
        message,
        severity=severity,
        confidence=confidence,
        locations=[_location(place) for place in (where, also) if place is not None and place.node is not None],
        evidence={**shown, **{name: value for name, value in evidence.items() if value is not None}},
        help=said,
    )


def _place_of(where: Placed) -> tuple[int, int]:
    """Line and column; of a call of a chain, those of its name."""
    node: Any = where.node
    if isinstance(where, Link) and isinstance(node.func, ast.Attribute):
        name: Any = node.func
        return name.end_lineno, name.end_col_offset - len(name.attr) + 1
    return node.lineno, node.col_offset + 1


def _location(where: Placed) -> Location:
    line, column = _place_of(where)
    return where.source.location(line=line, column=column)


def place_text(where: Placed) -> str:
    """Where something else stands, as evidence."""
    return str(_location(where))


def _corrected(edits: tuple[Edit, ...]) -> tuple[int, int, str]:
    """The first and the last line of the statements that edits change, and their text afterwards."""
    source = edits[0].source
    places = [source.statement_lines(edit.start) for edit in edits]
    first, last = min(first for first, _ in places), max(last for _, last in places)
    begin, end = source.line_starts[first - 1], source.line_starts[last] if last < len(source.line_starts) else None
    text = source.raw[begin:end]
    for edit in sorted(edits, key=lambda edit: (-edit.start, -edit.end)):
        text = text[: edit.start - begin] + edit.text.encode() + text[edit.end - begin :]
    # A statement of which nothing is left does nothing: `ds = ds`.
    lines = re.sub(r"^[ \t]*(\w+) = \1[ \t]*\n", "", text.decode(), flags=re.MULTILINE)
    return first, last, textwrap.dedent(lines).strip("\n")
