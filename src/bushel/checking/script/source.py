"""Scripts and notebooks as text with places."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass, field
from pathlib import Path

from bushel.checking.report.findings import Location
from bushel.errors import FileProblem
from bushel.storage import AnyPath

__all__ = ["Source", "read_source"]

CELL = "# %%"


@dataclass
class Source:
    """One file of code. The code cells of a notebook are joined, and places in them are told by cell."""

    path: Path
    text: str
    tree: ast.Module
    cells: list[tuple[int, int]] = field(default_factory=list)  # first line, number of the cell

    def location(self, node: ast.AST, *, line: int | None = None, column: int | None = None) -> Location:
        """Where a node begins, or the place given."""
        line = line if line is not None else node.lineno  # type: ignore[attr-defined]
        column = column if column is not None else node.col_offset + 1  # type: ignore[attr-defined]
        name = str(self.path)
        for first, number in reversed(self.cells):
            if line >= first:
                return Location(file=f"{name}:cell {number}", line=line - first + 1, column=column)
        return Location(file=name, line=line, column=column)

    def line(self, number: int) -> str:
        """The text of one line."""
        return self.text.splitlines()[number - 1].strip()

    def segment(self, node: ast.AST) -> str:
        """The text of one node, in one line."""
        return " ".join((ast.get_source_segment(self.text, node) or "").split())


def read_source(path: AnyPath) -> Source:
    """Parse a script or a notebook; raises `FileProblem` if it is no Python."""
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
    except RecursionError:
        raise FileProblem(path, "the script is nested too deeply to be followed") from None


def _join_cells(path: Path, text: str) -> tuple[str, list[tuple[int, int]]]:
    try:
        notebook = json.loads(text)
        sources = [
            (number, "".join(cell["source"]))
            for number, cell in enumerate(notebook["cells"], 1)
            if cell["cell_type"] == "code"
        ]
    except (ValueError, KeyError, TypeError) as error:
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
