"""How delimited text is laid out: what precedes its rows, the delimiter, the names, and how numbers are written."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from bushel.errors import FileProblem

__all__ = [
    "BLANKS",
    "DELIMITERS",
    "STYLES",
    "TO_BE_FOUND",
    "Dialect",
    "Layout",
    "Style",
    "find_dialect",
    "has_sign",
    "is_delimited",
    "is_number",
    "one_tab_between",
    "plain_number",
    "styles_of",
    "to_numbers",
]

Style: TypeAlias = Literal["comma", "point"]  # decimal mark of numbers that a plain cast cannot read

_GROUPED = {
    "comma": r"^\s*[+-]?(\d+|\d{1,3}([.\x{a0}\x{202f}']\d{3})+)(,\d+)?\s*$",
    "point": r"^\s*[+-]?(\d+|\d{1,3}([,\x{a0}\x{202f}']\d{3})+)(\.\d+)?([eE][+-]?\d+)?\s*$",
}
STYLES: tuple[Style, ...] = ("comma", "point")
_SIGNED = r"^\s*[+-]?\s*([$€£¥]\s*[+-]?\d[\d.,]*|\d[\d.,]*\s*([$€£¥%]|EUR|USD))\s*$"
_LOOKED_AT_FIRST = 16  # first values, enough to see that most text is not a number
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.IGNORECASE)


def is_number(text: str) -> bool:
    """Whether text is a number, possibly with a decimal comma."""
    return _NUMBER.fullmatch(text.strip()) is not None


def styles_of(array: Any, missing: Iterable[str]) -> tuple[Style, ...]:
    """The styles in which all values of a text column are numbers; none if all are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = array.filter(pc.invert(pc.is_in(array, value_set=pa.array(list(missing), array.type))))
    array = array.drop_null()
    if not len(array):
        return ()
    found = tuple(style for style in STYLES if _all_match(array.slice(0, _LOOKED_AT_FIRST), _GROUPED[style]))
    return tuple(style for style in found if _all_match(array, _GROUPED[style]))


def has_sign(array: Any) -> bool:
    """Whether a text column has values, and all are amounts or percentages."""
    array = array.drop_null()
    return bool(len(array)) and _all_match(array.slice(0, _LOOKED_AT_FIRST), _SIGNED) and _all_match(array, _SIGNED)


def _all_match(array: Any, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.match_substring_regex(array, pattern)).as_py())


def to_numbers(array: Any, style: Style) -> Any:
    """Numbers in a style as text that a cast can read."""
    import pyarrow.compute as pc

    groups = r"[.\x{a0}\x{202f}']" if style == "comma" else r"[,\x{a0}\x{202f}']"
    array = pc.replace_substring_regex(array, groups, "")
    return pc.replace_substring(array, ",", ".") if style == "comma" else array


def plain_number(text: str) -> str:
    """An amount or a percentage as a bare number: `$1,200.50` is 1200.50, and `5 %` is 5."""
    bare = re.sub(r"[\s$€£¥%\u00a0\u202f']|EUR|USD", "", text)
    if "," in bare and (bare.rfind(",") > bare.rfind(".")) and re.search(r",\d{1,2}$", bare):
        return bare.replace(".", "").replace(",", ".")
    return bare.replace(",", "")


BLANKS = " "  # delimiter: any number of blanks and tabs
DELIMITERS = (";", "\t", "|", ",")
_ROWS = 100  # that are looked at
_SEPARATOR_LINE = re.compile(rb'"?sep=(.)"?\r?\n', re.IGNORECASE)  # Excel's
_UNNAMED = re.compile(r"|Unnamed: \d+(\.\d+)?")  # how pandas writes and reads a column without a name
_YEARS = range(1800, 2201)


class Layout(NamedTuple):
    """What the caller says about a file; None: to be found."""

    delimiter: str | None = None
    header: bool | None = None
    names: tuple[str, ...] | None = None


TO_BE_FOUND = Layout()


