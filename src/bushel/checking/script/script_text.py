"""Scripts and notebooks as text: places in them, findings at these places, and edits that correct them."""

from __future__ import annotations

import ast
import bisect
import json
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from bushel.checking.findings import Confidence, Finding, Location, Severity
from bushel.checking.script.known_values import ChainCall
from bushel.errors import FileProblem
from bushel.storage import AnyPath

CELL = "# %%"


@dataclass
class Script:
    """One file of code. The code cells of a notebook are joined, and places in them name the cell."""

    path: Path
    text: str
    tree: ast.Module
    cells: list[tuple[int, int]] = field(default_factory=list)  # first line, number of the cell

    @cached_property
    def raw(self) -> bytes:
        """The text as bytes: columns of nodes count them."""
        return self.text.encode()

    @cached_property
    def nodes(self) -> set[int]:
        """The nodes of its tree, to tell whether one is among them."""
        return {id(node) for node in ast.walk(self.tree)}

    @cached_property
    def line_starts(self) -> list[int]:
        """The byte at which each line begins."""
        return [0, *(found.end() for found in re.finditer(rb"\n", self.raw))]

    def span(self, node: Any) -> tuple[int, int]:
        """The bytes of a node."""
        starts = self.line_starts
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def statement_lines(self, byte: int) -> tuple[int, int]:
        """The first and the last line of the statement around a byte; of a block, those of its head."""
        line = bisect.bisect_right(self.line_starts, byte)
        found = (line, line)
        for node in ast.walk(self.tree):  # outer statements come first
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
                body = getattr(node, "body", None)
                last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
                if line <= max(last, node.lineno):
                    found = (node.lineno, max(last, node.lineno))
        return found

    def imported_as(self, module: str, default: str) -> str:
        """The name that an import gives a module here: `tf` of `tensorflow`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    whole = alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
                    if whole == module and (alias.asname or "." not in alias.name):
                        return alias.asname or alias.name
        return default

    def location(self, node: Any = None, *, line: int | None = None, column: int | None = None) -> Location:
        """Where a node begins, or the place given."""
        line = line if line is not None else node.lineno
        column = column if column is not None or node is None else node.col_offset + 1
        name = str(self.path)
        for first, number in reversed(self.cells):
            if line >= first:
                return Location(file=f"{name}:cell {number}", line=line - first + 1, column=column)
        return Location(file=name, line=line, column=column)

    def line(self, number: int) -> str:
        """The text of one line."""
        return self.text.splitlines()[number - 1].strip()

    def code_of(self, node: ast.AST) -> str:
        """The text of one node, in one line."""
        return " ".join((ast.get_source_segment(self.text, node) or "").split())


def read_script(path: AnyPath) -> Script:
    """Parse a script or a notebook; raises `FileProblem` if it is not Python."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise FileProblem(path, f"the script cannot be read: {reason}") from None
    cells: list[tuple[int, int]] = []
    if path.suffix == ".ipynb":
        text, cells = _join_cells(path, text)
    try:
        return Script(path, text, ast.parse(text), cells)
    except (SyntaxError, ValueError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        raise FileProblem(path, f"the script is not Python: {line}{getattr(error, 'msg', error)}") from None
    except (RecursionError, MemoryError):  # the parser raises either
        raise FileProblem(path, "the script is nested too deeply to be followed") from None


def _join_cells(path: Path, text: str) -> tuple[str, list[tuple[int, int]]]:
    try:
        notebook = json.loads(text)
        scripts = [
            (number, "".join(cell["source"]))
            for number, cell in enumerate(notebook["cells"], 1)
            if cell["cell_type"] == "code"
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileProblem(path, f"not a notebook: {error}") from None
    lines: list[str] = []
    cells = []
    for number, script in scripts:
        lines.append(CELL)
        cells.append((len(lines) + 1, number))
        # Lines for the shell and for IPython are not Python; they keep their place as comments.
        is_magic = script.lstrip().startswith("%%")
        lines.extend(
            "# " + line if is_magic or line.lstrip().startswith(("%", "!", "?")) else line
            for line in script.splitlines()
        )
    return "\n".join(lines) + "\n", cells


class Placed(Protocol):
    """Anything of a script with one place: an event, a use, a call of a chain, a layer, a writer."""

    @property
    def node(self) -> ast.AST | None:
        """What stands there."""

    @property
    def script(self) -> Script:
        """The file that it is in."""


@dataclass(frozen=True)
class At:
    """One node of a script."""

    node: Any
    script: Script


def placed(scripts: Iterable[Script], node: ast.AST | None) -> At | None:
    """A node in the one of several files that it is in."""
    return next((At(node, script) for script in scripts if node is not None and id(node) in script.nodes), None)


@dataclass(frozen=True)
class Edit:
    """Text that takes the place of the bytes from `start` to `end`."""

    script: Script
    start: int
    end: int
    text: str = ""


def replaced(script: Script, node: ast.AST, text: str) -> Edit:
    """Other text for a node."""
    return Edit(script, *script.span(node), text)


def _link_span(link: ChainCall) -> tuple[int, int]:
    """From the dot to the closing bracket of one call of a chain, with the line break before the dot."""
    function = link.node.func
    start = link.script.span(function.value)[1] if isinstance(function, ast.Attribute) else 0
    return start, link.script.span(link.node)[1]


def removed(link: ChainCall) -> Edit:
    """A chain without one of its calls."""
    return Edit(link.script, *_link_span(link))


def inserted_before(link: ChainCall, text: str) -> Edit:
    """One more call before one of a chain."""
    start = _link_span(link)[0]
    return Edit(link.script, start, start, text)


def moved(link: ChainCall, *, before: ChainCall) -> list[Edit]:
    """One call of a chain moved before another; nothing if they stand in two files."""
    if link.script is not before.script:
        return []
    start, end = _link_span(link)
    return [removed(link), inserted_before(before, link.script.raw[start:end].decode())]


def appended(script: Script, node: ast.AST, text: str) -> Edit:
    """Text right after a node."""
    end = script.span(node)[1]
    return Edit(script, end, end, text)


def with_keyword(script: Script, call: ast.Call, name: str, value: str) -> Edit:
    """A call with a keyword argument: one that it has gets the value."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return replaced(script, keyword.value, value)
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    if arguments:
        return appended(script, arguments[-1], f", {name}={value}")
    end = script.span(call)[1] - 1
    return Edit(script, end, end, f"{name}={value}")


def with_argument(script: Script, call: ast.Call, position: int, name: str, value: str) -> Edit:
    """A call with another value for an argument that is given by its place or its name."""
    if len(call.args) > position:
        return replaced(script, call.args[position], value)
    return with_keyword(script, call, name, value)


def without_keyword(script: Script, call: ast.Call, name: str) -> list[Edit]:
    """A call without one of its keyword arguments and the comma before it."""
    for keyword in call.keywords:
        if keyword.arg == name:
            start, end = script.span(keyword)
            before = script.raw[:start].rstrip()
            if before.endswith(b","):
                return [Edit(script, len(before) - 1, end)]
            after = re.match(rb"\s*,\s*", script.raw[end:])
            return [Edit(script, start, end + (after.end() if after else 0))]
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
    script = where.script
    line, _ = _place_of(where)
    shown: dict[str, Any] = {"code": script.line(line)}
    said = [help] if help is not None else []
    if edits:
        first, last, text = _corrected(edits)
        shown |= {"corrected": text, "lines": [script.location(line=n).line for n in (first, last)]}
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
    if isinstance(where, ChainCall) and isinstance(node.func, ast.Attribute):
        name: Any = node.func
        return name.end_lineno, name.end_col_offset - len(name.attr) + 1
    return node.lineno, node.col_offset + 1


def _location(where: Placed) -> Location:
    line, column = _place_of(where)
    return where.script.location(line=line, column=column)


def place_text(where: Placed) -> str:
    """Where something else stands, as evidence."""
    return str(_location(where))


def _corrected(edits: tuple[Edit, ...]) -> tuple[int, int, str]:
    """The first and the last line of the statements that edits change, and their text afterwards."""
    script = edits[0].script
    places = [script.statement_lines(edit.start) for edit in edits]
    first, last = min(first for first, _ in places), max(last for _, last in places)
    begin, end = script.line_starts[first - 1], script.line_starts[last] if last < len(script.line_starts) else None
    text = script.raw[begin:end]
    for edit in sorted(edits, key=lambda edit: (-edit.start, -edit.end)):
        text = text[: edit.start - begin] + edit.text.encode() + text[edit.end - begin :]
    # A statement of which nothing is left does nothing: `ds = ds`.
    lines = re.sub(r"^[ \t]*(\w+) = \1[ \t]*\n", "", text.decode(), flags=re.MULTILINE)
    return first, last, textwrap.dedent(lines).strip("\n")
