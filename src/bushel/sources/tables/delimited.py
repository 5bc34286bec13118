"""CSV and its kin: types inferred from the whole file, rows of the wrong width refused one by one."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bushel.errors import FileProblem
from bushel.parallel import map_in_threads
from bushel.sources.protocol import Refused
from bushel.sources.tables.arrow import BadRows, cast_text
from bushel.sources.tables.table_columns import ArrowBlock, Capture, Field, Part, Survey, few_values, part_bytes
from bushel.sources.texts.text_blocks import TextBlock, TextFile, check_utf8, cut_at_newline, is_utf8

__all__ = ["DelimitedFile"]

_DELIMITERS = (",", ";", "\t", "|")
# What stands for a number that is missing. In a column of text only a blank does: NA may be Namibia.
_NO_NUMBER = ["", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "NaN", "nan", "-nan", "<NA>"]
_BEYOND_INT64 = 2.0**63


class _Parsed(NamedTuple):
    """One block, parsed: how many rows and lines it has, and what each column holds in it."""

    rows: int
    lines: int
    fields: dict[str, Field]
    few: dict[str, Any]  # columns of few values


@dataclass(frozen=True)
class DelimitedFile:
    """A file of rows of text, the first of which names the columns."""

    path: Path
    encoding: str | None = None
    delimiter: str | None = None
    text: frozenset[str] = frozenset()  # columns that are text, whatever they look like

    def survey(self) -> Survey:
        """Parse the whole file once for the types of its columns and the number of its rows."""
        file = TextFile.open(self.path, self.encoding)
        delimiter, names, start = self._header(file)
        blocks = file.blocks(partial(_cut_rows, delimiter=delimiter), start if file.is_seekable else 0)
        if not file.is_seekable:
            blocks = _without_header(blocks, start)
        fields = {name: Field(_null(), False) for name in names}
        parts: list[Part] = []
        capture = Capture(names)
        lines = 1
        least = part_bytes(self.path.stat().st_size)
        for block, parsed in map_in_threads(partial(self._infer, names, delimiter, capture), blocks):
            if parsed.lines < 0:
                check_utf8(self.path, block.text, lines)
                raise _unclosed_quote(self.path, block.text, delimiter, lines)
            lines += parsed.lines
            fields = {name: _merge(fields[name], parsed.fields[name]) for name in names}
            if parts and (not file.is_seekable or parts[-1].last - parts[-1].first < least):
                parts[-1] = parts[-1]._replace(last=block.stop, rows=parts[-1].rows + parsed.rows)
            else:
                first_row = parts[-1].first_row + parts[-1].rows if parts else 0
                parts.append(Part(block.start, block.stop, first_row, parsed.rows))
            capture.add(len(parts) - 1, parsed.few)
        captured = capture.of_types({name: kind.type for name, kind in fields.items()})
        return Survey(fields, tuple(parts), {"delimiter": delimiter, "names": names, "start": start}, captured)

    def _header(self, file: TextFile) -> tuple[str, list[str], int]:
        """The delimiter, the names of the columns, and where the rows begin."""
        block = next(file.blocks(cut_at_newline, size=1 << 20), None)
        if block is None or not block.text.strip():
            raise FileProblem(self.path, "is empty: there is no row of column names")
        if b"\n" not in block.text and b"\r" in block.text.strip():
            raise FileProblem(
                self.path, "its lines end in carriage returns alone", help=["Make them newlines: tr '\\r' '\\n'"]
            )
        check_utf8(self.path, block.text[: block.text.find(b"\n") + 1], 0)
        delimiter = self.delimiter or _guess_delimiter(self.path, block.text)
        end = _end_of_first_row(block.text)
        names = next(csv.reader(block.text[:end].decode().splitlines(keepends=True), delimiter=delimiter))
        names = [name.strip() or f"column{number}" for number, name in enumerate(names)]
        if twice := sorted(name for name, count in Counter(names).items() if count > 1):
            raise FileProblem(self.path, f"two columns have the same name: {', '.join(twice)}")
        # The header is ASCII but for its names, so its length in the file differs only where the encoding does.
        length = len(block.text[:end].decode().encode(file.encoding)) if file.is_seekable else end
        return delimiter, names, block.start + length

    def _infer(self, names: list[str], delimiter: str, capture: Capture, block: TextBlock) -> _Parsed:
        """Types of one block. `lines` below 0 says that it is not UTF-8, or that a quote in it is never closed."""
        import pyarrow.types as t

        if block.text.count(b'"') % 2 and not _has_stray_quotes(block.text, delimiter):
            return _Parsed(0, -1, {}, {})
        table, refused = self._parse(
            block.text, names, delimiter, {name: _text() for name in self.text if name in names}
        )
        is_text = is_utf8(block.text)
        fields: dict[str, Field] = {}
        for name, column in zip(table.schema.names, table.columns, strict=True):
            kind = column.type
            if t.is_string(kind) and not is_text and _has_replaced(column):
                return _Parsed(0, -1, {}, {})
            if t.is_temporal(kind):
                kind = _text()
            if (
                t.is_floating(kind)
                and _holds_wide_integers(column)
                and self._are_integers(block.text, name, names, delimiter)
            ):
                kind = _int()
            fields[name] = Field(kind, column.null_count > 0 or _has_blanks(column))
        few = {name: few_values(table.column(name)) for name in names if name in capture.names}
        few = {name: _blanks_to_null(array) for name, array in few.items() if array is not None}
        return _Parsed(table.num_rows + len(refused), block.text.count(b"\n"), fields, few)

    def _are_integers(self, text: bytes, name: str, names: list[str], delimiter: str) -> bool:
        """Whether a column that was taken for floats is one of integers, some of which do not fit int64."""
        import pyarrow.compute as pc

        table, _ = self._parse(text, names, delimiter, {name: _text()}, [name])
        values = table.column(0).combine_chunks()
        is_integer = pc.match_substring_regex(values, r"^\s*[+-]?[0-9]+\s*$")
        is_nothing = pc.is_in(values, value_set=_strings(_NO_NUMBER))
        return bool(pc.all(pc.or_(is_integer, is_nothing)).as_py())

    def _parse(
        self, text: bytes, names: list[str], delimiter: str, types: dict[str, Any], columns: list[str] | None = None
    ) -> tuple[Any, BadRows]:
        import pyarrow as pa
        from pyarrow import csv as pacsv

        # The text is parsed as one block, so that Arrow need not look for rows that end in it: values may hold newlines
        # although `newlines_in_values`, which halves its speed, is not set.
        bad: BadRows = {}

        def refuse(row: Any) -> str:
            bad[row.number - 1] = f"the row has {row.actual_columns} values, the header {row.expected_columns}"
            return "skip"

        if not is_utf8(text):  # Arrow cannot hand over a row of the wrong width that is not text either
            text = text.decode(errors="replace").encode()
        try:
            table = pacsv.read_csv(
                pa.BufferReader(text),
                pacsv.ReadOptions(use_threads=False, column_names=names, block_size=len(text) + 1),
                pacsv.ParseOptions(
                    delimiter=delimiter,
                    ignore_empty_lines=len(names) > 1,
                    invalid_row_handler=refuse,
                ),
                pacsv.ConvertOptions(column_types=types, null_values=_NO_NUMBER, include_columns=columns),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return pa.table({name: pa.nulls(0) for name in columns or names}), bad
            raise
        return table, bad

    def read(self, survey: Survey, part: Part, names: list[str]) -> Iterator[ArrowBlock]:
        """The part again, with the types of the whole file."""
        file = TextFile.open(self.path, self.encoding)
        delimiter: str = survey.details["delimiter"]
        start = part.first if file.is_seekable else 0
        stop = part.last if file.is_seekable else None
        blocks = file.blocks(partial(_cut_rows, delimiter=delimiter), start, stop)
        if not file.is_seekable:
            blocks = _without_header(blocks, survey.details["start"])
        first = 0
        convert = partial(self._convert, survey, names)
        for _, (arrays, bad, rows) in map_in_threads(convert, blocks):
            numbers = np.setdiff1d(np.arange(rows), list(bad)) + first
            refused = [Refused(first + row, "read", reason) for row, reason in sorted(bad.items())]
            first += rows
            yield ArrowBlock(arrays, numbers, refused)

    def _convert(self, survey: Survey, names: list[str], block: TextBlock) -> tuple[dict[str, Any], BadRows, int]:
        """Arrays of one block, the rows that are not in them, and the number of all rows."""
        import pyarrow as pa

        text, header, delimiter = block.text, survey.details["names"], survey.details["delimiter"]
        types = {name: survey.fields[name].type for name in names}
        parsed_as = {name: _text() if pa.types.is_null(kind) else kind for name, kind in types.items()}
        try:
            table, bad = self._parse(text, header, delimiter, parsed_as, names)
        except pa.ArrowInvalid:  # a value is not of its column's type: find which
            table, bad = self._parse(text, header, delimiter, dict.fromkeys(names, _text()), names)
            return self._convert_by_value(table, bad, parsed_as)
        arrays = {name: table.column(name).combine_chunks() for name in names}
        return {name: _blanks_to_null(array) for name, array in arrays.items()}, bad, table.num_rows + len(bad)

    def _convert_by_value(self, table: Any, bad: BadRows, types: dict[str, Any]) -> tuple[dict[str, Any], BadRows, int]:
        import pyarrow as pa

        rows = table.num_rows + len(bad)
        numbers = np.setdiff1d(np.arange(rows), list(bad))
        wrong: BadRows = {}
        arrays = {}
        for name, kind in types.items():
            found: BadRows = {}
            arrays[name] = cast_text(table.column(name).combine_chunks(), kind, found, missing=_NO_NUMBER)
            wrong = {row: f"{name}: {reason}" for row, reason in found.items()} | wrong
        kept = pa.array(np.setdiff1d(np.arange(table.num_rows), list(wrong)))
        bad = bad | {int(numbers[row]): reason for row, reason in wrong.items()}
        return {name: _blanks_to_null(array.take(kept)) for name, array in arrays.items()}, bad, rows


def _without_header(blocks: Iterator[TextBlock], start: int) -> Iterator[TextBlock]:
    """The same blocks of a stream that cannot be sought, without what is before `start`."""
    for block in blocks:
        if block.stop > start:
            yield block._replace(text=block.text[max(0, start - block.start) :])


def _guess_delimiter(path: Path, text: bytes) -> str:
    if ".tsv" in path.suffixes or ".tab" in path.suffixes:
        return "\t"
    line = text[: text.find(b"\n") + 1 or len(text)].decode()
    outside = "".join(line.split('"')[::2])
    return max(_DELIMITERS, key=lambda mark: (outside.count(mark), mark == ","))


def _end_of_first_row(text: bytes) -> int:
    at = -1
    while (at := text.find(b"\n", at + 1)) >= 0:
        if text[:at].count(b'"') % 2 == 0:
            return at + 1
    return len(text)


def _cut_rows(text: bytes, delimiter: str) -> int:
    """Where the last whole row ends: at a newline that is not between quotes."""
    quotes = text.count(b'"')
    end = text.rfind(b"\n") + 1
    before = quotes - text.count(b'"', end)
    if before % 2 and _has_stray_quotes(text, delimiter):
        return end  # quotes that quote nothing, as in 5" pipe: they say nothing about rows
    while end and before % 2:
        previous = text.rfind(b"\n", 0, end - 1) + 1
        before -= text.count(b'"', previous, end)
        end = previous
    return end


def _has_stray_quotes(text: bytes, delimiter: str) -> bool:
    """Whether some quote neither opens nor closes a value, nor stands beside another quote."""
    data = np.frombuffer(b"\n" + text + b"\n", np.uint8)
    places = np.flatnonzero(data == ord('"'))
    edges = np.frombuffer(delimiter.encode() + b'\n\r"', np.uint8)
    return not bool((np.isin(data[places - 1], edges) | np.isin(data[places + 1], edges)).all())


def _unclosed_quote(path: Path, text: bytes, delimiter: str, lines: int) -> FileProblem:
    whole = _cut_rows(text, delimiter)
    line = lines + text[:whole].count(b"\n") + 1
    return FileProblem(path, f"line {line}: a quote is opened and never closed", help=[_QUOTES])


_QUOTES = "A quote inside a value in quotes is written twice."


def _merge(one: Field, other: Field) -> Field:
    """The type that holds both."""
    import pyarrow as pa
    import pyarrow.types as t

    has_missing = one.has_missing or other.has_missing
    if one.type == other.type or t.is_null(other.type):
        return Field(one.type, has_missing)
    if t.is_null(one.type):
        return Field(other.type, has_missing)
    if {one.type, other.type} == {pa.int64(), pa.float64()}:
        return Field(pa.float64(), has_missing)
    return Field(pa.string(), has_missing)


def _has_replaced(column: Any) -> bool:
    """Whether a value holds what stands for bytes that are not UTF-8."""
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring(column, "\ufffd")).as_py())


def _has_blanks(column: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa.types.is_string(column.type) and bool(pc.any(pc.equal(pc.binary_length(column), 0)).as_py())


def _blanks_to_null(array: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, _blanks_to_null(array.dictionary))
    if not pa.types.is_string(array.type):
        return array
    is_blank = pc.equal(pc.binary_length(array), 0)
    return pc.if_else(is_blank, pa.scalar(None, pa.string()), array) if pc.any(is_blank).as_py() else array


def _holds_wide_integers(column: Any) -> bool:
    import pyarrow.compute as pc

    largest = pc.max(pc.abs(column)).as_py()
    return largest is not None and _BEYOND_INT64 <= largest < float("inf")


def _null() -> Any:
    import pyarrow as pa

    return pa.null()


def _text() -> Any:
    import pyarrow as pa

    return pa.string()


def _int() -> Any:
    import pyarrow as pa

    return pa.int64()


def _strings(values: list[str]) -> Any:
    import pyarrow as pa

    return pa.array(values)
