"""Databases, read row by row: SQLite, and connections of Python's DB-API."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column
from bushel.data.samples import to_columns
from bushel.data.schema import Feature
from bushel.errors import BushelError, FileProblem, MissingName
from bushel.sources.in_memory import Census, IterableSource, as_key, fitting, number_keys, optional
from bushel.sources.protocol import Block, Listing, check_values, fingerprint_of, recipe_table
from bushel.sources.tables import arrow
from bushel.storage import AnyPath, as_path, local_copy, refuse_special, status_of

__all__ = ["RowSource", "sql"]

_AT_A_TIME = 1000  # rows that are fetched together
_AT_ONCE = 64 << 20  # bytes of those rows
_LEAST_HELD = 1 << 20  # bytes
_SIZED = (bytes, str)
_COMPUTED = 8  # times as many bytes as the file has, which its rows may hold
_LEAST_STEPS, _STEPS_PER_BYTE = 50_000_000, 5_000  # of a query: seconds for a small file, hours for a large one
_TICK = 1_000_000  # steps between two looks at how many were taken
_LONGEST_COMPUTED = 256 << 20  # bytes of one value


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


class NamedRows(NamedTuple):
    """Some rows: the names of columns, and tuples of values."""

    names: list[str]
    values: Sequence[tuple[Any, ...]]


class ColumnSource(RowSource):
    """Samples from rows that come many at a time, from one function or several: a partition each."""

    def __init__(
        self,
        parts: Sequence[Callable[[], Iterator[NamedRows]]],
        files: list[Path],
        recipe: dict[str, Any],
        key: str | None,
    ) -> None:
        super().__init__(lambda: iter(()), files, recipe, key)
        self.samples = ()
        self.parts = parts
        self.name = str(files[0]) if files else "query"
        self.empty: list[str] = []  # columns without a value, once rows were looked at

    def _columns(self, partition: int) -> Iterator[tuple[int, dict[str, list[Any]]]]:
        """Rows, some at a time: how many they are, and their columns."""
        for names, rows in self.parts[partition]():
            columns = zip(names, zip(*rows, strict=True), strict=True)
            yield len(rows), {name: _plain_column(values) for name, values in columns}

    @cached_property
    def surveyed(self) -> tuple[dict[str, Feature], list[Any], list[int]]:
        """The features, the keys of all rows if `key` names them, and how many rows each partition has."""
        census = Census()
        keys: list[Any] = []
        counts: list[int] = []
        names: dict[str, None] = {}
        for partition in range(len(self.parts)):
            before = census.samples
            for rows, columns in self._columns(partition):
                census.add_columns(columns, rows)
                names |= dict.fromkeys(columns)
                if self.key is not None:
                    keys += columns.get(self.key, [None] * rows)
            counts.append(census.samples - before)
        if self.key is not None and self.key not in census.found:
            raise MissingName("column", self.key, census.found, where=self.name)
        self.empty = [name for name in names if name not in census.found]
        return census.features(), keys, counts

    def counted(self) -> dict[str, int]:
        """Notes for people about what is not read, by kind."""
        self.surveyed  # noqa: B018, which looks at the rows
        what = f"column{'s' * (len(self.empty) > 1)} without a value, left out: {', '.join(self.empty[:5])}"
        return {what: len(self.empty)} if self.empty else {}

    @property
    def survey(self) -> tuple[dict[str, Feature], list[Any]]:
        """The features, and a key per row."""
        features, keys, counts = self.surveyed
        return features, keys if self.key is not None else [None] * sum(counts)

    def partitions(self) -> int:
        """One, or as many as the query is cut into."""
        return len(self.parts)

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys, and the requested columns; values that do not fit are missing."""
        features, keys, counts = self.surveyed
        first, rows = sum(counts[:partition]), counts[partition]
        wanted = {name: features[name] for name in columns if name in features}
        found: dict[str, Column] = {}
        if wanted:
            fit = [
                fitting({name: values[row] for name, values in own.items()}, wanted)
                for count, own in self._columns(partition)
                for row in range(count)
            ]
            found = to_columns(fit, {name: optional(feature) for name, feature in wanted.items()})
        numbers = number_keys(first, rows)
        counted = self.counted() if partition == 0 else {}
        if self.key is None:
            return Listing(numbers, found, counted=counted)
        stated = [numbers[row] if key is None else as_key(key) for row, key in enumerate(keys[first : first + rows])]
        return Listing(BytesColumn.of(stated), found, counted=counted)

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """All rows of a partition, in order."""
        if rows is not None:
            raise ValueError("rows must be None: a query is read in sequence")
        features, _, counts = self.surveyed
        first = 0
        for count, columns in self._columns(partition):
            yield self._block_of(columns, count, first, features)
            first += count
        if first != counts[partition]:
            raise BushelError(f"{self.name}: gave {counts[partition]} rows the first time and {first} the second")

    def _block_of(
        self, columns: Mapping[str, Sequence[Any]], rows: int, first: int, features: dict[str, Feature]
    ) -> Block:
        """Columns as they are; if a value does not fit, rows are looked at one by one."""
        nothing = [None] * rows
        found = {name: _column(columns.get(name, nothing), feature) for name, feature in features.items()}
        has_keys = self.key is None or None not in columns.get(self.key, nothing)
        if has_keys and all(column is not None for column in found.values()):
            return Block(
                np.arange(first, first + rows), {name: column for name, column in found.items() if column is not None}
            )
        samples = [{name: values[row] for name, values in columns.items()} for row in range(rows)]
        return self._block(samples, first, features)

    def locate(self, partition: int, row: int) -> str:
        """The number of the row, counted from 0."""
        return f"{self.name}: row {sum(self.surveyed[2][:partition]) + row}"


