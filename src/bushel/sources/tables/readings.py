"""What the text in a column stands for, decided by all of its values: dates, lists, numbers among marks."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec

from bushel.data.dates import DATE_TYPES, NOTATIONS, UNITS, find_notations, is_date_type
from bushel.sources.tables.arrow import cast_text, texts, to_json_text
from bushel.sources.tables.date_columns import notations_of, texts_to_dates
from bushel.sources.tables.dialect import is_number, to_numbers

__all__ = [
    "USUAL_MARKS",
    "ColumnWitness",
    "MissingValues",
    "Reading",
    "check_date_type",
    "drop_marks",
    "is_text",
    "mixed_note",
    "nested_note",
]

# What people write where there is no value. They are taken for that only where the rest of a column then has a type.
USUAL_MARKS = (
    *("?", "-", "--", "---", ".", "..", "*", "\u2013", "\u2014"),
    *("#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"),  # Excel's errors
    *("NA", "N/A", "n/a", "na", "n.a.", "#N/A", "<NA>", "NaN", "nan", "-nan", "\\N"),
    *("null", "NULL", "Null", "none", "None", "NONE", "missing", "Missing", "MISSING"),
)
MissingValues: TypeAlias = Annotated[
    Sequence[str] | None, "Texts and numbers that mean missing (default: ?, - and such, where the rest is numbers)"
]
Kind: TypeAlias = Literal[
    "as it is", "integer", "number", "date", "list of text", "list of integers", "list of numbers", "JSON text"
]
Style: TypeAlias = Literal["plain", "groups"]
_PLAIN = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_STYLES: dict[Style, str] = {
    "plain": rf"^{_PLAIN}$",
    "groups": rf"^({_PLAIN}|[+-]?\d{{1,3}}(,\d{{3}})+(\.\d+)?)$",  # 1,234.5
}
_WHOLE = r"^[+-]?[\d,]+$"
_CODE = r"^[+-]?0\d"  # 007 is not a number
_FIRST = 16  # values, enough to see that most text is nothing else


class Reading(NamedTuple):
    """What a column is read as, and the texts in it that mean that a value is missing, with the rows that hold them."""

    kind: Kind = "as it is"
    marks: tuple[str, ...] = ()
    marked: int = 0
    rows: int = 0  # with other values
    has_groups: bool = False  # digits in groups of three
    notation: str = ""  # of dates
    is_ambiguous: bool = False  # whether dates may have the day or the month first

    def type_of(self, given: Any) -> Any:
        """The type in Arrow that a column of a given type gets."""
        import pyarrow as pa

        if self.kind == "JSON text":
            return pa.string()
        if self.kind == "as it is" or not is_text(given):
            return given
        types = {"integer": pa.int64(), "number": pa.float64(), "date": pa.timestamp("us")}
        inner = {"list of text": pa.string(), "list of integers": pa.int64(), "list of numbers": pa.float64()}
        return types[self.kind] if self.kind in types else pa.list_(inner[self.kind])

    def notes(self, name: str) -> dict[str, int]:
        """What was decided about a column, for people, with the rows that it is about."""
        if self.kind == "JSON text":
            return {nested_note(name, self.rows): self.rows}
        found: dict[str, int] = {}
        s, keeps = "s" * (self.marked > 1), f"--type {quote(name)}=str keeps the text"
        if self.kind == "as it is":
            if self.is_ambiguous:
                either = f"--type {quote(name)}=date:dmy or date:mdy"
                found[f"values of {name!r} are dates with day or month first, kept as text ({either})"] = self.rows
            return found | ({f"value{s} of {name!r} that mean missing, as asked": self.marked} if self.marked else {})
        what = {"integer": "numbers", "number": "numbers", "date": "dates"}.get(self.kind, "lists")
        if what != "numbers":
            found[f"values of {name!r} read as {what}{_UTC * (what == 'dates')} ({keeps})"] = self.rows
        if self.marked:
            which = ", ".join(map(repr, self.marks[:4]))
            found[f"value{s} {which} of {name!r} taken for missing: the others are {what} ({keeps})"] = self.marked
        return found

    def apply(self, array: Any) -> Any:
        """An array of the file as what it is read as."""
        if self.kind == "JSON text":
            return to_json_text(array)
        array = drop_marks(array, self.marks)
        if self.kind == "as it is" or not is_text(array.type):
            return array
        if self.kind == "date":
            return texts_to_dates(array, self.notation, {})
        if self.kind.startswith("list"):
            return _to_lists(array, self.type_of(array.type))
        return cast_text(to_numbers(array, "point") if self.has_groups else array, self.type_of(array.type), {})


_UTC = ", times without a zone as UTC"


def check_date_type(name: str, dtype: str, kind: Any, reading: Reading) -> None:
    """Raise an error if a requested type of dates does not say all that the values leave open."""
    import pyarrow.types as t

    if dtype not in DATE_TYPES:
        raise ValueError(f"types[{name!r}] must be one of {', '.join(DATE_TYPES)}; got {dtype!r}")
    form, is_number = dtype.partition(":")[2], t.is_integer(kind) or t.is_floating(kind)
    if is_number != (form in UNITS) and not t.is_temporal(kind):
        units = ", ".join(f"date:{unit}" for unit in UNITS)
        wanted = f"one of {units} for numbers since 1970" if is_number else "date, date:dmy or date:mdy for text"
        raise ValueError(f"types[{name!r}] must be {wanted}; got {dtype!r}")
    if dtype == "date" and reading.is_ambiguous:
        raise ValueError(
            f"types[{name!r}] must be date:dmy or date:mdy: all values may have the day or the month first"
        )


_EITHER = {"dmy", "mdy"}


def mixed_note(name: str, count: int) -> str:
    """What is said of a column of text in which some values are not text."""
    which = f"value{'s' * (count > 1)} of {name!r} that {'are' if count > 1 else 'is'} not text"
    return f"{which}, kept as text like the others (--type {quote(name)}=float32 makes numbers, and refuses the rest)"


def nested_note(name: str, count: int) -> str:
    """What is said of a column that no feature holds as it is."""
    return (
        f"value{'s' * (count > 1)} of {name!r} kept as JSON text: maps, or lists in lists (--columns leaves them out)"
    )


def is_text(kind: Any) -> bool:
    """Whether it is one of Arrow's types of text."""
    import pyarrow.types as t

    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind))