@dataclass(frozen=True)
class Dialect:
    """What was found."""

    delimiter: str
    names: list[str]
    end: int  # of what precedes the rows, in bytes of UTF-8
    has_header: bool
    index: str | None = None  # a column without a name that only counts rows, as pandas writes it


def find_dialect(path: Path, text: bytes, layout: Layout) -> Dialect:
    """Find the layout from the beginning of a file."""
    stated = _SEPARATOR_LINE.match(text)
    begin, comment = _after_comments(text, stated.end() if stated else 0)
    delimiter = layout.delimiter or (stated[1].decode() if stated else _guess_delimiter(path, text[begin:]))
    rows = _rows(text[begin:], delimiter)
    first = rows[0] if rows else []
    has_header = layout.header if layout.header is not None else not layout.names and not _are_values(first, rows[1:])
    names = [name.strip() for name in first] if has_header else []
    if layout.names is not None:
        if len(layout.names) != len(first):
            raise FileProblem(path, f"has {len(first)} columns, and names gives {len(layout.names)}")
        names = list(layout.names)
    elif not has_header:
        names = _names_in_comment(comment, delimiter, len(first))
    end = begin + (end_of_first_row(text[begin:]) if has_header else 0)
    index = _index_column(names, rows[1:] if has_header else rows)
    names = [_name_of(number, name, index) for number, name in enumerate(names)]
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        help = ["If the first row holds values, not names: --set header=false"] if has_header else []
        raise FileProblem(path, f"two columns have the same name: {', '.join(twice)}", help=help)
    return Dialect(delimiter, names, end, has_header, None if index is None else names[index])


def is_delimited(text: bytes) -> bool:
    """Whether text is rows of values: at least two rows, all as wide as the first."""
    begin, _ = _after_comments(text, 0)
    lines = text[begin:].decode(errors="replace").splitlines()[:_ROWS]
    if len(lines) < 2:
        return False
    delimiter = _guess_delimiter(Path(), text[begin:])
    widths = {len(row) for row in _rows(text[begin:], delimiter)}
    return len(widths) == 1 and widths.pop() > 1


def one_tab_between(text: bytes) -> bytes:
    """Replace runs of blanks between values by tabs; quoted values stay as they are."""
    if b'"' in text:
        text = re.sub(rb'("[^"]*")|[ \t]+', lambda found: found[1] or b"\t", text)
    else:
        text = re.sub(rb"[ \t]+", b"\t", text)
    return re.sub(rb"(?m)^\t|\t(?=\r?$)", b"", text)


def end_of_first_row(text: bytes) -> int:
    """Where the first row ends: at a newline that is not between quotes."""
    at = -1
    while (at := text.find(b"\n", at + 1)) >= 0:
        if text[:at].count(b'"') % 2 == 0:
            return at + 1
    return len(text)


def _after_comments(text: bytes, at: int) -> tuple[int, str]:
    """Where the first line that is neither blank nor a comment begins, and the last comment before it."""
    comment = ""
    while at < len(text):
        end = text.find(b"\n", at) + 1 or len(text)
        line = text[at:end].strip()
        if line and not line.startswith(b"#"):
            break
        comment = line.decode(errors="replace").lstrip("# ") or comment
        at = end
    # Nothing but comments, or a first name that begins with #: it is not a comment.
    return (at, comment) if at < len(text) else (0, "")


def _rows(text: bytes, delimiter: str) -> list[list[str]]:
    lines = text.decode(errors="replace").splitlines(keepends=True)[: 2 * _ROWS]
    if delimiter == BLANKS:
        lines = one_tab_between("".join(lines).encode()).decode().splitlines(keepends=True)
    mark = "\t" if delimiter == BLANKS else delimiter
    for some in (lines, lines[:1]):
        try:
            return [row for row in csv.reader(some, delimiter=mark) if row][:_ROWS]
        except csv.Error:
            continue
    return [lines[:1]]  # a line without this delimiter that is longer than a value may be


