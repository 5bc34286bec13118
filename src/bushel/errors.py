"""Every kind of error that bushel raises, and the messages for faults of records.

All have one shape: what and where in the first line, then at most two lines of help. The parts are also attributes, and
errors can be pickled, because workers raise them.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from os import PathLike, fspath
from typing import Any, Literal

__all__ = [
    "BushelError",
    "BushelWarning",
    "CorruptRecord",
    "Fault",
    "FileProblem",
    "FormatError",
    "MissingName",
    "SchemaMismatch",
    "TooManyRefused",
    "fault_words",
    "missing_package",
    "nearest",
    "printable",
    "quantity",
    "readable_size",
]


class Fault(IntEnum):
    """What can be wrong with a record. The numbers up to 99 are those of the core's `Fault`."""

    NONE = 0
    TRUNCATED_HEADER = 1
    LENGTH_CRC = 2
    TRUNCATED_DATA = 3
    DATA_CRC = 4
    TOO_LARGE = 5
    MALFORMED = 6
    WRONG_KIND = 7
    COMPRESSED_STREAM = 100
    TRUNCATED_STREAM = 101


_FAULT_WORDS = {
    Fault.NONE: "nothing is wrong",
    Fault.TRUNCATED_HEADER: "the file ends inside the record's header",
    Fault.LENGTH_CRC: "checksum of the length does not match",
    Fault.TRUNCATED_DATA: "the file ends inside the record's data",
    Fault.DATA_CRC: "checksum of the data does not match",
    Fault.TOO_LARGE: "the record is larger than 2 GiB, which no reader of Examples accepts",
    Fault.MALFORMED: "the data is not an Example or SequenceExample",
    Fault.WRONG_KIND: "the feature holds another kind of values than the records before it",
    Fault.COMPRESSED_STREAM: "the compressed stream is damaged",
    Fault.TRUNCATED_STREAM: "the compressed stream ends early",
}


def fault_words(fault: Fault) -> str:
    """The message for a fault."""
    return _FAULT_WORDS[fault]


_TO_SEE_ALL = "To keep every intact record: bushel repair {path} OUT"

_FAULT_HELP = {
    Fault.TRUNCATED_HEADER: "{before} intact. Was the writer closed?",
    Fault.LENGTH_CRC: '{before} intact; on_fault="skip" looks for the next one after it.',
    Fault.TRUNCATED_DATA: "{before} intact. Was the writer closed?",
    Fault.DATA_CRC: '{before} intact, and so is its length: on_fault="skip" reads past it.',
    Fault.TOO_LARGE: 'on_fault="skip" reads past it.',
    Fault.MALFORMED: 'on_fault="skip" reads past it; bushel info {path} shows what the records are.',
    Fault.WRONG_KIND: 'on_fault="skip" reads past it; bushel schema {path} shows which kinds there are.',
    Fault.COMPRESSED_STREAM: "Nothing after this place can be read: compress the file again from its source.",
    Fault.TRUNCATED_STREAM: "Nothing after this place was written: was the writer closed, or the copy cut short?",
}

_HELP_AT_FIRST = {  # where no records before it are worth a word
    Fault.TRUNCATED_HEADER: "Was the writer closed?",
    Fault.LENGTH_CRC: 'on_fault="skip" looks for the next one after it.',
    Fault.TRUNCATED_DATA: "Was the writer closed?",
    Fault.DATA_CRC: 'Its length is intact: on_fault="skip" reads past it.',
}


def _records_before(record: int) -> str:
    return "The record before it is" if record == 1 else f"The {record} records before it are"


class BushelWarning(UserWarning):
    """A problem that a successful call in Python reports: refused samples, problems of a plan."""


class WaitingWarning(BushelWarning):
    """What a call waits for, said while it waits."""


# An option of the command line, with its value if that is clear, but not inside a command of another program.
_FLAG = re.compile(r"(?<![\w`])--([a-z][a-z-]*)(?: ((?:[A-Z]+\b|[\w/.%,]+(?=$|[).;]| --| \w+=))(?:,[A-Z]+)*))?")
_SKIPPING = re.compile(r'[;:] on_fault="skip" [^.;]*\.')  # which most commands have no option for
_COMMAND = re.compile(r"`[^`]*`|\b(?:bushel|pip|git|ray) [a-z]+ .*")
_OF_RUN = dict.fromkeys(("overwrite", "append", "strict", "inside"), "True")
_OF_RUN |= dict.fromkeys(("max_bad", "workers", "engine"), "")