def drop_marks(array: Any, marks: Sequence[str]) -> Any:
    """The array without the values that mean missing; numbers are compared as numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if not marks:
        return array
    if is_text(kind):
        given = pc.utf8_trim_whitespace(array)
        wanted = texts(marks).cast(kind)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        plain = [mark for mark in marks if is_number(mark) and "," not in mark]
        given, wanted = array.cast(pa.float64(), safe=False), texts(plain).cast(pa.float64())
    else:
        return array
    return pc.if_else(pc.is_in(given, value_set=wanted), pa.nulls(1, kind)[0], array)


@dataclass
class ColumnWitness:
    """What the values of a column that were seen so far can be.

    `marks` were asked for, and mean missing in any column. If none were, the usual ones do in a column of text that
    they keep from being numbers, dates or lists, or that is `asked` to be something else than text.
    """

    marks: tuple[str, ...] | None = None
    asked: str | None = None  # the type; None: nobody asked for one
    may_hold_lists: bool = False  # lists are written as text, as in CSV
    seen: Counter[str] = field(default_factory=Counter)  # marks
    rows: int = 0  # with other values
    styles: set[Style] = field(default_factory=lambda: {"plain", "groups"})  # in which all values are numbers
    is_whole: bool = True
    notations: set[str] = field(default_factory=lambda: set(NOTATIONS))  # in which all values are dates
    dates: Counter[str] = field(default_factory=Counter)  # values that are dates, by notation, if dates were asked for
    lists: set[str] = field(default_factory=lambda: {"text", "integers", "numbers"})  # what all values are lists of

    def __post_init__(self) -> None:
        if not self.may_hold_lists:
            self.lists.clear()

    @property
    def is_settled(self) -> bool:
        """Whether more values would change nothing."""
        is_text = not self.styles and not self.notations and not self.lists
        return self.marks is None and self.asked is None and is_text

    def add(self, array: Any) -> None:
        """Look at some rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if not is_text(array.type):
            self.seen["numbers"] += drop_marks(array, self.marks or ()).null_count - array.null_count
            return
        packed = pc.value_counts(pc.utf8_trim_whitespace(array.drop_null()))
        found, counts = packed.field(0), packed.field(1)
        known = texts(USUAL_MARKS if self.marks is None else self.marks).cast(found.type)
        is_mark = pc.is_in(found, value_set=known)
        marked = zip(found.filter(is_mark).to_pylist(), counts.filter(is_mark).to_pylist(), strict=True)
        self.seen.update(dict(marked))
        is_blank = pc.is_in(found, value_set=texts([""]).cast(found.type))
        is_value = pc.invert(pc.or_(is_mark, is_blank))
        rest = found.filter(is_value)
        if not len(rest):
            return
        self.rows += sum(counts.filter(is_value).to_pylist())
        if self.asked is not None and is_date_type(self.asked):
            self.dates.update(find_notations(rest.to_pylist()))
        elif self.asked is None:
            self._look_for_numbers(rest)
            for some in (rest.slice(0, _FIRST), rest):
                self.notations = notations_of(some, self.notations)
                self.lists = _lists_of(some, self.lists)

    def _look_for_numbers(self, texts: Any) -> None:
        for some in (texts.slice(0, _FIRST), texts):
            if self.styles and _any(some, _CODE):
                self.styles.clear()
            for style in tuple(self.styles):
                if not _all(some, _STYLES[style]):
                    self.styles.remove(style)
        self.is_whole = self.is_whole and (not self.styles or _all(texts, _WHOLE))

    def reading(self) -> Reading:
        """What the column is, now that all values were seen."""
        marks, marked = tuple(self.seen), sum(self.seen.values())
        if self.marks is not None:
            marks = self.marks if marked else ()
        found = Reading("as it is", marks, marked, self.rows)
        if self.asked is not None:
            best = max(self.dates, key=lambda name: self.dates[name], default="")
            is_either = best in _EITHER and self.dates["dmy"] == self.dates["mdy"]
            return found._replace(notation=best, is_ambiguous=is_either)
        if self.rows and self.styles and marked:
            kind: Kind = "integer" if self.is_whole else "number"
            return found._replace(kind=kind, has_groups="plain" not in self.styles)
        if self.rows and len(self.notations) == 1:
            return found._replace(kind="date", notation=next(iter(self.notations)))
        if self.rows and self.lists:
            inner = "integers" if "integers" in self.lists else "numbers" if "numbers" in self.lists else "text"
            return found._replace(kind=_LISTS[inner])
        if self.rows and self.notations == _EITHER:
            found = found._replace(is_ambiguous=True)
        if self.marks is None:
            found = found._replace(marks=(), marked=0)
        return found if found.marks or found.is_ambiguous else Reading()