_TYPES: dict[str, set[type]] = {"int64": {int}, "float32": {int, float}, "str": {str}, "bytes": {bytes}}


def _column(values: Sequence[Any], feature: Feature) -> Column | None:
    """Single values of the type of a feature as a column, made by Arrow; None if some are not, or it is missing."""
    try:
        import pyarrow as pa
    except ImportError:
        return None
    kinds = {"int64": pa.int64(), "float32": pa.float64(), "str": pa.large_string(), "bytes": pa.large_binary()}
    is_single = feature.shape == () and not feature.sequence and feature.dtype in kinds
    if not is_single or not set(map(type, values)) - {type(None)} <= _TYPES[feature.dtype]:
        return None
    try:
        return arrow.to_column(pa.array(values, kinds[feature.dtype]), {})
    except (pa.ArrowInvalid, OverflowError, UnicodeError):  # integers beyond int64, lone surrogates
        return None


def sql(
    source: AnyPath | Any,
    *,
    query: Annotated[str | None, "Query whose rows are samples (default: the only table)"] = None,
    key: Annotated[str | None, "Column that identifies a sample (default: the row number)"] = None,
    part_by: Annotated[
        str | None, "Column of integers by which the query is cut into parts, to read them in parallel"
    ] = None,
    parts: Annotated[int, "Number of parts, if part_by is given"] = 8,
    unlimited: Annotated[bool, "Let a query compute for as long as it takes"] = False,
) -> ColumnSource:
    """Take a sample from each row of a query: of an SQLite file, or of a connection of Python's DB-API or of ADBC.

    In place of a connection, a function that makes one can be given; each worker then calls it for its own. Rows are
    streamed, twice: first for types. A query with ORDER BY gives the same rows in the same order. SQLite is opened to
    read only, and a query that computes far more than its file holds is ended, unless `unlimited`. With `part_by`,
    ranges of that column are partitions, which workers read in parallel, in its order.
    """
    stated = {"query": query, "key": key, "part_by": part_by, "parts": parts, "unlimited": unlimited}
    check_values(sql, stated)
    given = stated | {"parts": parts if part_by is not None else None}
    if parts < 1:
        raise ValueError(f"parts must be at least 1, got {parts}")
    if hasattr(source, "cursor") or callable(source):
        if query is None:
            raise ValueError("query must be given: a connection does not say which table to read")
        digest = hashlib.blake2b(query.encode(), digest_size=8).hexdigest()
        recipe: dict[str, Any] = {"kind": "sql", "query": digest}
        return ColumnSource(_parts_of(_Query(source, query), part_by, parts), [], recipe, key)
    path = as_path(source)
    if query is not None:
        _refuse_other_than_reading(query)
    size = status_of(path).size if path.exists() else 0
    most = None if query is not None else size
    query = query or f"SELECT * FROM {_only_table(path)}"
    recipe = recipe_table(sql, str(source), given | {"query": query})
    steps = None if unlimited else _LEAST_STEPS + _STEPS_PER_BYTE * size
    return ColumnSource(_parts_of(_Query(str(path), query, most, steps), part_by, parts), [path], recipe, key)


