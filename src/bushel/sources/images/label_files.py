"""A table with the labels of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, concatenate, take, with_missing
from bushel.errors import BushelError, FileProblem, MissingName
from bushel.sources.folders import FileList
from bushel.sources.tables.table import TableSource, table

__all__ = ["find_label_file", "read_label_file"]

_FILE_NAMES = ("file_name", "filename", "file", "path", "image", "image_path", "image_id", "id", "key", "name")
_LABEL_NAMES = ("label", "class", "category", "target", "species", "y")


def find_label_file(folder: Path, files: FileList) -> str | None:
    """The only table at the top of a folder of images, if its rows describe them."""
    if len(files.tables) != 1:
        return None
    found = folder / files.tables[0]
    try:
        _file_column(table(found), _row_numbers(files.paths), str(found))
    except BushelError:
        return None
    return str(found)


def read_label_file(
    given: str | Mapping[str, Any], paths: BytesColumn, label_column: str | None
) -> tuple[dict[str, Column], dict[str, int]]:
    """Label of each path, its split if there is such a column, and the number of labels without a file."""
    rows = _row_numbers(paths)
    if isinstance(given, Mapping):
        places = _places(rows, [str(name).encode() for name in given])
        from bushel.sources.memory.values import nullable_column

        labels = nullable_column([*given.values()], name="labels")
        return {"label": _spread(labels, places, len(paths))}, _strangers(places)
    source = table(given)
    file_column = _file_column(source, rows, given)
    label = label_column or _label_column(source, file_column, given)
    names = [file_column, label, *(["split"] if "split" in source.schema() and label != "split" else [])]
    listings = [source.list(part, names) for part in range(source.partitions())]
    columns = {name: concatenate([listing.columns[name] for listing in listings]) for name in names}
    places = _places(rows, _texts(columns[file_column]))
    found: dict[str, Column] = {"label": _spread(columns[label], places, len(paths))}
    if "split" in columns:
        found["split"] = _spread(columns["split"], places, len(paths))
    return found, _strangers(places)


def _strangers(places: NDArray[np.int64]) -> dict[str, int]:
    count = int((places < 0).sum())
    return {"labels of files that are not there": count} if count else {}


def _row_numbers(paths: BytesColumn) -> dict[bytes, int]:
    """Rows by the names that a table may use for files: whole path, name, or name without suffix.

    A name that several files have, in different folders, stands for none of them.
    """
    rows: dict[bytes, int] = {}
    for shorten in (_stem, _name, bytes):
        own: dict[bytes, int] = {}
        for row, path in enumerate(paths):
            name = shorten(path)
            own[name] = -1 if name in own else row
        rows |= own
    return rows


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _stem(path: bytes) -> bytes:
    return _name(path).rpartition(b".")[0]


def _texts(column: Column) -> list[bytes]:
    if isinstance(column, np.ndarray):
        return [str(value).encode() for value in column.tolist()]
    if isinstance(column, Ragged):
        return [str(row[0]).encode() if isinstance(row, list) else b"" for row in _rows(column)]
    return column.to_list()


def _rows(column: Ragged) -> list[Any]:
    return [
        [value.decode() if isinstance(value, bytes) else value for value in row] if row else None
        for row in column.to_list()
    ]


def _places(rows: dict[bytes, int], names: list[bytes]) -> NDArray[np.int64]:
    """The file that each name refers to; -1 if there is none."""
    return np.array([rows.get(name, rows.get(name.removeprefix(b"./"), -1)) for name in names], np.int64)


def _file_column(source: TableSource, rows: dict[bytes, int], where: str) -> str:
    """The column of file names, found by its first values, or by its own name if several match."""
    candidates = []
    for name in sorted(source.schema(), key=lambda name: name.lower() not in _FILE_NAMES):
        column = source.list(0, [name]).columns[name] if source.partitions() else BytesColumn.of([])
        first = _texts(take(column, np.arange(min(len(column), 100))))
        if first and (_places(rows, first) >= 0).mean() >= 0.5:
            candidates.append(name)
    if not candidates:
        columns = ", ".join(source.schema())
        raise FileProblem(where, "no column holds the names of the files", help=[f"Its columns are: {columns}"])
    return candidates[0]


def _label_column(source: TableSource, file_column: str, where: str) -> str:
    others = [name for name in source.schema() if name not in (file_column, "split")]
    named = [name for name in others if name.lower() in _LABEL_NAMES]
    if len(named) == 1 or len(others) == 1:
        return (named or others)[0]
    if not others:
        raise MissingName("column", "label", source.schema(), where=where)
    raise FileProblem(
        where,
        f"cannot tell which column is the label: {', '.join(others)}",
        help=["Name it: --set label_column=COLUMN"],
    )


def _spread(column: Column, places: NDArray[np.int64], rows: int) -> Column:
    """A column by file from a column by row; if two rows are about one file, the last one counts."""
    order = np.full(rows, -1, np.int64)
    there = places >= 0
    order[places[there]] = np.flatnonzero(there)
    if (order >= 0).all():
        return take(column, order)
    return with_missing(take(column, order[order >= 0]), order >= 0)
