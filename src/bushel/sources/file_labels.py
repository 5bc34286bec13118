"""What is known about files besides what is in them: by a table beside them, or by their names."""

from __future__ import annotations

import hashlib
import re
import re._parser as re_parser  # type: ignore[import-not-found]
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, concatenate, splits_of, take, with_missing
from bushel.data.roles import LABEL_NAMES
from bushel.data.schema import Feature, Schema
from bushel.data.splits import splits_in_names
from bushel.errors import BushelError, FileProblem, MissingName
from bushel.sources.folders import FileList
from bushel.sources.protocol import Block, Listing, Refused, Source, SourceOver
from bushel.sources.tables.table import TableSource, table
from bushel.storage import as_path, open_named

__all__ = [
    "BY_NAME",
    "FileLabels",
    "LabelTable",
    "find_file_column",
    "find_label_files",
    "has_lists",
    "label_feature",
    "label_files",
    "name_columns",
    "open_rows",
    "read_label_files",
    "row_numbers",
]

BY_NAME = "name:"  # before a pattern for the names of files, where a column may be named
_FILE_NAMES = (
    *("file_name", "filename", "file", "path", "image", "image_path", "image_name", "image_id"),
    *("id", "key", "name"),
)
_OF_FOLDER = "_classes.csv"  # beside the images of a split, as Roboflow exports it
_FOLDERS_LOOKED_INTO = 100
_LINES_LOOKED_AT = 50
_LIST_SUFFIX = ".txt"


def find_label_files(folder: Path, files: FileList) -> list[str]:
    """The tables whose rows describe the files of a folder: at its top, or one in each folder of files.

    Several tables at the top must not contradict each other.
    """
    below = [path.decode(errors="surrogateescape") for path in files.folders.to_list()[:_FOLDERS_LOOKED_INTO]]
    own = [str(folder / name / _OF_FOLDER) for name in below if (folder / name / _OF_FOLDER).is_file()]
    if own:
        return own
    lists = sorted(path.name for path in folder.glob(f"*{_LIST_SUFFIX}")) if not files.tables else []
    told: dict[str, list[Any]] = {}
    for name in (*files.tables, *lists):
        try:
            told[name] = _as_list(read_label_files([str(folder / name)], folder, files.paths, None)[0]["label"])
        except BushelError:
            continue
    by_file = zip(*map(_hashable, told.values()), strict=True)
    if any(len({*values} - {None}) > 1 for values in by_file):
        raise FileProblem(
            folder,
            f"several tables describe these files, and they differ: {', '.join(told)}",
            help=[f"Choose one: {' or '.join(f'--set labels={folder / name}' for name in list(told)[:3])}"],
        )
    return _fewest(told, folder)


def _fewest(told: Mapping[str, list[Any]], folder: Path) -> list[str]:
    """The tables that say all that is said about files: one that says the same as those before it is left out."""
    chosen: list[str] = []
    known: set[int] = set()
    for name, values in told.items():
        rows = {row for row, value in enumerate(values) if value is not None}
        if not rows <= known:
            chosen.append(str(folder / name))
            known |= rows
    return chosen


def _hashable(values: list[Any]) -> list[Any]:
    return [tuple(value) if isinstance(value, list) else value for value in values]


def _as_list(column: Column) -> list[Any]:
    """A value per file; None where there is none."""
    return column.tolist() if isinstance(column, np.ndarray) else column.to_list()


def label_files(given: str | list[str] | Mapping[str, Any]) -> list[str]:
    """The files among what was given as labels."""
    return [] if isinstance(given, Mapping) else [given] if isinstance(given, str) else list(given)


def read_label_files(
    given: str | list[str] | Mapping[str, Any], folder: Path, paths: BytesColumn, label_column: str | None
) -> tuple[dict[str, Column], dict[str, int]]:
    """Label of each path, its split if there is such a column, and the number of labels without a file."""
    rows = row_numbers(paths)
    if isinstance(given, Mapping):
        places = _places(rows, [str(name).encode() for name in given])
        from bushel.sources.in_memory import nullable_column

        labels = nullable_column([*given.values()], name="labels")
        return {"label": _spread(labels, places, len(paths))}, _strangers(places)
    found = [_read_table(file, folder, rows, label_column) for file in label_files(given)]
    places = np.concatenate([one[0] for one in found])
    for split, one in zip(splits_in_names(label_files(given)), found, strict=False):
        one[1].setdefault("split", BytesColumn.of([split] * len(one[0])))
    names = [name for name in ("label", "split") if all(name in one[1] for one in found)]
    columns = {name: _spread(concatenate([one[1][name] for one in found]), places, len(paths)) for name in names}
    return columns, _strangers(places)


