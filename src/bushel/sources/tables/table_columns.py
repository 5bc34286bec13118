"""Columns of tables before they are read: types, keys, missing rows, and names for codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, with_missing
from bushel.errors import SchemaMismatch
from bushel.parallel import Helpers
from bushel.sources.protocol import Refused
from bushel.sources.tables import arrow

__all__ = [
    "ArrowBlock",
    "Capture",
    "Field",
    "Part",
    "Survey",
    "TableFile",
    "as_text",
    "common_type",
    "few_values",
    "named",
    "part_bytes",
    "present_rows",
]


PART_BYTES = 64 << 20  # most bytes of a part
_LEAST_BYTES = 8 << 20  # least bytes of a part: each part is a task, and writes files
_PARTS = 64  # of a file, so that many workers share it


def part_bytes(size: int) -> int:
    """The size of a part of a file of this size, chosen so that workers can share even a small file.

    It depends on the file alone, so parts are the same for any number of workers.
    """
    return min(PART_BYTES, max(_LEAST_BYTES, size // _PARTS))


class Part(NamedTuple):
    """What is read separately: row groups, batches or bytes [first, last) of one file."""

    first: int
    last: int
    first_row: int  # its number in the file
    rows: int


class Field(NamedTuple):
    """One column: its Arrow type, and whether a row lacks it."""

    type: Any
    has_missing: bool


@dataclass(frozen=True)
class Survey:
    """What a scan found in one file."""

    fields: dict[str, Field]  # structs as `outer/inner`
    parts: tuple[Part, ...]
    details: dict[str, Any] = field(default_factory=dict)  # what the format needs to read the parts
    captured: dict[str, list[list[Any]]] = field(default_factory=dict)  # arrays that were kept, by column and part
    counted: dict[str, int] = field(default_factory=dict)  # notes for people, by kind


class ArrowBlock(NamedTuple):
    """Some rows of a part as Arrow arrays, before they become a `Block`: their numbers, and those refused."""

    arrays: dict[str, Any]
    rows: NDArray[np.int64]
    refused: list[Refused]


class TableFile(Protocol):
    """One file of a format."""

    def survey(self, helpers: Helpers = None) -> Survey:
        """Scan the file, together with helpers."""
        ...

    def read(self, survey: Survey, part: Part, names: list[str]) -> Iterator[ArrowBlock]:
        """The named columns, in blocks of bounded size."""
        ...


def present_rows(column: Ragged) -> NDArray[np.bool_]:
    """Which rows have a value."""
    return np.ones(len(column), bool) if column.present is None else column.present


def as_text(column: Column) -> BytesColumn:
    """Keys as text: text as it is, integers as their digits."""
    if isinstance(column, BytesColumn):
        return column
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "iu":
        try:
            import pyarrow as pa
        except ImportError:
            return BytesColumn.of([str(number) for number in column.tolist()])
        return arrow.to_bytes(pa.array(column).cast(pa.string()))
    raise SchemaMismatch("a key must be one text or integer per row", at="key")


def named(column: Column, names: Sequence[str]) -> Column:
    """Codes as names; a negative code has no name."""
    if isinstance(column, Ragged):
        return Ragged(named(column.values, names), column.row_splits, column.present)
    assert isinstance(column, np.ndarray)
    known = BytesColumn.of(names)
    if (column >= 0).all():
        return known.take(column)
    return with_missing(known.take(column[column >= 0]), column >= 0)


def common_type(one: Any, other: Any, at: str) -> Any:
    """The Arrow type that holds the values of two files."""
    import pyarrow as pa
    import pyarrow.types as t

    if one == other or t.is_null(other):
        return one
    if t.is_null(one):
        return other
    try:
        both = [pa.schema([("x", kind)]) for kind in (one, other)]
        return pa.unify_schemas(both, promote_options="permissive")[0].type
    except pa.ArrowException:
        help = ["types={...} says which type the column is to have."]
        what = f"the column is {other} in this file and {one} in those before"
        raise SchemaMismatch(what, at=at, help=help) from None


_MOST_VALUES = 127  # so that a row takes one byte


def few_values(column: Any) -> Any | None:
    """A column of text or integers as a dictionary, if it has few distinct values."""
    import pyarrow as pa

    if not (pa.types.is_string(column.type) or pa.types.is_integer(column.type)):
        return None
    # Most columns with many values show that in their first rows.
    if len(column.slice(0, 2 * _MOST_VALUES).unique()) > _MOST_VALUES:
        return None
    array = column.combine_chunks().dictionary_encode()
    if len(array.dictionary) > _MOST_VALUES:
        return None
    return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int8()), array.dictionary)


class Capture:
    """What was kept of a file: the blocks of each part, by column."""

    def __init__(self, names: list[str]) -> None:
        self.names = set(names)
        self.parts: list[dict[str, list[Any]]] = []

    def add(self, part: int, block: dict[str, Any]) -> None:
        """Keep the columns of a block; one that it lacks is not kept at all."""
        self.names &= set(block)
        if part == len(self.parts):
            self.parts.append({})
        for name in self.names:
            self.parts[part].setdefault(name, []).append(block[name])

    def of_types(self, types: dict[str, Any]) -> dict[str, list[list[Any]]]:
        """Columns that had their final type in every block; others would be listed with the wrong type."""
        found = {}
        for name in sorted(self.names):
            blocks = [block for part in self.parts for block in part[name]]
            if all(block.type.value_type == types[name] for block in blocks):
                found[name] = [part[name] for part in self.parts]
        return found
