"""What the file of a table provides: parts, types and columns; and the files of Parquet and Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, take, with_missing
from bushel.errors import FileProblem, SchemaMismatch
from bushel.parallel import Helpers, available_cores
from bushel.sources.protocol import Refused
from bushel.sources.tables import arrow
from bushel.storage import local_copy

__all__ = [
    "BINARY_FILES",
    "ArrowBlock",
    "ArrowFile",
    "Capture",
    "Few",
    "Field",
    "ParquetFile",
    "Part",
    "Survey",
    "TableFile",
    "as_text",
    "common_type",
    "few_values",
    "joined",
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
    captured: dict[str, list[list[Few]]] = field(default_factory=dict)  # blocks that were kept, by column and part
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


MANY_COLUMNS = 4096  # of which none is kept from the first reading: that would take longer than to read one again
_MOST_VALUES = 127  # so that a row takes one byte


class Few(NamedTuple):
    """A column of few distinct values."""

    codes: NDArray[np.int8]  # the place of each row's value, or -1
    values: list[Any]  # bytes or integers
    type: Any  # of the values in Arrow

    @classmethod
    def of(cls, codes: Any, values: Any) -> Few:
        """From two arrays, as `few_values` has them; rows of a value that is missing lack one, too."""
        import pyarrow as pa

        is_text = pa.types.is_string(values.type)
        given = (values.cast(pa.binary()) if is_text else values).to_pylist()
        kept = [value for value in given if value is not None]
        places = np.array([-1 if value is None else kept.index(value) for value in [*given, None]], np.int8)
        return cls(places[arrow.to_numbers(codes)], kept, values.type)

    def to_arrow(self) -> Any:
        """The values of the rows that have one, as an array."""
        import pyarrow as pa

        there = np.ascontiguousarray(self.codes[self.codes >= 0])
        places = pa.Array.from_buffers(pa.int8(), len(there), [None, pa.py_buffer(there)])
        if pa.types.is_string(self.type):
            return arrow.texts([value.decode() for value in self.values]).take(places)
        return pa.array(self.values, self.type).take(places)


def few_values(column: Any) -> tuple[Any, Any] | None:
    """The codes and the distinct values of a column of text or integers, as arrays, if they are few."""
    import pyarrow as pa

    if not (pa.types.is_string(column.type) or pa.types.is_integer(column.type)):
        return None
    # Most columns with many values show that in their first rows.
    if len(column.slice(0, 2 * _MOST_VALUES).unique()) > _MOST_VALUES:
        return None
    array = column.combine_chunks().dictionary_encode()
    if len(array.dictionary) > _MOST_VALUES:
        return None
    return array.indices.cast(pa.int8()).fill_null(-1), array.dictionary


def joined(blocks: Sequence[Few]) -> Column:
    """The blocks of one column, as a column."""
    import pyarrow as pa

    places: dict[Any, int] = {}
    codes = []
    for _, alike in groupby(blocks, lambda block: id(block.values)):  # blocks of one span share their values
        some = list(alike)
        own = [places.setdefault(value, len(places)) for value in some[0].values]
        codes.append(np.array([*own, -1])[np.concatenate([block.codes for block in some])])
    rows, present = np.concatenate(codes), None
    if rows.min(initial=0) < 0:
        present = rows >= 0
        rows = rows[present]
    is_text = pa.types.is_string(blocks[0].type)
    values = BytesColumn.of(list(places)) if is_text else np.array(list(places), np.int64)
    found = take(values, rows)
    return found if present is None else with_missing(found, present)


class Capture:
    """What was kept of a file: the blocks of each part, by column."""

    def __init__(self, names: list[str]) -> None:
        self.names = set(names)
        self.parts: list[dict[str, list[Few]]] = []

    def add(self, part: int, block: dict[str, Few]) -> None:
        """Keep the columns of a block; one that it lacks is not kept at all."""
        self.names &= set(block)
        if part == len(self.parts):
            self.parts.append({})
        for name in self.names:
            self.parts[part].setdefault(name, []).append(block[name])

    def of_types(self, types: dict[str, Any]) -> dict[str, list[list[Few]]]:
        """Columns that had their final type in every block; others would be listed with the wrong type."""
        found = {}
        for name in sorted(self.names):
            blocks = [block for part in self.parts for block in part[name]]
            if all(block.type == types[name] for block in blocks):
                found[name] = [part[name] for part in self.parts]
        return found


_PIECE_BYTES = 16 << 20
_PIECE_ROWS = 65536


@contextmanager
def _named_errors(path: Path, what: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except FileProblem:
        raise
    except (pa.ArrowException, OSError) as error:
        text = str(error).splitlines()[0]
        raise FileProblem(path, f"cannot be read as {what}: {text[:1].lower()}{text[1:]}") from None


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file; a part is a few row groups."""

    path: Path

    def survey(self, helpers: Helpers = None) -> Survey:  # noqa: ARG002
        """Types and counts from the file's footer."""
        with _named_errors(self.path, "Parquet"):
            file = self._open()
            metadata = file.metadata
            missing = _columns_with_nulls(metadata)
            fields: dict[str, Field] = {}
            roots: dict[str, str] = {}
            for column in file.schema_arrow:
                for name, kind in arrow.flatten_type(column.name, column.type).items():
                    path = name if name == column.name else name.replace("/", ".")
                    fields[name] = Field(kind, column.nullable and missing.get(path, True))
                    roots[name] = column.name
            return Survey(fields, tuple(_row_group_parts(metadata, part_bytes(_size_of(metadata)))), {"roots": roots})

    def _open(self) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetFile(local_copy(self.path), memory_map=True, page_checksum_verification=True)

    def read(self, survey: Survey, part: Part, names: list[str]) -> Iterator[ArrowBlock]:
        """Batches of the part's row groups."""
        with _named_errors(self.path, "Parquet"):
            file = self._open()
            groups = list(range(part.first, part.last))
            size = sum(file.metadata.row_group(group).total_byte_size for group in groups)
            rows = int(max(1, min(_PIECE_ROWS, part.rows * _PIECE_BYTES // max(size, 1))))
            wanted = list(dict.fromkeys(survey.details["roots"][name] for name in names))
            start = 0
            # Every thread of Arrow keeps memory, and workers share the cores anyway.
            is_alone = available_cores() > 1
            for batch in file.iter_batches(rows, row_groups=groups, columns=wanted, use_threads=is_alone):
                arrays = arrow.flatten(batch)
                numbers = np.arange(start, start + batch.num_rows)
                start += batch.num_rows
                if start > part.rows:
                    break
                yield ArrowBlock({name: arrays[name] for name in names}, numbers, [])
            if start != part.rows:
                raise FileProblem(self.path, f"its footer promises {part.rows:,} rows where there are {start:,}")


def _columns_with_nulls(metadata: Any) -> dict[str, bool]:
    """Whether some row is null, by dotted name; columns without statistics and nested ones are not included."""
    found: dict[str, bool] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            statistics = column.statistics
            has_nulls = statistics is None or not statistics.has_null_count or statistics.null_count > 0
            found[column.path_in_schema] = found.get(column.path_in_schema, False) or has_nulls
    return found


def _size_of(metadata: Any) -> int:
    return sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))


def _row_group_parts(metadata: Any, least: int) -> Iterator[Part]:
    first = first_row = rows = size = 0
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        rows += row_group.num_rows
        size += row_group.total_byte_size
        if size >= least or group == metadata.num_row_groups - 1:
            yield Part(first, group + 1, first_row, rows)
            first, first_row, rows, size = group + 1, first_row + rows, 0, 0


def _validated(batch: Any) -> Any:
    """A batch whose offsets and codes are within its buffers, which Arrow itself takes on trust."""
    batch.validate(full=True)
    return batch


@dataclass(frozen=True)
class ArrowFile:
    """An Arrow file (Feather included) or an Arrow stream; a part is a few record batches."""

    path: Path

    def survey(self, helpers: Helpers = None) -> Survey:  # noqa: ARG002
        """Types from the file's schema, and counts from its batches, which are mapped."""
        with _named_errors(self.path, "Arrow"):
            schema, batches = self._batches()
            fields = {
                name: Field(kind, False)
                for column in schema
                for name, kind in arrow.flatten_type(column.name, column.type).items()
            }
            parts: list[Part] = []
            first = first_row = rows = size = number = 0
            for number, batch in enumerate(batches, 1):
                for name, array in arrow.flatten(batch).items():
                    if array.null_count:
                        fields[name] = fields[name]._replace(has_missing=True)
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if size >= PART_BYTES:
                    parts.append(Part(first, number, first_row, rows))
                    first, first_row, rows, size = number, first_row + rows, 0, 0
            if rows:
                parts.append(Part(first, number, first_row, rows))
            return Survey(fields, tuple(parts))

    def _batches(self, first: int = 0) -> tuple[Any, Iterator[Any]]:
        """The schema, and the record batches from number `first` on."""
        import pyarrow as pa

        source = pa.memory_map(str(local_copy(self.path)))
        if source.read(6) == b"ARROW1":
            source.seek(0)
            file = pa.ipc.open_file(source)
            found = (file.get_batch(i) for i in range(first, file.num_record_batches))
            return file.schema, map(_validated, found)
        source.seek(0)
        stream = pa.ipc.open_stream(source)
        return stream.schema, map(_validated, islice(stream, first, None))

    def read(self, survey: Survey, part: Part, names: list[str]) -> Iterator[ArrowBlock]:
        """Slices of the part's batches."""
        assert part in survey.parts
        with _named_errors(self.path, "Arrow"):
            _, batches = self._batches(part.first)
            start = 0
            for batch in islice(batches, part.last - part.first):
                step = int(max(1, min(_PIECE_ROWS, batch.num_rows * _PIECE_BYTES // max(batch.nbytes, 1))))
                for at in range(0, batch.num_rows, step):
                    piece = batch.slice(at, step)
                    arrays = arrow.flatten(piece)
                    rows = np.arange(start, start + piece.num_rows)
                    start += piece.num_rows
                    yield ArrowBlock({name: arrays[name] for name in names}, rows, [])


# To add a format: its class above, a line here, and one in `file_kinds`.
BINARY_FILES: dict[str, Callable[[Path], TableFile]] = {"parquet": ParquetFile, "arrow": ArrowFile}
