"""How a file of delimited text is laid out: what comes before its rows, what stands between values, and the names."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bushel.errors import FileProblem
from bushel.sources.tables.written_numbers import is_number

__all__ = ["BLANKS", "TO_BE_FOUND", "Dialect", "Layout", "find_dialect", "is_delimited", "one_tab_between"]

BLANKS = " "  # as a delimiter: any number of blanks and tabs
_DELIMITERS = (";", "\t", "|", ",")
_ROWS = 100  # that are looked at
_SEPARATOR_LINE = re.compile(rb'"?sep=(.)"?\r?\n', re.IGNORECASE)  # Excel's
_UNNAMED = re.compile(r"|Unnamed: \d+(\.\d+)?")  # as pandas writes and reads a column that has no name
_YEARS = range(1800, 2201)


class Layout(NamedTuple):
    """What a caller says of a file; None is to be found."""

    delimiter: str | None = None
    header: bool | None = None
    names: tuple[str, ...] | None = None


TO_BE_FOUND = Layout()


@dataclass(frozen=True)
class Dialect:
    """What was found."""

    delimiter: str
    names: list[str]
    end: int  # of what comes before the rows, in bytes of UTF-8
    has_header: bool
    index: str | None = None  # a column without a name that only counts rows, as pandas writes it


def find_dialect(path: Path, text: bytes, layout: Layout) -> Dialect:
    """Look at the beginning of a file."""
    told = _SEPARATOR_LINE.match(text)
    begin, comment = _after_comments(text, told.end() if told else 0)
    delimiter = layout.delimiter or (told[1].decode() if told else _guess_delimiter(path, text[begin:]))
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
    """Whether some text without a telling name is rows of values: at least two, all as wide as the first."""
    begin, _ = _after_comments(text, 0)
    lines = text[begin:].decode(errors="replace").splitlines()[:_ROWS]
    if len(lines) < 2:
        return False
    delimiter = _guess_delimiter(Path(), text[begin:])
    widths = {len(row) for row in _rows(text[begin:], delimiter)}
    return len(widths) == 1 and widths.pop() > 1


def one_tab_between(text: bytes) -> bytes:
    """Rows whose values stand apart by blanks, as rows of tabs; what is in quotes stays."""
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
    """Where the first line begins that is neither blank nor a comment, and the last comment before it."""
    comment = ""
    while at < len(text):
        end = text.find(b"\n", at) + 1 or len(text)
        line = text[at:end].strip()
        if line and not line.startswith(b"#"):
            break
        comment = line.decode(errors="replace").lstrip("# ") or comment
        at = end
    # A file of nothing else, or a first name that begins with #: it is no comment.
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
    return [lines[:1]]  # a line without this mark that is longer than a value may be


def _guess_delimiter(path: Path, text: bytes) -> str:
    if ".tsv" in path.suffixes or ".tab" in path.suffixes:
        return "\t"
    found = max(_DELIMITERS, key=lambda mark: _fit(text, mark))
    return BLANKS if _fit(text, found)[0] == 0 and _is_apart_by_blanks(text) else found


def _fit(text: bytes, delimiter: str) -> tuple[float, int]:
    """How well a character takes rows apart: in which share of them into as many values as in the first, and how many.

    Where two do so equally, the one before a comma is right: a comma may stand before decimals.
    """
    rows = _rows(text, delimiter)
    width = len(rows[0]) if rows else 1
    return (sum(len(row) == width for row in rows) / len(rows), width) if width > 1 else (0, delimiter == ",")


def _is_apart_by_blanks(text: bytes) -> bool:
    """Whether all rows have as many words, and in some place all have numbers: so no text of words is taken apart."""
    rows = _rows(text, BLANKS)
    if len(rows) < 2 or len({len(row) for row in rows}) > 1 or len(rows[0]) < 2:
        return False
    return any(all(map(is_number, column)) for column in zip(*rows[1:], strict=True))


def _are_values(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether what should be names are values: numbers above numbers, or text that comes again below."""
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
        return come_again > 0 or not (_count_up(numbers) or _are_years(numbers))
    is_sentence = any(len(name.split()) > 3 for name in names)
    return len(rows) > 1 and len(texts) > 1 and (come_again == len(texts) or (come_again > 0 and is_sentence))


def _count_up(names: Sequence[str]) -> bool:
    """Whether names are 0, 1, 2, ... or go on from another number: as pandas names what has no names."""
    if not all(name.isdecimal() for name in names):
        return False
    found = [int(name) for name in names]
    return found == list(range(found[0], found[0] + len(found))) and (len(found) > 1 or found[0] == 0)


def _are_years(names: Sequence[str]) -> bool:
    is_year = all(name.isdecimal() and int(name) in _YEARS for name in names)
    return is_year and len(set(names)) == len(names)


def _names_in_comment(comment: str, delimiter: str, count: int) -> list[str]:
    """The names that a last comment gives, as NumPy's `savetxt` writes them; blanks where it gives none."""
    found = comment.split(None if delimiter == BLANKS else delimiter)
    is_fit = len(found) == count > 1 and not any(map(is_number, found))
    return [name.strip() for name in found] if is_fit else [""] * count


def _index_column(names: Sequence[str], rows: Sequence[Sequence[str]]) -> int | None:
    """The first column, if it has no name although others have, and counts the rows."""
    if len(names) < 2 or not _UNNAMED.fullmatch(names[0]) or not all(names[1:]) or not rows:
        return None
    values = [row[0].strip() for row in rows]
    if not all(value.isdecimal() for value in values):
        return None
    found = list(map(int, values))
    return 0 if found[0] in (0, 1) and found == list(range(found[0], found[0] + len(found))) else None


def _name_of(number: int, name: str, index: int | None) -> str:
    return "index" if number == index else name or f"column{number}"