def _read_table(
    file: str, folder: Path, rows: dict[bytes, int], label_column: str | None
) -> tuple[NDArray[np.int64], dict[str, Column]]:
    """The file that each row of one table is about, and the columns of labels and splits."""
    source = open_rows(file, rows)
    inside = as_path(file).parent
    prefix = f"{inside.relative_to(folder).as_posix()}/" if inside != folder and folder in inside.parents else ""
    file_column = find_file_column(source, rows, file, prefix)
    others = [name for name in source.schema() if name != file_column]
    flags = [] if label_column else _flags(source, others)
    label = "" if flags else label_column or _label_column(source, file_column, file)
    names = [file_column, *(flags or [label]), *(["split"] if "split" in others and label != "split" else [])]
    listings = [source.list(part, names) for part in range(source.partitions())]
    columns = {name: concatenate([listing.columns[name] for listing in listings]) for name in names}
    found = {"label": _flagged(columns, flags) if flags else columns[label]}
    if "split" in columns:
        found["split"] = columns["split"]
    return _places(rows, _texts(columns[file_column]), prefix), found


def open_rows(file: str, rows: Mapping[bytes, int]) -> TableSource:
    """A table about files; a list in a text file, such as `1.jpg cat`, is one without names of columns."""
    if Path(file).suffix.lower() != _LIST_SUFFIX:
        return table(file)
    with open_named(as_path(file)) as read:
        text = read.read(1 << 16).decode("utf-8-sig", errors="replace")
    lines = [line.strip() for line in text.splitlines()[:_LINES_LOOKED_AT] if line.strip()]
    delimiter = "," if lines and all("," in line for line in lines) else "\t" if "\t" in text else " "
    parts = [re.split(rf"\s*{delimiter}\s*" if delimiter != " " else r"\s+", line) for line in lines]
    known = sum(rows.get(part[0].encode(), -1) >= 0 for part in parts)
    if not parts or known * 2 < len(parts) or len({len(part) for part in parts}) != 1:
        raise FileProblem(file, "is not a list of files")
    return table(file, format="csv", delimiter=delimiter, header=False, names=_list_names(parts))


def _list_names(parts: list[list[str]]) -> list[str]:
    """Names of the columns of a list: the file, a label, and the corners of a box if four numbers follow it."""
    width = len(parts[0])
    if width == 2:
        return ["file", "label"]
    if width == 6 and all(_is_number(value) for part in parts for value in part[2:]):
        return ["file", "label", "xmin", "ymin", "xmax", "ymax"]
    return ["file", *(f"column {number}" for number in range(2, width + 1))]


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?", text) is not None


def _flags(source: TableSource, names: Sequence[str]) -> list[str]:
    """The columns, if there are several and each holds only 0 and 1: then they name classes, of which several hold."""
    named = [name for name in names if name.lower() in LABEL_NAMES]
    chosen = [name for name in names if name != "split"]
    if named or len(chosen) < 2:
        return []
    for part in range(source.partitions()):
        for column in source.list(part, chosen).columns.values():
            if not isinstance(column, np.ndarray) or not np.isin(column, (0, 1)).all():
                return []
    return chosen


def _flagged(columns: Mapping[str, Column], flags: Sequence[str]) -> Ragged:
    """For each row the names of the columns that hold a 1."""
    names = [name.strip() for name in flags]
    chosen = np.stack([np.asarray(columns[name], bool) for name in flags], axis=1)
    return Ragged(BytesColumn.of([names[at] for _, at in np.argwhere(chosen)]), splits_of(chosen.sum(axis=1)))


def has_lists(column: Column | None) -> bool:
    """Whether a file may have several labels, or none."""
    if not isinstance(column, Ragged):
        return False
    is_there = np.ones(len(column), bool) if column.present is None else column.present
    return bool((column.lengths[is_there] != 1).any())


def _strangers(places: NDArray[np.int64]) -> dict[str, int]:
    count = int((places < 0).sum())
    return {"labels of files that are not there": count} if count else {}


