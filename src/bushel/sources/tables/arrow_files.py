"""Parquet and Arrow files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bushel.errors import FileProblem
from bushel.parallel import Helpers
from bushel.sources.tables import arrow
from bushel.sources.tables.table_columns import PART_BYTES, ArrowBlock, Field, Part, Survey, part_bytes
from bushel.storage import local_copy

__all__ = ["ArrowFile", "ParquetFile"]

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

        return pq.ParquetFile(local_copy(self.path), memory_map=True)

    def read(self, survey: Survey, part: Part, names: list[str]) -> Iterator[ArrowBlock]:
        """Batches of the part's row groups."""
        with _named_errors(self.path, "Parquet"):
            file = self._open()
            groups = list(range(part.first, part.last))
            size = sum(file.metadata.row_group(group).total_byte_size for group in groups)
            rows = int(max(1, min(_PIECE_ROWS, part.rows * _PIECE_BYTES // max(size, 1))))
            wanted = list(dict.fromkeys(survey.details["roots"][name] for name in names))
            start = 0
            for batch in file.iter_batches(rows, row_groups=groups, columns=wanted):
                arrays = arrow.flatten(batch)
                numbers = np.arange(start, start + batch.num_rows)
                start += batch.num_rows
                yield ArrowBlock({name: arrays[name] for name in names}, numbers, [])


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
            return file.schema, (file.get_batch(i) for i in range(first, file.num_record_batches))
        source.seek(0)
        stream = pa.ipc.open_stream(source)
        return stream.schema, islice(stream, first, None)

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
