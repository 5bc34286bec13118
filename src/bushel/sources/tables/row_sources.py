"""Databases and spreadsheets, read row by row: SQLite, connections of Python's DB-API, Excel."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from bushel.errors import FileProblem, MissingName, missing_package
from bushel.sources.memory.iterables import IterableSource
from bushel.sources.options import check_values, recipe_table
from bushel.sources.protocol import fingerprint_of
from bushel.storage import AnyPath, as_path, local_copy

__all__ = ["RowSource", "excel", "sql"]

_AT_A_TIME = 1000  # rows that are fetched together


class RowSource(IterableSource):
    """Samples from rows that a function reads from files; reads in sequence, in one partition."""

    def __init__(
        self,
        read: Callable[[], Iterator[dict[str, Any]]],
        files: list[Path],
        recipe: dict[str, Any],
        key: str | None = None,
    ) -> None:
        super().__init__(read, key)
        self.files, self.recipe = files, recipe
        self.name = str(files[0]) if files else self.name

    def fingerprint(self) -> str:
        """Names, sizes and times of the files, and the options; for a connection, its rows."""
        return fingerprint_of(self.files, self.recipe) if self.files else super().fingerprint()

    def describe(self) -> dict[str, Any]:
        """The path and options; a recipe cannot restore a connection."""
        return dict(self.recipe)


def sql(
    source: AnyPath | Any,
    *,
    query: Annotated[str | None, "Query whose rows are samples (default: the only table)"] = None,
    key: Annotated[str | None, "Column that identifies a sample (default: the row number)"] = None,
) -> RowSource:
    """Take a sample from each row of a query: of an SQLite file, or of a connection of Python's DB-API.

    Rows are streamed, twice: first for types. A query with ORDER BY gives the same rows in the same order; SQLite is
    opened to read only.
    """
    given = {"query": query, "key": key}
    check_values(sql, given)
    if hasattr(source, "cursor"):
        if query is None:
            raise ValueError("query must be given: a connection has no table of its own")
        digest = hashlib.blake2b(query.encode(), digest_size=8).hexdigest()
        return RowSource(partial(_rows_of, source, query), [], {"kind": "sql", "query": digest}, key)
    path = as_path(source)
    query = query or f"SELECT * FROM {_only_table(path)}"
    recipe = recipe_table(sql, str(source), given | {"query": query})
    return RowSource(_SqliteRows(str(path), query), [path], recipe, key)


class _SqliteRows:
    """The rows of a query, from the beginning at each call. It pickles, unlike a connection."""

    def __init__(self, path: str, query: str) -> None:
        self.path, self.query = path, query

    def __call__(self) -> Iterator[dict[str, Any]]:
        connection = _open_sqlite(as_path(self.path))
        try:
            yield from _rows_of(connection, self.query, self.path)
        finally:
            connection.close()


def _open_sqlite(path: Path) -> sqlite3.Connection:
    if not path.exists():
        raise FileProblem(path, "there is no such file")
    return sqlite3.connect(f"{local_copy(path).resolve().as_uri()}?mode=ro", uri=True)


def _only_table(path: Path) -> str:
    """The name of the table in a file, quoted. A view computes its rows, perhaps without end: it must be asked for."""
    connection = _open_sqlite(path)
    try:
        found = connection.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
        kinds = {str(name): str(kind) for name, kind in found if not name.startswith("sqlite_")}
    except sqlite3.DatabaseError as error:
        raise FileProblem(path, f"cannot be read as SQLite: {error}") from None
    finally:
        connection.close()
    names = [name for name, kind in kinds.items() if kind == "table"]
    if len(names) != 1:
        help = [f'Choose rows by a query: --set query="SELECT * FROM {next(iter(kinds))}"'] if kinds else []
        held = ", ".join(names[:8])
        raise FileProblem(path, f"has {len(names)} tables{': ' * bool(names)}{held}", help=help)
    return '"' + names[0].replace('"', '""') + '"'


def _rows_of(connection: Any, query: str, where: str = "query") -> Iterator[dict[str, Any]]:
    cursor = connection.cursor()
    try:
        cursor.execute(query)
    except Exception as error:  # each driver has its own
        raise ValueError(f"{where}: the query failed: {error}") from None
    names = [str(column[0]) for column in cursor.description]
    while rows := cursor.fetchmany(_AT_A_TIME):
        for row in rows:
            yield {name: _plain(value) for name, value in zip(names, row, strict=True)}
    cursor.close()


def excel(
    path: AnyPath,
    *,
    sheet: Annotated[str | None, "Sheet to read (default: the first)"] = None,
    key: Annotated[str | None, "Column that identifies a sample (default: the row number)"] = None,
) -> RowSource:
    """Take a sample from each row of a sheet of an Excel file (.xlsx), whose first row names the columns.

    Needs `pip install "bushel[excel]"`. Rows are streamed, twice: first for types.
    """
    given = {"sheet": sheet, "key": key}
    check_values(excel, given)
    return RowSource(_SheetRows(str(path), sheet), [as_path(path)], recipe_table(excel, str(path), given), key)


class _SheetRows:
    """The rows of a sheet, from the beginning at each call."""

    def __init__(self, path: str, sheet: str | None) -> None:
        self.path, self.sheet = path, sheet

    def __call__(self) -> Iterator[dict[str, Any]]:
        try:
            import openpyxl
        except ImportError:
            raise missing_package("openpyxl", extra="excel", purpose="reading Excel files") from None
        try:
            book = openpyxl.load_workbook(local_copy(as_path(self.path)), read_only=True, data_only=True)
        except Exception as error:  # of zip, XML and openpyxl
            raise FileProblem(self.path, f"cannot be read as an Excel file: {error}") from None
        try:
            if self.sheet is not None and self.sheet not in book.sheetnames:
                raise MissingName("sheet", self.sheet, book.sheetnames, where=self.path)
            sheet = book[self.sheet] if self.sheet is not None else book.worksheets[0]
            yield from self._samples(self._rows(sheet))
        finally:
            book.close()

    def _rows(self, sheet: Any) -> Iterator[tuple[Any, ...]]:
        """The cells of each row. A sheet that claims more cells than its file has bytes is read as far as it goes."""
        with zipfile.ZipFile(local_copy(as_path(self.path))) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if (sheet.max_row or 0) * (sheet.max_column or 0) > size:
            sheet.reset_dimensions()
        try:
            yield from sheet.iter_rows(values_only=True)
        except Exception as error:  # of zip, XML and openpyxl
            raise FileProblem(self.path, f"cannot be read as an Excel file: {error}") from None

    def _samples(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        first = next((row for row in rows if any(value is not None for value in row)), ())
        if not first:
            raise FileProblem(self.path, "the sheet is empty")
        names = [f"column{at}" if name is None else str(name).strip() for at, name in enumerate(first)]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise FileProblem(self.path, f"two columns have the same name: {twice}")
        for row in rows:
            if any(value is not None for value in row):
                names += [f"column{at}" for at in range(len(names), len(row))]
                padded = (*row, *[None] * (len(names) - len(row)))
                yield {name: _plain(value) for name, value in zip(names, padded, strict=True)}


def _plain(value: Any) -> Any:
    """A value as a sample holds it: dates as text, as in other tables."""
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return value.strip(" \t") or None
    return bytes(value) if isinstance(value, memoryview) else value
