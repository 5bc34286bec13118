"""CSV and similar formats: types come from the whole file, and rows of the wrong width are refused one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.errors import FileProblem
from bushel.parallel import Helpers, map_in_threads
from bushel.sources.protocol import Refused
from bushel.sources.tables.arrow import BadRows, cast_text
from bushel.sources.tables.dialect import (
    BLANKS,
    DELIMITERS,
    STYLES,
    TO_BE_FOUND,
    Dialect,
    Layout,
    Style,
    find_dialect,
    has_sign,
    one_tab_between,
    styles_of,
    to_numbers,
)
from bushel.sources.tables.table_files import (
    ArrowBlock,
    Capture,
    Few,
    Field,
    Part,
    Survey,
    few_values,
    part_bytes,
)
from bushel.sources.text_files import (
    Seen,
    Text,
    TextBlock,
    TextFile,
    check_utf8,
    cut_at_newline,
    is_utf8,
    look_through,
    survey_span,
)

__all__ = ["DelimitedFile"]

# What stands for a missing number. In a column of text only a blank does: NA may be Namibia.
_NO_NUMBER = ["", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "NaN", "nan", "-nan", "<NA>"]
_READ_BYTES = 4 << 20  # of a part at once: what each block costs on top of its rows counts little then
_BEYOND_INT64 = 2.0**63


class _Written(NamedTuple):
    """How the numbers in a column of text may be written, if they are numbers."""

    styles: tuple[Style, ...] = STYLES
    has_comma: bool = False
    has_point: bool = False
    signs: int = 0  # amounts of money and percentages

    def and_(self, other: _Written) -> _Written:
        both = tuple(style for style in self.styles if style in other.styles)
        has_comma, has_point = self.has_comma or other.has_comma, self.has_point or other.has_point
        return _Written(both, has_comma, has_point, self.signs + other.signs)

    def is_whole(self, style: Style) -> bool:
        return not (self.has_comma if style == "comma" else self.has_point)


# Of a column whose kind is certain: missing, integers, reals, and text that is no number.
_WRITTEN = (_Written(), _Written(), _Written(("point",)), _Written(()))


class _Parsed(NamedTuple):
    """One parsed block: the number of its rows and lines, and the types of its columns."""

    rows: int
    lines: int
    fields: dict[str, Field]
    few: dict[str, Few]  # columns of few values
    written: dict[str, _Written]


@dataclass(frozen=True)
class DelimitedFile:
    """A file of delimited text. The first row names the columns, unless it looks like the others."""

    path: Path
    encoding: str | None = None
    layout: Layout = TO_BE_FOUND
    decimal: str | None = None  # decimal mark; None: found from the file
    text: frozenset[str] = frozenset()  # columns to keep as text, whatever they look like

    def survey(self, helpers: Helpers = None) -> Survey:
        """Parse the whole file once for the types of its columns and the number of its rows."""
        file = TextFile.open(self.path, self.encoding)
        dialect, start = self._dialect(file)
        delimiter, names = dialect.delimiter, dialect.names
        cut = partial(_cut_rows, delimiter=delimiter)
        fields = {name: Field(_null(), False) for name in names}
        written = {name: _Written() for name in names}
        parts: list[Part] = []
        capture = Capture(names)
        lines = 1
        least = part_bytes(self.path.stat().st_size)
        look = partial(self._look, names, delimiter, capture)
        looks = look, partial(self._glance_at, names, delimiter)
        looked: Iterable[tuple[TextBlock, _Parsed]] = look_through(file, cut, start, looks, helpers)
        if not file.is_seekable:
            looked = map_in_threads(look, _without_header(file.blocks(cut), start))
        for block, parsed in looked:
            if parsed.lines < 0:
                text = file.text_of(block)
                check_utf8(self.path, text, lines)
                raise _unclosed_quote(self.path, text, delimiter, lines)
            lines += parsed.lines
            if parsed.fields != fields:  # those of most blocks are the same
                fields = {name: _merge(fields[name], parsed.fields[name]) for name in names}
            if parsed.written != written or any(one.signs for one in written.values()):
                written = {name: written[name].and_(parsed.written[name]) for name in names}
            if parts and (not file.is_seekable or parts[-1].last - parts[-1].first < least):
                parts[-1] = parts[-1]._replace(last=block.stop, rows=parts[-1].rows + parsed.rows)
            else:
                first_row = parts[-1].first_row + parts[-1].rows if parts else 0
                parts.append(Part(block.start, block.stop, first_row, parsed.rows))
            capture.add(len(parts) - 1, parsed.few)
        styles = self._styles(fields, written, delimiter)
        for name, style in styles.items():
            fields[name] = fields[name]._replace(type=_int() if written[name].is_whole(style) else _float())
        captured = capture.of_types({name: kind.type for name, kind in fields.items()})
        captured = {name: blocks for name, blocks in captured.items() if name not in styles}
        details = {"delimiter": delimiter, "names": names, "start": start, "styles": styles, "index": dialect.index}
        details["signs"] = {name: one.signs for name, one in written.items() if fields[name].type == _text()}
        return Survey(fields, tuple(parts), details, captured, _counted(dialect))

    def _styles(self, fields: dict[str, Field], written: dict[str, _Written], delimiter: str) -> dict[str, Style]:
        """The columns of numbers with decimal commas or thousands separators, and which style each has."""
        usual: Style = "point" if delimiter == "," else "comma"
        found: dict[str, Style] = {}
        for name, one in written.items():
            if name not in self.text and one.styles and one.has_comma and fields[name].type == _text():
                found[name] = usual if usual in one.styles else one.styles[0]
        if self.decimal is not None:
            asked: Style = "comma" if self.decimal == "," else "point"
            found = {name: asked for name in found if asked in written[name].styles}
        if self.decimal == "," or "comma" in found.values():  # 1.234 may also be a thousand
            for name, one in written.items():
                if "comma" in one.styles and name not in self.text and fields[name].type in (_text(), _float()):
                    found[name] = "comma"
        return found

    def _dialect(self, file: TextFile) -> tuple[Dialect, int]:
        """How the file is laid out, and where its rows begin."""
        block = next(file.blocks(cut_at_newline, size=1 << 20), None)
        if block is None or not block.text.strip():
            raise FileProblem(self.path, "is empty: there is no row of column names")
        if b"\n" not in block.text and b"\r" in block.text.strip():
            raise FileProblem(
                self.path, "its lines end in carriage returns alone", help=["Make them newlines: tr '\\r' '\\n'"]
            )
        check_utf8(self.path, block.text.partition(b"\n")[0], 0)
        dialect = find_dialect(self.path, block.text, self.layout)
        # The header is ASCII except for its names, so its length in the file differs only if the encoding does.
        before = block.text[: dialect.end]
        check_utf8(self.path, before, 0)
        length = len(before.decode().encode(file.encoding)) if file.is_seekable else dialect.end
        return dialect, block.start + length

    def _look(self, names: list[str], delimiter: str, capture: Capture, block: TextBlock) -> _Parsed:
        return self._glance(names, delimiter, block) or self._infer(names, delimiter, capture, block)

    def _glance(self, names: list[str], delimiter: str, block: TextBlock) -> _Parsed | None:
        """The same as `_infer` by the core alone, if it is certain what each column of the block holds."""
        if not self._is_simple(delimiter) or not is_utf8(block.text):
            return None
        surveyed: Any = _native.survey_rows(block.text, delimiter, [name in self.text for name in names])
        return None if surveyed is None or not surveyed[1][0][1] else _seen(names, surveyed, block.start)[0][1]

    def _glance_at(
        self, names: list[str], delimiter: str, file: TextFile, span: tuple[int, int]
    ) -> Seen[_Parsed] | None:
        """The same of all blocks in a span, if each column holds the same in all of them."""
        if not self._is_simple(delimiter):
            return None
        is_text = [name in self.text for name in names]
        surveyed: Any = survey_span(file, span, partial(_native.survey_row_span, delimiter=delimiter, is_text=is_text))
        return None if surveyed is None else _seen(names, surveyed, span[0])

    def _is_simple(self, delimiter: str) -> bool:
        return self.decimal != "," and delimiter in DELIMITERS  # others may be in numbers

    def _infer(self, names: list[str], delimiter: str, capture: Capture, block: TextBlock) -> _Parsed:
        """Types of one block. A negative `lines` means that it is not UTF-8, or that a quote is never closed."""
        import pyarrow.types as t

        block = block._replace(text=bytes(block.text))
        if _quotes(block.text) % 2 and not _has_stray_quotes(block.text, delimiter):
            return _Parsed(0, -1, {}, {}, {})
        table, refused = self._parse(
            block.text, names, delimiter, {name: _text() for name in self.text if name in names}
        )
        is_text = is_utf8(block.text)
        fields: dict[str, Field] = {}
        kept = [name for name in names if name in capture.names]
        few = {name: arrays for name in kept if (arrays := few_values(table.column(name))) is not None}
        values = {name: few[name][1] if name in few else table.column(name) for name in table.schema.names}
        for name, column in zip(table.schema.names, table.columns, strict=True):
            kind = column.type
            if t.is_string(kind) and not is_text and _has_replaced(values[name]):
                return _Parsed(0, -1, {}, {}, {})
            if t.is_temporal(kind):
                kind = _text()
            if (
                t.is_floating(kind)
                and _holds_wide_integers(column)
                and self._are_integers(block.text, name, names, delimiter)
            ):
                kind = _int()
            fields[name] = Field(kind, column.null_count > 0 or _has_blanks(values[name]))
        written = self._written(block.text, table, values, delimiter)
        found = {name: Few.of(codes, _blanks_to_null(distinct)) for name, (codes, distinct) in few.items()}
        return _Parsed(table.num_rows + len(refused), block.text.count(b"\n"), fields, found, written)

    def _written(self, text: bytes, table: Any, values: dict[str, Any], delimiter: str) -> dict[str, _Written]:
        """How the numbers of each column in one block may be written; `values` has each value of a column."""
        import pyarrow.types as t

        names = table.schema.names
        found: dict[str, _Written] = {}
        for name, column in zip(names, table.columns, strict=True):
            if t.is_string(column.type):
                one = _written_in(values[name])
                found[name] = one._replace(signs=len(column) if one.signs else 0)
            else:
                is_plain = t.is_null(column.type) or t.is_integer(column.type)
                found[name] = _Written(STYLES if is_plain else ("point",) if t.is_floating(column.type) else ())
        floats = [name for name in names if t.is_floating(table.column(name).type)]
        has_commas = any("comma" in one.styles and one.has_comma for one in found.values())
        if floats and (self.decimal == "," or has_commas):
            again, _ = self._parse(text, names, delimiter, dict.fromkeys(floats, _text()), floats)
            found |= {name: _written_in(again.column(name)) for name in floats}
        return found

    def _are_integers(self, text: bytes, name: str, names: list[str], delimiter: str) -> bool:
        """Whether a column that looks like floats holds integers, some of which do not fit int64."""
        import pyarrow.compute as pc

        table, _ = self._parse(text, names, delimiter, {name: _text()}, [name])
        values = _whole(table.column(0))
        is_integer = pc.match_substring_regex(values, r"^\s*[+-]?[0-9]+\s*$")
        is_nothing = pc.is_in(values, value_set=_strings(_NO_NUMBER))
        return bool(pc.all(pc.or_(is_integer, is_nothing)).as_py())

    def _parse(
        self, text: Text, names: list[str], delimiter: str, types: dict[str, Any], columns: list[str] | None = None
    ) -> tuple[Any, BadRows]:
        import pyarrow as pa
        from pyarrow import csv as pacsv

        # The text is parsed as one block, so that Arrow need not look for rows that end in it: values may hold newlines
        # although `newlines_in_values`, which halves its speed, is not set.
        bad: BadRows = {}
        if delimiter == BLANKS:
            text, delimiter = one_tab_between(bytes(text)), "\t"

        def refuse(row: Any) -> str:
            bad[row.number - 1] = f"the row has {row.actual_columns} values, the header {row.expected_columns}"
            return "skip"

        if not is_utf8(text):  # Arrow cannot return a row of the wrong width that is not text either
            text = bytes(text).decode(errors="replace").encode()
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
        blocks = file.passing_blocks(partial(_cut_rows, delimiter=delimiter), start, stop, _READ_BYTES)
        if not file.is_seekable:
            blocks = _without_header(blocks, survey.details["start"])
        first = 0
        convert = partial(self._convert, survey, names)
        for arrays, bad, rows in map(convert, blocks):  # workers share parts, not blocks
            numbers = _others(rows, bad) + first
            refused = [Refused(first + row, "read", reason) for row, reason in sorted(bad.items())]
            first += rows
            yield ArrowBlock(arrays, numbers, refused)

    def _convert(self, survey: Survey, names: list[str], block: TextBlock) -> tuple[dict[str, Any], BadRows, int]:
        """Arrays of one block, the rows that are not in them, and the number of all rows."""
        import pyarrow as pa

        text, header, delimiter = block.text, survey.details["names"], survey.details["delimiter"]
        styles: dict[str, Style] = survey.details["styles"]
        types = {name: survey.fields[name].type for name in names}
        parsed_as = {name: _text() if pa.types.is_null(kind) else kind for name, kind in types.items()}
        if not styles.keys().isdisjoint(names):
            as_text = parsed_as | {name: _text() for name in names if name in styles}
            table, bad = self._parse(text, header, delimiter, as_text, names)
            for at, name in enumerate(names):
                if name in styles:
                    table = table.set_column(at, name, to_numbers(table.column(name), styles[name]))
            return self._convert_by_value(table, bad, parsed_as)
        try:
            table, bad = self._parse(text, header, delimiter, parsed_as, names)
        except pa.ArrowInvalid:  # a value does not have the type of its column: find it
            table, bad = self._parse(text, header, delimiter, dict.fromkeys(names, _text()), names)
            return self._convert_by_value(table, bad, parsed_as)
        arrays = {name: _whole(table.column(name)) for name in names}
        return {name: _blanks_to_null(array) for name, array in arrays.items()}, bad, table.num_rows + len(bad)

    def _convert_by_value(self, table: Any, bad: BadRows, types: dict[str, Any]) -> tuple[dict[str, Any], BadRows, int]:
        import pyarrow as pa

        rows = table.num_rows + len(bad)
        numbers = _others(rows, bad)
        wrong: BadRows = {}
        arrays = {}
        for name, kind in types.items():
            found: BadRows = {}
            arrays[name] = cast_text(_whole(table.column(name)), kind, found, missing=_NO_NUMBER)
            wrong = {row: f"{name}: {reason}" for row, reason in found.items()} | wrong
        kept = pa.array(_others(table.num_rows, wrong))
        bad = bad | {int(numbers[row]): reason for row, reason in wrong.items()}
        return {name: _blanks_to_null(array.take(kept)) for name, array in arrays.items()}, bad, rows


def _seen(names: list[str], surveyed: tuple[Any, Any], start: int) -> Seen[_Parsed]:
    """The blocks that the core surveyed, from `start` on."""
    columns, blocks = surveyed
    kinds = _null(), _int(), _float(), _text()
    fields: dict[str, Field] = {}
    few: dict[str, Few] = {}
    written: dict[str, _Written] = {}
    for name, (kind, has_missing, codes, values) in zip(names, columns, strict=True):
        fields[name] = Field(kinds[kind], has_missing)
        written[name] = _WRITTEN[kind]
        if codes is not None:
            few[name] = Few(codes, values, kinds[kind])
    seen: Seen[_Parsed] = []
    end = 0
    for stop, rows, newlines in blocks:
        begin, end = end, end + rows
        some = {name: one._replace(codes=one.codes[begin:end]) for name, one in few.items()}
        seen.append((TextBlock(start, stop, b""), _Parsed(rows, newlines, fields, some, written)))
        start = stop
    return seen


def _without_header(blocks: Iterator[TextBlock], start: int) -> Iterator[TextBlock]:
    """The same blocks of a stream that cannot seek, from `start` on."""
    for block in blocks:
        if block.stop > start:
            yield block._replace(text=block.text[max(0, start - block.start) :])


def _others(rows: int, bad: BadRows) -> NDArray[np.int64]:
    """The rows that are not bad."""
    return np.delete(np.arange(rows), list(bad)) if bad else np.arange(rows)


def _whole(column: Any) -> Any:
    """A column as one array, which is not copied if it is in one piece."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _quotes(text: Text) -> int:
    # Where every value is quoted, `bytes.count` takes four times as long.
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord('"')))