_LISTS: dict[str, Kind] = {"integers": "list of integers", "numbers": "list of numbers", "text": "list of text"}


def _lists_of(texts: Any, kinds: set[str]) -> set[str]:
    """Those kinds of values of which all texts are lists."""
    for text in texts.to_pylist() if kinds else ():
        values = parse_list(text)
        if values is None:
            return set()
        types = {type(value) for value in values}
        if not types <= {int}:
            kinds = kinds - {"integers"}
        if not types <= {int, float}:
            kinds = kinds - {"numbers"}
        if not types <= {str}:
            kinds = kinds - {"text"}
        if not kinds:
            return kinds
    return kinds


_PYTHON_LIST = re.compile(r"\[[^\[\](){}]*\]")


def parse_list(text: str) -> list[Any] | None:
    """The list that a text is in JSON, or as Python writes lists of single values; None if it is none."""
    text = text.strip()
    if not text.startswith("[") or not text.endswith("]"):
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        if not _PYTHON_LIST.fullmatch(text):
            return None
        try:
            found = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    is_of_one = all(type(value) in (int, float, str) and not _is_beyond(value) for value in found)
    return found if is_of_one else None


def _is_beyond(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _to_lists(array: Any, kind: Any) -> Any:
    import pyarrow as pa

    return pa.array([parse_list(text) if text else None for text in array.to_pylist()], kind)


def _all(array: Any, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.match_substring_regex(array, pattern)).as_py())


def _any(array: Any, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring_regex(array, pattern)).as_py())