_SETTING = re.compile(r"""(?<![\w`])--set (\w+)(?:\.(\w+))?=("[^"]*"|[\w.,/-]*[\w/])""")


def _as_keyword(found: re.Match[str]) -> str:
    """`--set NAME=VALUE` as a keyword: `columns=A,B` is `columns=[A, B]`."""
    name, inner, value = found.groups()
    if "," in value and value[0] != '"':
        value = f"[{', '.join(value.split(','))}]"
    elif value in ("true", "false"):
        value = value.title()
    elif value[0] != '"' and not re.fullmatch(r"[A-Z]+|[\d.]+", value):
        value = f'"{value}"'
    return f'{name}={{"{inner}": {value}}}' if inner else f"{name}={value}"


def in_python(text: str) -> str:
    """A hint with options in the form of a Python call: `--split 80/10` is `split="80/10"`."""
    if "--" not in text:
        return text
    text = _SETTING.sub(_as_keyword, text)
    commands = [found.span() for found in _COMMAND.finditer(text)]

    def replace(found: re.Match[str]) -> str:
        if any(begin <= found.start() < end for begin, end in commands):
            return found[0]
        name, value = found[1].replace("-", "_"), found[2]
        if name in _OF_RUN:
            return f"run=Run({name}={_OF_RUN[name]})" if _OF_RUN[name] else f"{name} of Run"
        if name == "resplit":
            return "resplit=True"
        if value is None:
            return name
        if "," in value:
            value = f"[{', '.join(value.split(','))}]"
        is_plain = value.upper() == value and "/" not in value
        return f"{name}={value}" if is_plain else f'{name}="{value}"'

    return re.sub(r'(\w+=(?:"[^"]*"|True)) (?=\w+=)', r"\1, ", _FLAG.sub(replace, text))


class BushelError(Exception):
    """The base of all errors of bushel. `help` says what to do about it."""

    def __init__(self, message: str, *, help: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.help = tuple(help)[:2]

    def __str__(self) -> str:
        return printable("\n  ".join((self.message, *map(in_python, self.help))))

    @property
    def on_command_line(self) -> str:
        """The same as `str`, with options in the form of the command line."""
        lines = (re.sub(r'^on_fault="skip" [^.;]*(?:\.|; )', "", _SKIPPING.sub(".", line)) for line in self.help)
        return printable("\n  ".join((self.message, *filter(None, lines))))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.__dict__)


def _rebuild(kind: type[BushelError], attributes: dict[str, Any]) -> BushelError:
    error = kind.__new__(kind, attributes["message"])
    error.__dict__.update(attributes)
    return error


class CorruptRecord(BushelError):
    """A record that cannot be read."""

    def __init__(
        self, path: str | PathLike[str], *, record: int, offset: int, fault: Fault | int, feature: str | None = None
    ) -> None:
        self.path = fspath(path)
        self.record = record
        self.offset = offset
        self.fault = Fault(fault)
        self.feature = feature
        what = _FAULT_WORDS[self.fault]
        if feature is not None:
            what = f"feature {feature!r}: {what.removeprefix('the feature ')}"
        words = _FAULT_HELP[self.fault] if record else _HELP_AT_FIRST.get(self.fault, _FAULT_HELP[self.fault])
        help = (words, *([_TO_SEE_ALL] if self.fault < Fault.MALFORMED else []))
        super().__init__(
            f"{self.path}: record {record} at byte {offset}: {what}",
            help=[line.format(before=_records_before(record), path=self.path) for line in help],
        )


class FileProblem(BushelError, OSError):
    """A file that is missing, unreadable, empty, or of an unexpected kind."""

    def __init__(self, path: str | PathLike[str], what: str, *, help: Iterable[str] = ()) -> None:
        self.path = fspath(path)
        self.what = what
        super().__init__(f"{self.path}: {what}", help=help)


