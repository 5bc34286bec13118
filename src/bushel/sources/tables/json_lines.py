"""JSON, one object per line or one array of objects: types come from the whole file, and misfits are refused."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np

from bushel import _native
from bushel.data.samples import DEEPEST, is_too_deep
from bushel.errors import FileProblem
from bushel.parallel import Helpers
from bushel.sources.protocol import Refused
from bushel.sources.tables import arrow
from bushel.sources.tables.arrow import BadRows
from bushel.sources.tables.table_files import (
    MANY_COLUMNS,
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
    Cut,
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

__all__ = ["JsonLinesFile"]

_ONE_PER_LINE = "Each line must be an object, or the file one array of objects."
_FEW_NAMES = 2_000  # of which a table may hold any share
_LEAST_HELD = 0.01  # of the cells of a table with more names
_LOOKED_AT_LINES = 64
_INT64 = range(-(2**63), 2**63)


@dataclass
class _Census:
    """How many rows of a column hold each kind of value, and the common type of each kind."""

    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    types: dict[str, Any] = field(default_factory=dict)

    def add(self, kind: Any, count: int) -> None:
        """Count rows of one Arrow type."""
        kind = _plain(kind)
        name = _kind_path(kind)
        self.counts[name] += count
        self.types[name] = _merge(self.types[name], kind) if name in self.types else kind

    def type(self) -> Any:
        """The type that all single values have, text if there are several, or else the one that most rows have."""
        import pyarrow as pa

        some = {name: count for name, count in self.counts.items() if name != "null" and count}
        if not some:
            return pa.null()
        if self.is_mixed:
            return pa.string()
        filled = {name: count for name, count in some.items() if not name.endswith("null")} or some
        return self.types[max(filled, key=lambda name: filled[name])]

    @property
    def is_mixed(self) -> bool:
        """Whether rows hold single values of several kinds, and nothing else."""
        some = {name for name, count in self.counts.items() if name != "null" and count}
        return len(some) > 1 and some <= _SINGLE

    def held(self, kind: Any) -> int:
        """How many rows a type holds; an empty list is of any type of list."""
        path = _kind_path(kind)
        if self.is_mixed:
            return sum(count for name, count in self.counts.items() if name != "null")
        fits = (name for name in self.counts if name == path or _is_open(name, path))
        return sum(self.counts[name] for name in fits)


# By column, the types of a block with the number of rows that have them; its rows; columns of few values; whether a row
# is nested too deep to be read.
_Inferred: TypeAlias = tuple[dict[str, list[tuple[Any, int]]], int, dict[str, Few], bool]
_Look: TypeAlias = tuple[bool, int, _Inferred]


@dataclass(frozen=True)
class JsonLinesFile:
    """A file of JSON objects, one per line, or in one array."""

    path: Path
    encoding: str | None = None
    text: frozenset[str] = frozenset()  # columns to keep as text: numbers and lists as written

    def _cut(self, file: TextFile) -> Cut:
        """Where objects end: at newlines, or after the elements of an array."""
        first = next(file.blocks(cut_at_newline, size=4096), None)
        if first is None or not first.text.lstrip().startswith(b"[") or _is_whole_line(first.text):
            return cut_at_newline
        if not re.match(rb"\s*\[\s*[{\]]", first.text):
            raise FileProblem(self.path, "is a JSON array, but not one of objects", help=[_ONE_PER_LINE])
        return _cut_elements

    def survey(self, helpers: Helpers = None) -> Survey:
        """Parse the whole file once for the types of its columns and the number of its rows."""
        import pyarrow as pa

        file = TextFile.open(self.path, self.encoding)
        columns: dict[str, _Census] = {}
        parts: list[Part] = []
        capture: Capture | None = None
        rows = lines = 0
        is_deep = False
        least = part_bytes(self.path.stat().st_size)
        cut = self._cut(file)
        looks = partial(self._look, cut), _glance_at if cut is cut_at_newline else _no_glance
        for block, (is_text, ends, (found, count, few, deep)) in look_through(file, cut, 0, looks, helpers):
            if not is_text:
                check_utf8(self.path, file.text_of(block), lines)
            lines += ends
            is_deep |= deep
            for name, kinds in found.items():
                for kind, present in kinds:
                    columns.setdefault(name, _Census()).add(kind, present)
            if parts and (not file.is_seekable or parts[-1].last - parts[-1].first < least):
                parts[-1] = parts[-1]._replace(last=block.stop, rows=parts[-1].rows + count)
            else:
                parts.append(Part(block.start, block.stop, rows, count))
            rows += count
            capture = capture or Capture(list(few))
            capture.add(len(parts) - 1, few)
        self._refuse_scattered(columns, rows)
        if not columns:
            raise FileProblem(self.path, "has no line that is a JSON object", help=[_ONE_PER_LINE])
        if rows == 1 and ".json" in self.path.suffixes:
            self._refuse_one_object({name: census.type() for name, census in columns.items()})
        types = {name: census.type() for name, census in columns.items()}
        flat = {name: arrow.flatten_type(name, kind).values() for name, kind in types.items()}
        nested = {name for name, kinds in flat.items() if not all(map(arrow.is_storable, kinds))} - self.text
        mixed = {name for name, census in columns.items() if census.is_mixed} - self.text
        as_text = nested | mixed | (self.text & types.keys())
        types |= dict.fromkeys(as_text, pa.string())
        fields: dict[str, Field] = {}
        for name, kind in types.items():
            counts = columns[name].counts
            held = sum(counts.values()) - counts["null"] if name in as_text else columns[name].held(kind)
            has_missing = held < rows or pa.types.is_struct(kind)
            fields |= {flat: Field(inner, has_missing) for flat, inner in arrow.flatten_type(name, kind).items()}
        details = {"types": types, "is_deep": is_deep, "as_text": as_text}
        details["mixed"] = {name: columns[name].held(types[name]) - columns[name].counts["str"] for name in mixed}
        details["nested"] = {name: sum(columns[name].counts.values()) - columns[name].counts["null"] for name in nested}
        return Survey(fields, tuple(parts), details, capture.of_types(types) if capture else {})

    def _refuse_scattered(self, columns: dict[str, _Census], rows: int) -> None:
        """Raise an error if names are values, so that nearly every cell of the table would be empty."""
        held = sum(sum(census.counts.values()) - census.counts["null"] for census in columns.values())
        if len(columns) > _FEW_NAMES and held < rows * len(columns) * _LEAST_HELD:
            what = f"has {len(columns):,} different names, and a row has {held / max(rows, 1):.1f} of them on average"
            help = ["Names that differ from row to row are values: write a row for each, with a name and a value."]
            raise FileProblem(self.path, what, help=help)

    def _refuse_one_object(self, types: dict[str, Any]) -> None:
        """Raise an error if a whole file is one object, which holds columns or an array of rows."""
        import pyarrow.types as t

        holds_rows = [name for name, kind in types.items() if t.is_list(kind) and t.is_struct(kind.value_type)]
        if holds_rows:
            what = f"is one JSON object, whose {holds_rows[-1]!r} holds rows"
            raise FileProblem(self.path, what, help=[f"Make the file that array: `jq '.{holds_rows[-1]}' {self.path}`"])
        keys = {tuple(field.name for field in kind) if t.is_struct(kind) else () for kind in types.values()}
        is_of_objects = len(keys) == 1 and len(keys.pop()) > 1 and len(types) > 1
        if is_of_objects or (len(types) > 1 and all(map(t.is_list, types.values()))):
            what = "is one JSON object of columns, not an array of rows"
            help = ["Write it as a list of rows: to_json of pandas does so with orient 'records'."]
            raise FileProblem(self.path, what, help=help)

    def _look(self, cut: Cut, block: TextBlock) -> _Look:
        """Whether a block is UTF-8, the number of its lines, and what it holds."""
        block = _one_per_line(block, cut)
        if (seen := _glance(block)) is not None:
            return seen
        block = block._replace(text=bytes(block.text))
        is_text = is_utf8(block.text)  # Arrow fails on names that are not
        return is_text, block.text.count(b"\n"), self._infer(block) if is_text else ({}, 0, {}, False)

    def _infer(self, block: TextBlock) -> _Inferred:
        """What one block holds."""
        import pyarrow as pa

        if _has_deep_line(block.text) or _has_scattered_names(block.text):
            return _infer_by_line(block.text)
        try:
            table = _parse(block.text, None)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return _infer_by_line(block.text)
        if any(_holds_wide_integers(column) for column in table.columns):
            return _infer_by_line(block.text)
        columns = dict(zip(table.schema.names, table.columns, strict=True))
        found = {name: [(column.type, len(column) - column.null_count)] for name, column in columns.items()}
        few = {name: few_values(column) for name, column in columns.items() if len(columns) <= MANY_COLUMNS}
        kept = {name: Few.of(*arrays) for name, arrays in few.items() if arrays is not None}
        return found, table.num_rows, kept, False

    def read(self, survey: Survey, part: Part, names: list[str]) -> Iterator[ArrowBlock]:
        """The part again, with the types of the whole file."""
        file = TextFile.open(self.path, self.encoding)
        types = survey.details["types"]
        asked = set(names)
        wanted = {name: kind for name, kind in types.items() if not asked.isdisjoint(arrow.flatten_type(name, kind))}
        start, stop = (part.first, part.last) if file.is_seekable else (0, None)
        first = 0
        # Not in threads: workers share parts, and most lines are parsed faster than a thread wakes up.
        cut = self._cut(file)
        for block in (_one_per_line(block, cut) for block in file.passing_blocks(cut, start, stop)):
            as_text = frozenset(survey.details["as_text"])
            table, bad, rows = _convert(wanted, block, as_text, by_line=survey.details.get("is_deep", False))
            numbers = np.arange(first, first + rows)
            numbers = np.delete(numbers, list(bad)) if bad else numbers
            refused = [Refused(first + row, "read", reason) for row, reason in sorted(bad.items())]
            first += rows
            arrays = arrow.flatten(table)
            yield ArrowBlock({name: arrays[name] for name in names}, numbers, refused)


def _glance(block: TextBlock) -> _Look | None:
    """What `_look` finds, by the core alone, if all objects hold text and integers under the same names."""
    surveyed: Any = _native.survey_flat_lines(block.text) if is_utf8(block.text) else None
    return None if surveyed is None or not surveyed[1][0][1] else _seen(surveyed, block.start)[0][1]


def _glance_at(file: TextFile, span: tuple[int, int]) -> Seen[_Look] | None:
    """The same of all blocks in a span."""
    surveyed: Any = survey_span(file, span, _native.survey_flat_span)
    return None if surveyed is None else _seen(surveyed, span[0])


def _seen(surveyed: tuple[Any, Any], start: int) -> Seen[_Look]:
    import pyarrow as pa

    columns, blocks = surveyed
    kinds = pa.int64(), pa.string()
    few = [(name, codes, values, kinds[is_text]) for name, is_text, codes, values in columns if codes is not None]
    seen: Seen[_Look] = []
    end = 0
    for stop, rows, newlines in blocks:
        begin, end = end, end + rows
        some = {name: Few(codes[begin:end], values, kind) for name, codes, values, kind in few}
        # All rows are counted with the last block.
        found = (
            {name: [(kinds[is_text], end)] for name, is_text, _, _ in columns} if len(seen) + 1 == len(blocks) else {}
        )
        seen.append((TextBlock(start, stop, b""), (True, newlines, (found, rows, some, False))))
        start = stop
    return seen


def _no_glance(_: TextFile, _span: tuple[int, int]) -> None:
    """Nothing: the elements of an array are not lines."""


_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],]')


def _elements(text: bytes) -> Iterator[tuple[int, int, bool]]:
    """Where each element of an array begins and ends, and whether it is complete.

    The text begins with the array, or with one of its elements.
    """
    begin = at = len(text) - len(text.lstrip())
    begin = at = at + 1 if text[at : at + 1] == b"[" else at
    depth = 0
    for token in _TOKENS.finditer(text, at):
        mark = token[0]
        if mark in b"{[":
            depth += 1
        elif mark in b"}]":
            depth -= 1
            if depth < 0:
                yield begin, token.start(), True
                return
        elif mark == b"," and not depth:
            yield begin, token.start(), True
            begin = token.end()
    yield begin, len(text), False


_RAW = msgspec.json.Decoder(list[msgspec.Raw])
_TRIES = 30


def _raw_elements(text: bytes) -> list[msgspec.Raw] | None:
    """The elements of an array without its brackets, faster than token by token; None if it is incomplete."""
    try:
        return _RAW.decode(b"[" + text + b"]")
    except (msgspec.DecodeError, RecursionError):
        return None


def _cut_elements(given: Text) -> int:
    """Where the last whole element ends, with the comma after it."""
    text = bytes(given)
    inside = text.lstrip().removeprefix(b"[")
    before = len(text) - len(inside)
    ends = [found.end() for found in re.finditer(rb"\}\s*,", inside)]
    for end in ends[: -_TRIES - 1 : -1]:  # most false ends are found at once
        if _raw_elements(inside[: end - 1]) is not None:
            return before + end
    return max((end + 1 for _, end, is_whole in _elements(text) if is_whole), default=0)


def _one_per_line(block: TextBlock, cut: Cut) -> TextBlock:
    return block._replace(text=_as_lines(bytes(block.text))) if cut is _cut_elements else block


def _as_lines(text: bytes) -> bytes:
    """The elements of an array, one per line; newlines inside an element become blanks."""
    inside = text.strip().removeprefix(b"[").rstrip(b", \t\r\n")
    found = _raw_elements(inside) or _raw_elements(inside.removesuffix(b"]"))
    parts = map(bytes, found) if found is not None else (text[begin:end] for begin, end, _ in _elements(text))
    lines = (re.sub(rb"[\r\n]", b" ", part).strip() for part in parts)
    return b"".join(line + b"\n" for line in lines if line and line != b"]")


def _convert(
    types: dict[str, Any], block: TextBlock, as_text: frozenset[str], *, by_line: bool
) -> tuple[Any, BadRows, int]:
    """The table of one block, the rows that are not in it, and the number of all rows."""
    import pyarrow as pa

    try:
        table = None if by_line else _parse(block.text, types)
    except pa.ArrowInvalid:
        table = None
    if table is None:
        text, bad, rows = _fitting_lines(bytes(block.text), types, as_text)
        return _parse(text, types), bad, rows
    return table, {}, table.num_rows


_NULL_LINE = re.compile(rb"^[ \t]*null[ \t\r]*$", re.MULTILINE)


def _parse(given: Text, types: dict[str, Any] | None) -> Any:
    import pyarrow as pa
    from pyarrow import json as pajson

    if types is not None and (flat := _parse_flat(given, types)) is not None:
        return flat
    text = bytes(given)
    if not text.strip():
        return pa.table({name: pa.nulls(0, kind) for name, kind in (types or {}).items()})
    if _NULL_LINE.search(text):  # Arrow's parser dies of it
        raise pa.ArrowInvalid("a line is null")
    explicit = None if types is None else pa.schema([pa.field(name, kind) for name, kind in types.items()])
    return pajson.read_json(
        pa.BufferReader(text),
        pajson.ReadOptions(use_threads=False, block_size=len(text) + 1),
        pajson.ParseOptions(explicit_schema=explicit, unexpected_field_behavior="infer" if types is None else "ignore"),
    )


def _parse_flat(text: Text, types: dict[str, Any]) -> Any | None:
    """The same, faster, if all objects hold text and integers under the same names; otherwise None."""
    import pyarrow as pa

    if not all(kind in (pa.string(), pa.int64()) for kind in types.values()):
        return None
    parsed: Any = _native.parse_flat_lines(text)
    if parsed is None:
        return None
    columns, rows = parsed
    arrays = {}
    for name, offsets, data in columns:
        buffers = [None, pa.py_buffer(data)] if offsets is None else [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        arrays[name] = pa.Array.from_buffers(pa.int64() if offsets is None else pa.string(), rows, buffers)
    if any(name not in arrays or arrays[name].type != kind for name, kind in types.items()):
        return None
    return pa.table({name: arrays[name] for name in types})


def _lines(text: bytes) -> list[bytes]:
    return [line for line in text.split(b"\n") if line.strip()]


def _inside(reason: str) -> str:
    reason = reason.removeprefix("JSON is malformed: ")
    return reason[:1].lower() + reason[1:]


_TOO_DEEP = f"the line is nested deeper than {DEEPEST} levels"


def _decode(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """The object of a line, or why there is none."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return None, f"the line is not JSON: {_inside(str(error))}"
    except RecursionError:
        return None, _TOO_DEEP
    if line.count(b"{") + line.count(b"[") > DEEPEST and is_too_deep(value):
        return None, _TOO_DEEP
    if not isinstance(value, dict):
        return None, f"the line is not a JSON object but {_name_of(value)}"
    return value, ""


