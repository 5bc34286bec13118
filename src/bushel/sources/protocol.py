"""What a source must provide, and its options, which the signature of the function that opens it declares.

    def images(folder: AnyPath, *, verify: Annotated[Verify, "How images are checked"] = "decode") -> ImageSource:

Everything is in columns, with no Python object per sample if that can be avoided. Name, type, default and help of an
option come from the signature: for recipes, `describe()`, the command line, its "did you mean" and docs.
"""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn
from bushel.data.schema import Schema
from bushel.errors import nearest
from bushel.plugins import is_address
from bushel.storage import AnyPath, as_path, listed

__all__ = [
    "Block",
    "Listing",
    "Option",
    "Reads",
    "Refused",
    "Source",
    "SourceOver",
    "as_given",
    "check_names",
    "check_values",
    "fingerprint_of",
    "fingerprint_of_arrays",
    "options_of",
    "paths_named",
    "recipe_table",
]


Reads: TypeAlias = Literal["random", "sequence"]


class Refused(NamedTuple):
    """A sample that cannot be used: its row in the partition, the stage that found it, and why."""

    row: int
    stage: str  # read, decode, schema, transform
    reason: str


@dataclass(frozen=True)
class Listing:
    """What a plan needs to know about one partition, without its payload."""

    keys: BytesColumn  # one per row; unique over the whole source
    columns: dict[str, Column]  # the requested ones: label, split, group
    sizes: NDArray[np.int64] | None = None  # bytes of each row, if that is cheap to find
    counted: dict[str, int] = field(default_factory=dict)  # what was left out, by kind: hidden files, ...


@dataclass(frozen=True)
class Block:
    """Some rows of one partition, read."""

    rows: NDArray[np.int64]  # their numbers in the partition
    columns: dict[str, Column]  # one row each
    refused: list[Refused] = field(default_factory=list)  # rows that are not in `rows`
    counted: dict[str, int] = field(default_factory=dict)  # what was changed, by kind: rotated upright, ...
    is_repeat: bool = False  # these rows repeat others, for balance
    # The same rows with their images decoded to check them, if that was left to whoever decodes them anyway.
    decoded: Callable[[], Block] | None = None