def row_numbers(paths: Sequence[bytes] | BytesColumn) -> dict[bytes, int]:
    """Rows by the names that a table may use for files: whole path, name, or name without suffix.

    A name that several files have, in different folders, stands for none of them.
    """
    rows: dict[bytes, int] = {}
    for shorten in (_stem, _name, bytes):
        own: dict[bytes, int] = {}
        for row, path in enumerate(paths):
            name = shorten(path)
            own[name] = -1 if name in own else row
        rows |= own
    return rows


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _stem(path: bytes) -> bytes:
    return _name(path).rpartition(b".")[0]


def _texts(column: Column) -> list[bytes]:
    if isinstance(column, np.ndarray):
        return [str(value).encode() for value in column.tolist()]
    if isinstance(column, Ragged):
        return [str(row[0]).encode() if isinstance(row, list) else b"" for row in _rows(column)]
    return column.to_list()


def _rows(column: Ragged) -> list[Any]:
    return [
        [value.decode() if isinstance(value, bytes) else value for value in row] if row else None
        for row in column.to_list()
    ]


def _places(rows: Mapping[bytes, int], names: list[bytes], prefix: str = "") -> NDArray[np.int64]:
    """The file that each name refers to, first below the folder of its table; -1 if there is none."""
    inside = prefix.encode(errors="surrogateescape")
    found = (
        rows.get(inside + name, rows.get(name, rows.get(name.removeprefix(b"./"), -1))) if name else -1
        for name in names
    )
    return np.fromiter(found, np.int64, len(names))


def find_file_column(source: TableSource, rows: Mapping[bytes, int], where: str, prefix: str = "") -> str:
    """The column of file names, found by its first values, or by its own name if several match."""
    candidates = []
    for name in sorted(source.schema(), key=lambda name: name.strip().lower() not in _FILE_NAMES):
        column = source.list(0, [name]).columns[name] if source.partitions() else BytesColumn.of([])
        first = _texts(take(column, np.arange(min(len(column), 100))))
        if first and (_places(rows, first, prefix) >= 0).mean() >= 0.5:
            candidates.append(name)
    if not candidates:
        columns = ", ".join(source.schema())
        raise FileProblem(where, "no column holds the names of the files", help=[f"Its columns are: {columns}"])
    return candidates[0]


def _label_column(source: TableSource, file_column: str, where: str) -> str:
    others = [name for name in source.schema() if name not in (file_column, "split")]
    named = [name for name in others if name.lower() in LABEL_NAMES]
    if len(named) == 1 or len(others) == 1:
        return (named or others)[0]
    if not others:
        raise MissingName("column", "label", source.schema(), where=where)
    raise FileProblem(
        where,
        f"cannot tell which column is the label: {', '.join(others)}",
        help=["Name it: --set label_column=COLUMN"],
    )


def _spread(column: Column, places: NDArray[np.int64], rows: int) -> Column:
    """A column by file from a column by row; if two rows are about one file, the last one counts."""
    order = np.full(rows, -1, np.int64)
    there = places >= 0
    order[places[there]] = np.flatnonzero(there)
    if (order >= 0).all():
        return take(column, order)
    return with_missing(take(column, order[order >= 0]), order >= 0)


def label_feature(column: Column) -> Feature:
    """The feature of a label: text or numbers, or a list of them where a file has several."""
    values = column.values if isinstance(column, Ragged) else column
    is_float = isinstance(values, np.ndarray) and values.dtype.kind == "f"
    kind = "str" if isinstance(values, BytesColumn) else "float32" if is_float else "int64"
    return Feature(dtype=kind, shape=(None,) if has_lists(column) else ())


_REPEATS = (re_parser.MAX_REPEAT, re_parser.MIN_REPEAT)


def _may_never_end(pattern: str) -> bool:
    """Whether something that may be repeated without end is repeated without end: names of some bytes take years."""

    def repeats(parsed: Iterable[Any], *, is_inside: bool) -> bool:
        for code, argument in parsed:
            is_endless = code in _REPEATS and argument[1] is re_parser.MAXREPEAT
            if is_endless and is_inside:
                return True
            inner = [part for part in _parts_of(code, argument) if part is not None]
            if any(repeats(part, is_inside=is_inside or is_endless) for part in inner):
                return True
            if is_inside and code is re_parser.BRANCH:  # two ways to match the same
                return True
        return False

    return repeats(re_parser.parse(pattern), is_inside=False)