def _infer_by_line(text: bytes) -> _Inferred:
    import pyarrow as pa

    values: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    lines = _lines(text)
    is_deep = False
    for line in lines:
        row, why = _decode(line)
        is_deep |= why is _TOO_DEEP
        for name, value in (row or {}).items():
            kinds = values[name]
            if value is not None and not _is_wide(value):
                kinds[_name_of(value)].append(value)
    found: dict[str, list[tuple[Any, int]]] = {name: [(pa.null(), 0)] for name in values}
    for name, kinds in values.items():
        for column in kinds.values():
            try:
                found.setdefault(name, []).append((pa.infer_type(column), len(column)))
            except pa.ArrowInvalid:  # lists of mixed values: judge each by itself
                found.setdefault(name, []).extend((_type_of(value), 1) for value in column)
    return found, len(lines), {}, is_deep


_MARKS = b'"{}[]\n'
_OTHERS = bytes(set(range(256)) - set(_MARKS))
_NOT_OPENING = bytes(set(range(256)) - set(b"{[\n"))


def _has_deep_line(text: bytes) -> bool:
    """Whether a line is nested deeper than values may be: Arrow's parser takes the square of the time, or dies."""
    if max(map(len, text.translate(None, _NOT_OPENING).split(b"\n"))) <= DEEPEST:
        return False
    plain = re.sub(rb"\\.", b"", text, flags=re.DOTALL) if b"\\" in text else text
    marks = re.sub(rb'"[^"\n]*"', b"", plain.translate(None, _OTHERS))
    mark = np.frombuffer(marks, np.uint8)
    ends = mark == ord("\n")
    depth = np.cumsum(np.isin(mark, tuple(b"{[")).astype(np.int32) - np.isin(mark, tuple(b"}]")))
    before = np.concatenate([[0], depth[ends]])[np.cumsum(ends) - ends]  # a line that is not JSON may not end at 0
    return bool((depth - before).max(initial=0) > DEEPEST)


