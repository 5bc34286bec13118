"""Scripts and notebooks as text with places."""

from __future__ import annotations

import ast
import bisect
import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bushel.checking.report.findings import Location
from bushel.errors import FileProblem
from bushel.storage import AnyPath

CELL = "# %%"


@dataclass
class Source:
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


def read_source(path: AnyPath) -> Source:
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
        return Source(path, text, ast.parse(text), cells)
    except (SyntaxError, ValueError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        raise FileProblem(path, f"the script is not Python: {line}{getattr(error, 'msg', error)}") from None
    except (RecursionError, MemoryError):  # the parser raises either
        raise FileProblem(path, "the script is nested too deeply to be followed") from None


def _join_cells(path: Path, text: str) -> tuple[str, list[tuple[int, int]]]:
    try:
        notebook = json.loads(text)
        sources = [
            (number, "".join(cell["source"]))
            for number, cell in enumerate(notebook["cells"], 1)
            if cell["cell_type"] == "code"
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileProblem(path, f"not a notebook: {error}") from None
    lines: list[str] = []
    cells = []
    for number, source in sources:
        lines.append(CELL)
        cells.append((len(lines) + 1, number))
        # Lines for the shell and for IPython are not Python; they keep their place as comments.
        is_magic = source.lstrip().startswith("%%")
        lines.extend(
            "# " + line if is_magic or line.lstrip().startswith(("%", "!", "?")) else line
            for line in source.splitlines()
        )
    return "\n".join(lines) + "\n", cells