@dataclass(frozen=True)
class _Query:
    """The rows of a query, from the beginning at each call. A path, or a function that connects, can be pickled."""

    database: Any  # a path, a connection, or a function that makes one
    query: str
    held: int | None = None  # bytes of the file, of which rows that nobody asked to compute cannot hold much more
    steps: int | None = None  # of SQLite's machine, after which it is taken for one that never ends

    def __call__(self) -> Iterator[NamedRows]:
        with self._connected() as connection:
            if self.held is not None:
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(self.held, _LEAST_HELD))
            elif self.steps is not None:
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_COMPUTED)
            cursor = connection.cursor()
            self._ask(cursor, self.query)
            names = [str(column[0]) for column in cursor.description]
            for rows in self._rows(cursor) if self.held is None else self._held_rows(cursor, self.held):
                yield NamedRows(names, rows)
            cursor.close()

    def _rows(self, cursor: Any) -> Iterator[Sequence[tuple[Any, ...]]]:
        while rows := self._fetch(cursor):
            yield rows

    def _fetch(self, cursor: Any) -> Sequence[tuple[Any, ...]]:
        try:
            return cast("list[tuple[Any, ...]]", cursor.fetchmany(_AT_A_TIME))
        except sqlite3.Error as error:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> BushelError | ValueError:
        """What to say about a query that failed."""
        where = self.database if isinstance(self.database, str) else "query"
        is_long = str(error) == "interrupted" or (self.held is None and str(error) == "string or blob too big")
        if self.steps is not None and is_long:
            help = ["If that is what it should do: --set unlimited=true"]
            return FileProblem(where, "the query computes far more than the file holds, and was ended", help=help)
        return ValueError(f"{where}: the query failed: {error}")

    def _held_rows(self, cursor: Any, held: int) -> Iterator[Sequence[tuple[Any, ...]]]:
        """Rows of a table. A file of a few bytes may compute values without end, which nobody asked for."""
        rows: list[tuple[Any, ...]] = []
        given = yielded = 0
        try:
            for row in cursor:
                rows.append(row)
                given += sum(len(value) for value in row if type(value) in _SIZED)
                if len(rows) == _AT_A_TIME or given - yielded > _AT_ONCE:
                    if given > _COMPUTED * max(held, _LEAST_HELD):
                        what = f"its rows hold more than {given:,} bytes, and the file {held:,}: they are computed"
                        raise FileProblem(self.database, what, help=["Name the columns: --set query='SELECT …'"])
                    yield rows
                    rows, yielded = [], given
        except (sqlite3.DataError, sqlite3.OperationalError) as error:
            if str(error) == "interrupted":
                raise self._failed(error) from None
            raise FileProblem(self.database, f"a row cannot be read: {error}") from None
        if rows:
            yield rows

    def one(self, query: str) -> tuple[Any, ...]:
        """The only row of another query."""
        with self._connected() as connection:
            cursor = connection.cursor()
            self._ask(cursor, query)
            found = tuple(cursor.fetchone())
            cursor.close()
            return found

    def _ask(self, cursor: Any, query: str) -> None:
        try:
            cursor.execute(query)
        except Exception as error:  # each driver has its own
            raise self._failed(error) from None

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        if hasattr(self.database, "cursor"):
            yield self.database
            return
        connection = _open_sqlite(as_path(self.database)) if isinstance(self.database, str) else self.database()
        if self.steps is not None:
            left = iter(range(self.steps // _TICK))
            connection.set_progress_handler(lambda: next(left, None) is None, _TICK)
        try:
            yield connection
        finally:
            connection.close()


def _parts_of(query: _Query, column: str | None, parts: int) -> list[_Query]:
    """The query, or queries for ranges of a column; rows in which it is NULL are in the first."""
    if column is None:
        return [query]
    inner, name = query.query.strip().rstrip(";"), _quoted(column)
    least, most = query.one(f"SELECT MIN({name}), MAX({name}) FROM ({inner}) AS everything")
    if least is None:
        return [query]
    if not isinstance(least, int) or not isinstance(most, int):
        raise ValueError(f"part_by must be a column of integers, got {column!r}, which holds {least!r}")
    edges = [least + (most + 1 - least) * number // parts for number in range(parts + 1)]
    ranges = [(low, high) for low, high in pairwise(edges) if low < high]
    found = []
    for number, (low, high) in enumerate(ranges):
        also = f" OR {name} IS NULL" if number == 0 else ""
        where = f"({name} >= {low} AND {name} < {high}){also}"
        text = f"SELECT * FROM ({inner}) AS everything WHERE {where} ORDER BY {name}"
        found.append(_Query(query.database, text, query.held))
    return found


def _quoted(name: str) -> str:
    """The name of a column as SQL has it; MySQL takes plain names without quotes only."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


def _open_sqlite(path: Path) -> sqlite3.Connection:
    if not path.exists():
        raise FileProblem(path, "there is no such file")
    here = local_copy(path).resolve()
    refuse_special(here)
    connection = sqlite3.connect(f"{here.as_uri()}?mode=ro", uri=True)
    connection.set_authorizer(_may)
    return connection


_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_REACHING = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "zipfile", "fsdir"}


def _may(action: int, name: str | None, inner: str | None, _: str | None, __: str | None) -> int:
    """What a query may do: read tables of its own database, by functions that reach nothing else."""
    if action in _READING or (action == sqlite3.SQLITE_FUNCTION and (inner or "").lower() not in _REACHING):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and name in ("table_info", "table_xinfo", "data_version"):
        return sqlite3.SQLITE_OK  # what full-text search asks for
    return sqlite3.SQLITE_DENY


_SQL_COMMENT = re.compile(r"\s+|--[^\n]*(\n|$)|/\*.*?\*/|\(", re.DOTALL)


def _refuse_other_than_reading(query: str) -> None:
    """Refuse what is not a query: VACUUM INTO writes a file although a database is open to read only."""
    text, at = query, 0
    while (found := _SQL_COMMENT.match(text, at)) is not None:
        at = found.end()
    word = re.match(r"\w*", text[at:])
    if word is None or word[0].upper() not in ("SELECT", "WITH", "VALUES"):
        raise ValueError(f"query must begin with SELECT, WITH or VALUES; got {query.strip()[:40]!r}")


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


def _plain_column(values: Sequence[Any]) -> list[Any]:
    """Values as samples hold them."""
    kinds = set(map(type, values))
    if kinds <= _KEPT:
        return list(values)
    if kinds == {str}:
        return [value.strip(" \t") or None for value in values]
    if kinds <= {*_KEPT, str}:
        return [(value.strip(" \t") or None) if type(value) is str else value for value in values]
    return [_plain(value) for value in values]


_KEPT = {int, float, bool, bytes, type(None)}


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