def _has_scattered_names(text: bytes) -> bool:
    """Whether rows have names of their own, by some of them: Arrow would make a cell of each name for each row."""
    rows = [row for line in islice(text.splitlines(), _LOOKED_AT_LINES) if (row := _decode(line)[0])]
    names = {name for row in rows for name in row}
    return len(names) > _FEW_NAMES // 10 and sum(map(len, rows)) < len(rows) * len(names) * 0.1


def _is_whole_line(text: Text) -> bool:
    """Whether the first line is a JSON value and others follow: then it is a row, and not the beginning of an array."""
    first, _, rest = bytes(text).lstrip().partition(b"\n")
    if not rest.strip():
        return False
    try:
        msgspec.json.decode(first)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _type_of(value: Any) -> Any:
    """The type of one value; of a list of mixed values, one that no feature can hold."""
    import pyarrow as pa

    try:
        return pa.infer_type([value])
    except pa.ArrowInvalid:
        return pa.list_(pa.struct([pa.field("mixed", pa.null())]))


def _is_wide(value: Any) -> bool:
    """Whether a value is an integer beyond int64, or a list that holds one."""
    if isinstance(value, list):
        return any(map(_is_wide, value))
    return isinstance(value, int) and value not in _INT64


def _fitting_lines(text: bytes, types: dict[str, Any], as_text: frozenset[str]) -> tuple[bytes, BadRows, int]:
    """The lines whose values have the types of their columns, and what is wrong with the others."""
    as_text = as_text & types.keys()
    bad: BadRows = {}
    kept = []
    lines = _lines(text)
    for row, given in enumerate(lines):
        line = given
        value, why = _decode(line)
        if value is not None and (twice := _repeated_name(line)):
            value, why = None, f"the name {twice!r} occurs twice in one object"
        if value is not None and any(not isinstance(value.get(name), str | None) for name in as_text):
            line, value = _with_text(line, as_text)
        if value is not None:
            why = next(filter(None, (_misfit(value.get(name), kind, name) for name, kind in types.items())), "")
        if why:
            bad[row] = why
        else:
            kept.append(line)
    return b"\n".join(kept) + b"\n", bad, len(lines)