def _parts_of(code: Any, argument: Any) -> list[Any]:
    """What is inside one part of a regular expression."""
    if code in _REPEATS:
        return [argument[2]]
    if code is re_parser.BRANCH:
        return list(argument[1])
    if code is re_parser.SUBPATTERN:
        return [argument[3]]
    if code in (re_parser.ASSERT, re_parser.ASSERT_NOT):
        return [argument[1]]
    return []


@dataclass(frozen=True)
class NamePattern:
    """A value from the name of each file: the first group of a pattern that matches all of the name."""

    pattern: str

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.pattern).groups
        except re.error as error:
            raise ValueError(f"{BY_NAME}{self.pattern} is not a regular expression: {error}") from None
        if _may_never_end(self.pattern):
            what = f"{BY_NAME}{self.pattern} may take for ever: it repeats what repeats itself"
            raise ValueError(f"{what}. Write one repeat, such as (a+) instead of (a+)+")
        if not groups:
            what = f"{BY_NAME}{self.pattern} has no group"
            raise ValueError(f"{what}: put the part that is the value in brackets, such as (\\d)_.*")

    def values(self, names: Sequence[bytes]) -> Column:
        """What each name says, with or without its suffix; missing where it does not match."""
        found = [self._value(name.rpartition(b"/")[2].decode(errors="backslashreplace")) for name in names]
        there = np.array([value is not None for value in found], bool)
        column = BytesColumn.of([value for value in found if value is not None])
        return column if there.all() else with_missing(column, there)

    def _value(self, name: str) -> str | None:
        match = re.fullmatch(self.pattern, name) or re.fullmatch(self.pattern, name.rpartition(".")[0])
        return match[1] if match else None

    def why_missing(self) -> str:
        """Why a file has no value."""
        return f"its name does not match '{self.pattern}'"


@dataclass(frozen=True)
class LabelTable:
    """A value for each file from a table."""

    files: str | list[str]
    column: str | None
    folder: str

    def values(self, names: Sequence[bytes]) -> Column:
        """The label of each file; missing where no table lists it."""
        unique = {name: row for row, name in enumerate(dict.fromkeys(names))}
        paths = BytesColumn.of([*unique])
        label = read_label_files(self.files, as_path(self.folder), paths, self.column)[0]["label"]
        return take(label, np.array([unique[name] for name in names], np.int64))

    def why_missing(self) -> str:
        """Why a file has no label."""
        return "the table of labels does not list it"


def name_columns(source: Source, label: str | None, group: str | None) -> tuple[Source, str | None, str | None]:
    """The source, and the names of its label and group, after patterns for file names were made columns of it."""
    features = source.schema().features
    patterns = {
        what: asked.removeprefix(BY_NAME)
        for what, asked in (("label", label), ("group", group))
        if asked is not None and asked.startswith(BY_NAME) and asked not in features
    }
    if not patterns:
        return source, label, group
    named = FileLabels.of(source, patterns)
    return named, None if "label" in patterns else label, None if "group" in patterns else group