class Source(ABC):
    """Where samples come from, in one or several partitions. A value that is cheap to pickle.

    What is not abstract has a default: a source states only what is true of it. Missing values are rows of a `Ragged`
    that are not present.
    """

    @property
    @abstractmethod
    def reads(self) -> Reads:
        """Whether rows are read at random, or all of them in sequence."""

    @property
    def split(self) -> str | None:
        """The column that holds the split, if samples have one. It can be listed, but need not be a feature."""
        return None

    @property
    def group(self) -> str | None:
        """The column of what belongs together (windows of a series, tiles of an image): shares are drawn by it."""
        return None

    @property
    def label(self) -> str | None:
        """The name of the label, if that is known and not `label`."""
        return None

    @property
    def numbers_rows(self) -> bool:
        """Whether keys are made from row numbers, so that no two are the same."""
        return False

    @property
    def has_class_folders(self) -> bool:
        """Whether folders may name the classes."""
        return False

    @property
    def any_thread(self) -> bool:
        """Whether it may be read in another thread than the one that made it."""
        return False

    @property
    def decodes_in_threads(self) -> bool:
        """Whether it decodes in threads, so that a short build starts no processes."""
        return False

    @abstractmethod
    def partitions(self) -> int:
        """The number of parts that can be listed and read separately."""

    @abstractmethod
    def schema(self) -> Schema:
        """Names and types of the features, from the whole source, not only from its first rows."""

    @abstractmethod
    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """List one partition: keys, and the requested columns that the source has."""

    @abstractmethod
    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """Read rows of one partition, a block at a time.

        A source that reads at random is given row numbers and yields those, in that order. One that reads in sequence
        is given None and yields all rows in order.
        """

    def read_undecoded(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """The same for a reader that decodes all of every image itself, and so finds damaged ones on the way."""
        return self.read(partition, rows)

    def kept_inside(self) -> Source:
        """The same source, which refuses rows that name files outside its folder."""
        return self

    @abstractmethod
    def locate(self, partition: int, row: int) -> str:
        """Where a row comes from, as text for people: `cats/001.jpg`, `rows.csv: row 1041`."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A value that changes when the source does, found without reading payload."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The `[source]` table of a recipe that makes this source again."""

    def knows(self, columns: Sequence[str]) -> bool:  # noqa: ARG002
        """Whether listing these columns reads nothing."""
        return False

    def file_of(self, partition: int) -> Path | None:  # noqa: ARG002
        """The one file whose records are the rows of a partition, in its order, if there is one."""
        return None

    def spool(self, folder: Path | None = None) -> None:  # noqa: B027
        """Write what is in memory to files that other processes can map, in `folder` or in a temporary folder."""


class SourceOver(Source):
    """A source over another one, whose rows have other numbers: it passes on facts, and nothing that takes rows."""

    source: Source

    @property
    def reads(self) -> Reads:
        """As the source below."""
        return self.source.reads

    @property
    def split(self) -> str | None:
        """As the source below."""
        return self.source.split

    @property
    def group(self) -> str | None:
        """As the source below."""
        return self.source.group

    @property
    def label(self) -> str | None:
        """As the source below."""
        return self.source.label

    @property
    def numbers_rows(self) -> bool:
        """As the source below."""
        return self.source.numbers_rows

    @property
    def has_class_folders(self) -> bool:
        """As the source below."""
        return self.source.has_class_folders

    @property
    def any_thread(self) -> bool:
        """As the source below."""
        return self.source.any_thread

    @property
    def decodes_in_threads(self) -> bool:
        """As the source below."""
        return self.source.decodes_in_threads

    def partitions(self) -> int:
        """Those of the source below."""
        return self.source.partitions()

    def schema(self) -> Schema:
        """That of the source below."""
        return self.source.schema()

    def knows(self, columns: Sequence[str]) -> bool:
        """As the source below: the columns are listed from its own."""
        return self.source.knows(columns)

    def spool(self, folder: Path | None = None) -> None:
        """What is in memory is in the source below."""
        self.source.spool(folder)


_HASHED_WHOLE = 64 << 20  # bytes of an array that is hashed whole; a larger one is sampled evenly, to this size
_PIECES = 64


def as_given(paths: AnyPath | Iterable[AnyPath]) -> str | list[str]:
    """Paths and patterns as a recipe keeps them."""
    return str(paths) if isinstance(paths, str | PathLike) else [str(path) for path in paths]


def fingerprint_of(files: Iterable[AnyPath], options: Mapping[str, Any], *more: str) -> str:
    """A fingerprint of files (name, size and time), options, and any further text."""
    digest = hashlib.blake2b(digest_size=16)
    for path in listed([as_path(file) for file in files]):
        status = path.stat()
        digest.update(f"{path.name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    stated = {name: value for name, value in options.items() if name != "path"}
    digest.update(msgspec.json.encode(stated, order="deterministic"))
    for text in more:
        digest.update(b"\0" + text.encode())
    return digest.hexdigest()


def fingerprint_of_arrays(columns: Mapping[str, Column]) -> str:
    """A fingerprint of columns: names, types and values."""
    digest = hashlib.blake2b(digest_size=16)
    for name, column in columns.items():
        digest.update(name.encode() + b"\0")
        _add(digest, column)
    return digest.hexdigest()


def _add(digest: Any, column: Any) -> None:
    if isinstance(column, BytesColumn):
        _add(digest, column.offsets)
        _add(digest, column.data)
    elif isinstance(column, Ragged):
        _add(digest, column.row_splits)
        _add(digest, column.values)
        if column.present is not None:
            _add(digest, column.present)
    elif isinstance(column, SparseColumn):
        digest.update(str(column.size).encode())
        for part in (column.row_splits, column.places, column.values):
            _add(digest, part)
    else:
        digest.update(f"{column.dtype.str}{column.shape}".encode())
        if column.nbytes <= _HASHED_WHOLE:
            digest.update(np.ascontiguousarray(column).reshape(-1).view(np.uint8))
            return
        step = max(1, _HASHED_WHOLE // _PIECES * len(column) // column.nbytes)
        for start in np.linspace(0, len(column) - step, _PIECES).astype(int).tolist():
            digest.update(np.ascontiguousarray(column[start : start + step]).reshape(-1).view(np.uint8))


class Option(NamedTuple):
    """One option of a source."""

    name: str
    type: Any
    default: Any
    help: str

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed words; empty if it is not a choice of words."""
        kinds = [self.type, *get_args(self.type)]
        if str in kinds:
            return ()
        return tuple(word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind))

    @property
    def plain_type(self) -> type:
        """The type as a command line reads it: bool, int, float or str."""
        kinds = [kind for kind in (self.type, *get_args(self.type)) if kind is not NoneType]
        return next((kind for kind in (bool, int, float) if kind in kinds), str)

    @property
    def is_list(self) -> bool:
        """Whether it takes several values, and not one alone."""
        return self._takes(list, tuple, Sequence)

    @property
    def is_text(self) -> bool:
        """Whether it takes text and nothing else."""
        return set(get_args(self.type) or (self.type,)) in ({str}, {str, NoneType})

    def _takes(self, *kinds: Any) -> bool:
        own = (self.type, *get_args(self.type))
        return str not in own and any(get_origin(kind) in kinds for kind in own)

    def refuse(self, value: Any) -> None:
        """Raise a ValueError if a value is of another type."""
        if isinstance(value, str) and self.choices and value not in self.choices:
            close = nearest(value, self.choices)
            meant = f"; did you mean {close!r}?" if close else ""
            number = "a number, or " if self.plain_type in (int, float) else ""
            raise ValueError(f"{self.name} must be {number}one of {', '.join(self.choices)}; got {value!r}{meant}")
        if isinstance(value, str) and self.is_list:
            raise ValueError(f"{self.name} must be a list, got {value!r}")
        if isinstance(value, str) and self._takes(dict, Mapping):
            raise ValueError(f"{self.name} must be a value by name, such as {self.name}.NAME=VALUE; got {value!r}")
        if isinstance(value, int | float) and self.is_text:
            raise ValueError(f"{self.name} must be text, got {value!r}")
        is_word = isinstance(value, str) and value not in self.choices and str not in (self.type, *get_args(self.type))
        if is_word and self.plain_type is not str:
            wanted = "True or False" if self.plain_type is bool else "a number"
            raise ValueError(f"{self.name} must be {wanted}, got {value!r}")
        if isinstance(value, float) and self.plain_type is int and float not in get_args(self.type):
            raise ValueError(f"{self.name} must be a whole number, got {value!r}")


@cache
def options_of(make: Callable[..., Any]) -> dict[str, Option]:
    """The options of a source by name, in the order of its signature, without the path."""
    hints = get_type_hints(make, include_extras=True)
    _, *parameters = inspect.signature(make).parameters.values()
    found = {}
    for parameter in parameters:
        if parameter.name == "helpers":  # it changes no sample, so no recipe has it
            continue
        hint, help = hints[parameter.name], ""
        if get_origin(hint) is Annotated:
            hint, help = get_args(hint)
        found[parameter.name] = Option(parameter.name, hint, parameter.default, help)
    return found


# How to give on the command line what a source needs, if not with --set.
_AS_FLAGS = {
    "series": "; on the command line: --windows N --time COL",
    "tiles": "; on the command line: --tiles 256x256",
}


def check_names(make: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse unknown options, and report required ones that are missing."""
    options = options_of(make)
    for name in given:
        if name not in options:
            close = nearest(name, options)
            meant = f"; did you mean {close!r}?" if close else ""
            raise ValueError(f"{make.__name__} has no option {name!r}{meant} (there are: {', '.join(options)})")
    missing = [option for option in options.values() if option.is_required and option.name not in given]
    if missing:
        needed = ", ".join(f"{option.name} ({option.help.lower()})" for option in missing)
        raise ValueError(f"{make.__name__} needs {needed}{_AS_FLAGS.get(make.__name__, '')}")


def check_values(make: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse words and types that an option does not allow. `given` may be `locals()` at the start of the function."""
    for name, option in options_of(make).items():
        option.refuse(given[name])


def recipe_table(
    make: Callable[..., Any],
    path: Any,
    given: Mapping[str, Any],
    *,
    first: Sequence[str] = (),
    always: Sequence[str] = (),
) -> dict[str, Any]:
    """The `[source]` table of a recipe: kind, path, and the options that differ from their defaults.

    Those in `first` and `always` are included anyway, unless they are None; those in `first` come first.
    """
    options = options_of(make)
    table: dict[str, Any] = {"kind": make.__name__, "path": path}
    for name in (*first, *(name for name in options if name not in first)):
        value, default = _plain(given[name]), _plain(options[name].default)
        if value is not None and value != {} and (value != default or name in first or name in always):
            table[name] = value
    return table


def _plain(value: Any) -> Any:
    """As TOML and JSON can hold it."""
    if isinstance(value, PathLike):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(inner) for inner in value]
    return value


WALKED = ("path", "labels", "marks")  # options that name what is read as a whole, with the links in it
NAMED = (*WALKED, "image_root", "images")  # and those that name where something else is found


def paths_named(table: Mapping[str, Any], names: Sequence[str] = NAMED) -> list[Path]:
    """The files, folders and patterns that the table of a source names."""
    named = [table.get(name) for name in names]
    texts = [text for given in named for text in (given if isinstance(given, list | tuple) else [given])]
    return [as_path(text) for text in texts if isinstance(text, str | PathLike) and not is_address(text)]