def _repeated_name(line: bytes) -> str:
    """A name that one object of a line has twice; empty if there is none."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        found.extend(name for name in dict.fromkeys(names) if names.count(name) > 1)

    json.loads(line, object_pairs_hook=look)
    return found[0] if found else ""


def _with_text(line: bytes, as_text: frozenset[str]) -> tuple[bytes, dict[str, Any]]:
    """A line with the values of text columns as written: 1.50 is "1.50"."""
    written = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    value: dict[str, Any] = msgspec.json.decode(line)
    for name in as_text & value.keys():
        if not isinstance(value[name], str | None):
            value[name] = bytes(written[name]).decode()
    return msgspec.json.encode(value), value


def _misfit(value: Any, kind: Any, at: str) -> str:
    """Why a value does not have a type; empty if it does."""
    import pyarrow.types as t

    if value is None:
        return ""
    if t.is_list(kind) and isinstance(value, list):
        return next(filter(None, (_misfit(inner, kind.value_type, at) for inner in value)), "")
    if t.is_struct(kind) and isinstance(value, dict):
        inner = (_misfit(value.get(part.name), part.type, f"{at}/{part.name}") for part in kind)
        return next(filter(None, inner), "")
    if _is_wide(value) and t.is_integer(kind):
        return f"{at}: {value} does not fit int64"
    wanted = _kind_name(kind)
    found = _name_of(value)
    if wanted != found or (t.is_integer(kind) and isinstance(value, float)):
        return f"{at}: expected {wanted}, got {found}"
    return ""


def _name_of(value: Any) -> str:
    for kind, name in ((bool, "bool"), (int, "number"), (float, "number"), (str, "str"), (list, "list")):
        if isinstance(value, kind):
            return name
    return "object" if isinstance(value, dict) else "null"


def _kind_name(kind: Any) -> str:
    import pyarrow.types as t

    for check, name in (
        (t.is_null, "null"),
        (t.is_boolean, "bool"),
        (t.is_integer, "number"),
        (t.is_floating, "number"),
        (t.is_list, "list"),
        (t.is_struct, "object"),
    ):
        if check(kind):
            return name
    return "str"


_SINGLE = {"bool", "number", "str"}


def _kind_path(kind: Any) -> str:
    """The name of a kind of values; of lists, with that of their values."""
    import pyarrow.types as t

    return f"list of {_kind_path(kind.value_type)}" if t.is_list(kind) else _kind_name(kind)


def _is_open(name: str, path: str) -> bool:
    """Whether a kind of empty lists fits another kind."""
    return name != "null" and name.endswith("null") and path.startswith(name.removesuffix("null"))


def _plain(kind: Any) -> Any:
    """A type without Arrow's guesses about text: a time of day is text."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _plain(part.type)) for part in kind])
    return pa.string() if pa.types.is_temporal(kind) else kind


def _merge(one: Any, other: Any) -> Any:
    """The type that holds both, which are of one kind; without one, the first, and lines of the other are refused."""
    import pyarrow as pa
    import pyarrow.types as t

    if one == other or t.is_null(other):
        return one
    if t.is_null(one):
        return other
    if t.is_list(one) and t.is_list(other):
        return pa.list_(_merge(one.value_type, other.value_type))
    if t.is_struct(one) and t.is_struct(other):
        fields = {part.name: part.type for part in one}
        for part in other:
            fields[part.name] = _merge(fields[part.name], part.type) if part.name in fields else part.type
        return pa.struct([pa.field(name, kind) for name, kind in fields.items()])
    if _kind_name(one) == _kind_name(other) == "number":
        return pa.float64()
    return one


def _holds_wide_integers(column: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    while pa.types.is_list(column.type):
        column = pc.list_flatten(column)
    if not pa.types.is_floating(column.type):
        return False
    largest = pc.max(pc.abs(column)).as_py()
    return largest is not None and largest >= 2.0**63