def _guess_delimiter(path: Path, text: bytes) -> str:
    if ".tsv" in path.suffixes or ".tab" in path.suffixes:
        return "\t"
    found = max(DELIMITERS, key=lambda mark: _fit(text, mark))
    return BLANKS if _fit(text, found)[0] == 0 and _is_apart_by_blanks(text) else found


def _fit(text: bytes, delimiter: str) -> tuple[float, int]:
    """How well a character separates values: the share of rows as wide as the first, and that width.

    Of two equal ones, the one that is not a comma is right, because a comma may be a decimal mark.
    """
    rows = _rows(text, delimiter)
    width = len(rows[0]) if rows else 1
    return (sum(len(row) == width for row in rows) / len(rows), width) if width > 1 else (0, delimiter == ",")


def _is_apart_by_blanks(text: bytes) -> bool:
    """Whether all rows have the same number of words and some column is all numbers, so that prose is not split."""
    rows = _rows(text, BLANKS)
    if len(rows) < 2 or len({len(row) for row in rows}) > 1 or len(rows[0]) < 2:
        return False
    return any(all(map(is_number, column)) for column in zip(*rows[1:], strict=True))


def _are_values(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row holds values, not names: numbers above numbers, or text that recurs below."""
    columns = [[row[at].strip() for row in rows if at < len(row)] for at in range(len(first))]
    names = [name.strip() for name in first]
    if not rows or not any(names):
        return False
    are_numbers = [bool(column) and all(map(is_number, filter(None, column))) for column in columns]
    if any(name and not is_number(name) for name, numbers in zip(names, are_numbers, strict=True) if numbers):
        return False
    numbers = [name for name, is_one in zip(names, are_numbers, strict=True) if is_one and name]
    texts = [at for at, is_one in enumerate(are_numbers) if not is_one and names[at]]
    come_again = sum(names[at] in columns[at] for at in texts)
    if numbers:
        is_zero = names == [
            "0"
        ]  # what pandas calls an only column; but above whole numbers it is most likely one of them
        if is_zero and all(value.lstrip("+-").isdecimal() for value in columns[0] if value):
            return True
        return come_again > 0 or not (_count_up(numbers) or _are_years(numbers))
    is_sentence = any(len(name.split()) > 3 for name in names)
    return len(rows) > 1 and bool(texts) and (come_again == len(texts) or (come_again > 0 and is_sentence))


def _count_up(names: Sequence[str]) -> bool:
    """Whether names are consecutive numbers, as pandas names columns without names."""
    if not all(name.isdecimal() for name in names):
        return False
    found = [int(name) for name in names]
    return found == list(range(found[0], found[0] + len(found))) and (len(found) > 1 or found[0] == 0)


def _are_years(names: Sequence[str]) -> bool:
    is_year = all(name.isdecimal() and int(name) in _YEARS for name in names)
    return is_year and len(set(names)) == len(names)


def _names_in_comment(comment: str, delimiter: str, count: int) -> list[str]:
    """The names in the last comment, as written by NumPy's `savetxt`; blanks if there are none."""
    found = comment.split(None if delimiter == BLANKS else delimiter)
    is_fit = len(found) == count > 1 and not any(map(is_number, found))
    return [name.strip() for name in found] if is_fit else [""] * count


def _index_column(names: Sequence[str], rows: Sequence[Sequence[str]]) -> int | None:
    """The first column, if it counts the rows and is the only one without a name."""
    if len(names) < 2 or not _UNNAMED.fullmatch(names[0]) or not all(names[1:]) or not rows:
        return None
    values = [row[0].strip() for row in rows]
    if not all(value.isdecimal() for value in values):
        return None
    found = list(map(int, values))
    return 0 if found[0] in (0, 1) and found == list(range(found[0], found[0] + len(found))) else None


def _name_of(number: int, name: str, index: int | None) -> str:
    return "index" if number == index else name or f"column{number}"