def _cut_rows(given: Text, delimiter: str) -> int:
    """Where the last whole row ends: at a newline that is not between quotes."""
    end: int
    before: int
    end, before = _native.last_line(given)
    if not before % 2:
        return end
    text = bytes(given)
    if _has_stray_quotes(text, delimiter):
        return end  # stray quotes, as in 5" pipe, do not delimit values
    while end and before % 2:
        previous = text.rfind(b"\n", 0, end - 1) + 1
        before -= text.count(b'"', previous, end)
        end = previous
    return end


def _has_stray_quotes(text: bytes, delimiter: str) -> bool:
    """Whether some quote neither opens nor closes a value, nor is doubled."""
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
    """Whether a value holds replacement characters for bytes that are not UTF-8."""
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring(column, "\ufffd")).as_py())


def _has_blanks(column: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(column.type):
        return False
    return bool(pc.any(pc.equal(pc.binary_length(pc.ascii_trim(column, " \t")), _zero())).as_py())


def _blanks_to_null(array: Any) -> Any:
    """Text without surrounding blanks; missing if nothing else is left."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(array.type):
        return array
    array = pc.ascii_trim(array, " \t")
    is_blank = pc.equal(pc.binary_length(array), _zero())
    return pc.if_else(is_blank, pa.nulls(1, pa.string())[0], array) if pc.any(is_blank).as_py() else array


@lru_cache(maxsize=1)
def _zero() -> Any:
    """The length of no text. Arrow would import pandas to make it of a number, which takes as long as many blocks."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(bytes(4))])[0]


def _holds_wide_integers(column: Any) -> bool:
    import pyarrow.compute as pc

    ends = pc.min_max(column)
    largest: float = max(abs(ends[name].as_py() or 0.0) for name in ("min", "max"))
    return _BEYOND_INT64 <= largest < float("inf")


def _null() -> Any:
    import pyarrow as pa

    return pa.null()


def _text() -> Any:
    import pyarrow as pa

    return pa.string()


def _float() -> Any:
    import pyarrow as pa

    return pa.float64()


def _written_in(column: Any) -> _Written:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _whole(column) if isinstance(column, pa.ChunkedArray) else column
    styles = styles_of(column, _NO_NUMBER)
    if not styles:
        return _Written((), signs=len(column) if has_sign(column) else 0)
    return _Written(styles, *(bool(pc.any(pc.match_substring(column, mark)).as_py()) for mark in ",."))


def _counted(dialect: Dialect) -> dict[str, int]:
    """Notes for people about how a file was interpreted."""
    found = {}
    if not dialect.has_header:
        found["file without a row of names, whose columns are named " + _some(dialect.names)] = 1
    if dialect.index is not None:
        found["column without a name that counts the rows, left out"] = 1
    return found


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _int() -> Any:
    import pyarrow as pa

    return pa.int64()


def _strings(values: list[str]) -> Any:
    import pyarrow as pa

    return pa.array(values)