@dataclass(frozen=True)
class FileLabels(SourceOver):
    """A source of files with a label, or a group, that a table or the names of the files give."""

    source: Source
    label_from: NamePattern | LabelTable | None = None
    group_from: NamePattern | None = None

    @classmethod
    def of(cls, source: Source, patterns: Mapping[str, str]) -> FileLabels:
        """A source after patterns for the label and the group, by these words."""
        if source.numbers_rows or not source.partitions():
            what = f"{BY_NAME}{next(iter(patterns.values()))}"
            raise ValueError(f"{what} is for files, and the samples of this source have no file names")
        made = {what: NamePattern(pattern) for what, pattern in patterns.items()}
        return cls(source, made.get("label"), made.get("group"))

    @property
    def label(self) -> str | None:
        """`label`, if it comes from here."""
        return "label" if self.label_from else self.source.label

    @property
    def group(self) -> str | None:
        """The pattern, if the group comes from here."""
        return f"{BY_NAME}{self.group_from.pattern}" if self.group_from else self.source.group

    @property
    def has_class_folders(self) -> bool:
        """Not if the label comes from here."""
        return self.source.has_class_folders and self.label_from is None

    def kept_inside(self) -> FileLabels:
        """The same labels over a source that is kept inside."""
        return replace(self, source=self.source.kept_inside())

    def knows(self, columns: Sequence[str]) -> bool:  # noqa: ARG002
        """Labels are found from names while listing."""
        return False

    def schema(self) -> Schema:
        """That of the source, with the label."""
        below = self.source.schema()
        if self.label_from is None:
            return below
        features = {name: feature for name, feature in below.features.items() if name != "label"}
        return Schema(features=features | {"label": self._label}, record=below.record)

    @cached_property
    def _label(self) -> Feature:
        return label_feature(concatenate(self._own["label"]))

    @cached_property
    def _own(self) -> dict[str, list[Column]]:
        """The columns from here, by partition."""
        makers = {"label": self.label_from, self.group or "": self.group_from}
        names = [self._names(part) for part in range(self.partitions())]
        ends = np.cumsum([0, *map(len, names)])
        whole = [name for some in names for name in some]
        found: dict[str, list[Column]] = {}
        for what, maker in makers.items():
            if maker is not None:
                column = maker.values(whole)
                found[what] = [take(column, np.arange(*ends[part : part + 2])) for part in range(len(names))]
        return found

    def _names(self, partition: int) -> list[bytes]:
        """The file of each row: its key, or what it was cut from."""
        cut_from = self.source.group
        listing = self.source.list(partition, [cut_from] if cut_from else [])
        column = listing.columns.get(cut_from or "", listing.keys)
        return column.to_list() if isinstance(column, BytesColumn) else listing.keys.to_list()

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """The listing of the source, with the columns from here."""
        own = {name: self._own[name][partition] for name in columns if name in self._own}
        listing = self.source.list(partition, [name for name in columns if name not in own])
        return replace(listing, columns=listing.columns | own)

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """The blocks of the source, with the label; rows without a value are refused."""
        for block in self.source.read(partition, rows):
            yield self._completed(block, partition)

    def read_undecoded(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """The same for a reader that decodes images itself."""
        for block in self.source.read_undecoded(partition, rows):
            made = self._completed(block, partition)
            decoded = block.decoded
            yield made if decoded is None else replace(made, decoded=partial(self._decoded, decoded, partition))

    def _decoded(self, decoded: Callable[[], Block], partition: int) -> Block:
        return self._completed(decoded(), partition)

    def _completed(self, block: Block, partition: int) -> Block:
        kept = np.ones(len(block.rows), bool)
        refused = list(block.refused)
        for name, maker in (("label", self.label_from), (self.group or "", self.group_from)):
            column = take(self._own[name][partition], block.rows) if maker is not None else None
            if maker is not None and isinstance(column, Ragged) and column.present is not None:
                lacking = np.flatnonzero(~column.present & kept)
                refused += [Refused(int(block.rows[row]), "read", maker.why_missing()) for row in lacking]
                kept[lacking] = False
        left = np.flatnonzero(kept)
        columns = {name: take(column, left) for name, column in block.columns.items()}
        if self.label_from is not None:
            label = take(self._own["label"][partition], block.rows[left])
            columns["label"] = label.values if isinstance(label, Ragged) and not self._label.shape else label
        return replace(block, rows=block.rows[left], columns=columns, refused=refused, decoded=None)

    def locate(self, partition: int, row: int) -> str:
        """As the source below."""
        return self.source.locate(partition, row)

    def file_of(self, partition: int) -> Path | None:
        """As the source below."""
        return self.source.file_of(partition)

    def fingerprint(self) -> str:
        """Changes with the source, the patterns and the table."""
        digest = hashlib.sha256(self.source.fingerprint().encode())
        digest.update(repr((self.label_from, self.group_from)).encode())
        files = label_files(self.label_from.files) if isinstance(self.label_from, LabelTable) else []
        for file in files:
            status = as_path(file).stat()
            digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
        return digest.hexdigest()[:32]

    def describe(self) -> dict[str, Any]:
        """The table of the source, with what was added here."""
        own: dict[str, Any] = {}
        if isinstance(self.label_from, NamePattern):
            own["label_name"] = self.label_from.pattern
        elif self.label_from is not None:
            own["labels"] = self.label_from.files
            own |= {"label_column": self.label_from.column} if self.label_from.column else {}
        if self.group_from is not None:
            own["group_name"] = self.group_from.pattern
        return {**self.source.describe(), **own}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_own", "_label")}
