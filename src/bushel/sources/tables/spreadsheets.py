"""Spreadsheets: the rows of one sheet of an Excel file."""

from __future__ import annotations

import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from typing import Annotated, Any, NamedTuple

import numpy as np

from bushel.errors import FileProblem, MissingName, missing_package
from bushel.parallel import Helpers
from bushel.sources.protocol import check_values, recipe_table
from bushel.sources.tables.cells import array_of_cells, kind_of_cell, type_of_cells
from bushel.sources.tables.readings import MissingValues
from bushel.sources.tables.table import TableSource
from bushel.sources.tables.table_files import ArrowBlock, Field, Part, Survey
from bushel.storage import AnyPath, as_path, local_copy

__all__ = ["excel"]

_AT_A_TIME = 1000  # rows


def excel(
    path: AnyPath,
    *,
    sheet: Annotated[str | None, "Sheet to read (default: the first)"] = None,
    columns: Annotated[Sequence[str] | None, "Columns to keep (default: all)"] = None,
    rename: Annotated[Mapping[str, str] | None, "New names of columns, by their old names"] = None,
    types: Annotated[Mapping[str, str] | None, 'Types of columns, such as zip = "str"'] = None,
    key: Annotated[str | None, "Column that identifies a sample (default: the row number)"] = None,
    missing_values: MissingValues = None,
) -> SheetSource:
    """Take a sample from each row of a sheet of an Excel file (.xlsx), whose first row names the columns.

    Needs `pip install "bushel[excel]"`. Rows are streamed, twice: first for types. A column of numbers and text is
    text.
    """
    given = locals()
    check_values(excel, given)
    if missing := [name for name in ("openpyxl", "pyarrow") if find_spec(name) is None]:
        raise missing_package(missing[0], extra="excel", purpose="reading Excel files")
    source = SheetSource(
        files=(str(path),),
        format="excel",
        recipe=recipe_table(excel, str(path), given),
        columns=None if columns is None else tuple(columns),
        rename=dict(rename or {}),
        types=dict(types or {}),
        key=key,
        missing_values=None if missing_values is None else tuple(missing_values),
        sheet=sheet,
    )
    source.check()
    return source


@dataclass(frozen=True)
class SheetSource(TableSource):
    """Samples from the rows of a sheet; reads in sequence, in one partition."""

    sheet: str | None = None

    def _open(self, file: int) -> SheetFile:
        return SheetFile(SheetRows(self.files[file], self.sheet), self.text_columns)


class SheetBlock(NamedTuple):
    """Some rows: the names of columns, and tuples of values."""

    names: list[str]
    values: Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class SheetFile:
    """A sheet as the file of a table, in one part. What a column holds is decided by all of its cells."""

    rows: SheetRows
    text: frozenset[str] = frozenset()  # columns to keep as text

    def survey(self, helpers: Helpers = None) -> Survey:  # noqa: ARG002
        """Look at all cells for the types of columns."""
        kinds: dict[str, Counter[str]] = defaultdict(Counter)
        rows = 0
        for names, values in self.rows():
            for name, cells in zip(names, zip(*values, strict=True), strict=True):
                kinds[name].update(map(kind_of_cell, cells))
            rows += len(values)
        empty = [name for name, counts in kinds.items() if set(counts) == {"nothing"}]
        fields: dict[str, Field] = {}
        mixed: dict[str, int] = {}
        for name, counts in kinds.items():
            if name in empty:
                continue
            nothing = rows - sum(counts.values()) + counts.pop("nothing", 0)
            fields[name] = Field(type_of_cells({"text"} if name in self.text else counts), nothing > 0)
            if counts["text"] and name not in self.text:
                mixed[name] = sum(counts.values()) - counts["text"]
        return Survey(fields, (Part(0, 1, 0, rows),), {"mixed": mixed}, counted=self._notes(empty))

    def _notes(self, empty: list[str]) -> dict[str, int]:
        """What is not read, for people."""
        found: dict[str, int] = {}
        if empty:
            what = f"column{'s' * (len(empty) > 1)} without a value, left out: {', '.join(empty[:5])}"
            found[f"{what} (formulas have values once Excel has saved them)"] = len(empty)
        others = self.rows.others if self.rows.sheet is None else []
        if others:
            what = f"other sheet{'s' * (len(others) > 1)}, not read: {', '.join(others[:5])}"
            found[f"{what} (--set sheet=NAME)"] = len(others)
        return found

    def read(self, survey: Survey, part: Part, names: list[str]) -> Iterator[ArrowBlock]:
        """The rows again, with the types of whole columns."""
        assert part in survey.parts
        first = 0
        for given, values in self.rows():
            cells = dict(zip(given, zip(*values, strict=True), strict=True))
            nothing = (None,) * len(values)
            arrays = {name: array_of_cells(cells.get(name, nothing), survey.fields[name].type) for name in names}
            rows = np.arange(first, first + len(values))
            first += len(values)
            yield ArrowBlock(arrays, rows, [])


class SheetRows:
    """The rows of a sheet, from the beginning at each call."""

    def __init__(self, path: str, sheet: str | None) -> None:
        self.path, self.sheet = path, sheet
        self.others: list[str] = []  # sheets, once one was read

    def __call__(self) -> Iterator[SheetBlock]:
        import openpyxl

        try:
            book = openpyxl.load_workbook(local_copy(as_path(self.path)), read_only=True, data_only=True)
        except Exception as error:  # of zip, XML and openpyxl
            raise FileProblem(self.path, f"cannot be read as an Excel file: {error}") from None
        try:
            if self.sheet is not None and self.sheet not in book.sheetnames:
                raise MissingName("sheet", self.sheet, book.sheetnames, where=self.path)
            if not book.worksheets:
                raise FileProblem(self.path, "has no sheet with cells")
            sheet = book[self.sheet] if self.sheet is not None else book.worksheets[0]
            self.others = [other.title for other in book.worksheets if other is not sheet]
            yield from self._named(self._rows(sheet))
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

    def _named(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[SheetBlock]:
        first = next((row for row in rows if any(value is not None for value in row)), ())
        if not first:
            raise FileProblem(self.path, "the sheet is empty")
        names = [f"column{at}" if name is None else str(name).strip() for at, name in enumerate(first)]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise FileProblem(self.path, f"two columns have the same name: {twice}")
        empty = (None,) * len(first)
        while some := list(islice(rows, _AT_A_TIME)):
            filled = [row for row in some if row != empty and any(value is not None for value in row)]
            width = max(map(len, filled), default=0)
            names += [f"column{at}" for at in range(len(names), width)]
            if any(len(row) < len(names) for row in filled):
                filled = [(*row, *[None] * (len(names) - len(row))) for row in filled]
            if filled:
                yield SheetBlock(list(names), filled)