class FormatError(BushelError, ValueError):
    """One of bushel's own files (manifest, index, schema) that cannot be understood."""

    def __init__(self, path: str | PathLike[str], what: str, *, help: Iterable[str] = ()) -> None:
        self.path = fspath(path)
        self.what = what
        super().__init__(f"{self.path}: {what}", help=help)


class SchemaMismatch(BushelError, ValueError):
    """A value that does not match its feature; `at` is the path to it, as in `img_0731/boxes[2]`."""

    def __init__(self, what: str, *, at: str, help: Iterable[str] = ()) -> None:
        self.what = what
        self.at = at
        super().__init__(f"{what} - at {at}", help=help)


class Stopped(BushelError):
    """Work that was ended from outside before it was done. A build adds whether any of it is kept."""


class TooManyRefused(BushelError):
    """A build that stopped because too many samples were refused."""

    def __init__(self, out: str | PathLike[str], refused: int, allowed: int, *, first: str) -> None:
        self.path = fspath(out)
        self.refused = refused
        self.allowed = allowed
        limit = f"more than the {allowed:,} allowed" if allowed else "and none is allowed"
        super().__init__(
            f"{self.path}: {quantity(refused, 'sample')} refused, {limit}; the build stopped",
            help=[first],
        )


def reason_of(error: BaseException) -> str:
    """Why something failed, in one line: other libraries' errors are shown with their type."""
    return error.message if isinstance(error, BushelError) else f"{type(error).__name__}: {error}"


@contextmanager
def understood(path: str | PathLike[str], what: str) -> Iterator[None]:
    """Make a `FormatError` of whatever goes wrong while the content of a file is taken for what it should be."""
    try:
        yield
    except BushelError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise FormatError(path, f"{what}: {error}") from None


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that `name` may have been meant to be; `image` is meant to be the image, not its width."""
    names = list(names)
    if f"{name}/encoded" in names:
        return f"{name}/encoded"
    found = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return found[0] if found else None


class MissingName(BushelError, LookupError):
    """A feature, split or other name that does not exist; the nearest one that does is suggested."""

    def __init__(self, what: str, name: str, names: Iterable[str], *, where: str | PathLike[str]) -> None:
        names = sorted(names)
        self.name = name
        close = nearest(name, names)
        shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        super().__init__(
            f"{fspath(where)}: no {what} {name!r}" + (f"; did you mean {close!r}?" if close else ""),
            help=[f"There are: {shown}" if names else f"There is no {what} at all."],
        )


def missing_package(package: str, *, extra: str, purpose: str) -> ImportError:
    """The error for an optional package that is not installed, with the command that installs it."""
    return ImportError(f'{purpose} needs {package}: pip install "bushel[{extra}]"')


def printable(text: str, *, form: Literal["lines", "line", "json"] = "lines") -> str:
    """Text that data brought, as it may be shown anywhere: the one function for terminals, logs, Markdown and HTML.

    Characters that a terminal obeys, that reverse or hide the text around them, or that nobody sees are written as
    Python writes them, or as JSON does. Newlines and tabs stay, unless the text must be one `line`.
    """
    if text.isprintable():
        return text
    kept = "" if form == "line" else "\n\t"
    return "".join(char if char in kept or _is_shown(char) else _written(char, form) for char in text)


_JOINERS = "\u200c\u200d"  # which Persian, Hindi and emoji need


def _is_shown(char: str) -> bool:
    return char.isprintable() or char in _JOINERS or unicodedata.category(char) == "Zs"


def _written(char: str, form: str) -> str:
    if form != "json":
        return ascii(char)[1:-1]
    return json.dumps(char)[1:-1] if ord(char) != 0x7F else "\\u007f"


def quantity(count: int, noun: str) -> str:
    """A count and what is counted: 1 sample, 2,000 samples."""
    return f"{count:,} {noun}" + "s" * (count != 1)


def readable_size(size: float) -> str:
    """A number of bytes as people write it: 512 B, 1.5 MiB."""
    if size < 1024:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if size < 1024 or unit == "TiB":
            break
    return f"{size:.1f} {unit}"
