"""Cells of one column as Python objects: what they are together, and as an array of Arrow."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Sequence
from math import isnan
from typing import Any

__all__ = ["array_of_cells", "array_of_mixed", "kind_of_cell", "type_of_cells"]

_KINDS: dict[type, str] = {
    type(None): "nothing",
    bool: "integer",
    int: "integer",
    float: "number",
    str: "text",
    datetime.timedelta: "number",
    datetime.datetime: "date",
    datetime.date: "date",
    datetime.time: "text",
}


def kind_of_cell(cell: Any) -> str:
    """What one cell is."""
    found = _KINDS.get(type(cell), "text")
    if found == "integer" and not -(2**63) <= cell < 2**63:
        return "number"
    return "nothing" if type(cell) is str and not cell.strip(" \t") else found


def type_of_cells(kinds: Iterable[str]) -> Any:
    """The type in Arrow that holds all of these kinds of cells."""
    import pyarrow as pa

    found = {*kinds} - {"nothing"}
    if found == {"integer", "number"}:
        return pa.float64()
    one = found.pop() if len(found) == 1 else "text"
    return {"integer": pa.int64(), "number": pa.float64(), "date": pa.timestamp("us"), "text": pa.string()}[one]


def array_of_cells(cells: Sequence[Any], kind: Any) -> Any:
    """Cells as an array of the type that holds them."""
    import pyarrow as pa

    if pa.types.is_string(kind):
        return pa.array([_text(cell) for cell in cells], kind)
    plain = [cell.total_seconds() if isinstance(cell, datetime.timedelta) else cell for cell in cells]
    return pa.array([None if kind_of_cell(cell) == "nothing" else cell for cell in plain], kind)


def array_of_mixed(cells: Any) -> tuple[Any, int] | None:
    """Single values of several kinds as text, and how many are not text; None if some are lists or other objects."""
    if not isinstance(cells, Iterable):
        return None
    plain = [cell.item() if hasattr(cell, "item") and not getattr(cell, "shape", ()) else cell for cell in cells]
    if any(type(cell) not in _KINDS for cell in plain):
        return None
    plain = [None if isinstance(cell, float) and isnan(cell) else cell for cell in plain]
    kinds = Counter(map(kind_of_cell, plain))
    return array_of_cells(plain, type_of_cells(kinds)), sum(kinds.values()) - kinds["text"] - kinds["nothing"]


def _text(cell: Any) -> str | None:
    """A cell as text: a number without needless decimals, a date as ISO 8601 has it."""
    if cell is None:
        return None
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    text = cell.isoformat() if isinstance(cell, datetime.date | datetime.time) else str(cell)
    return text.strip(" \t") or None
