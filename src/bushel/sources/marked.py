"""Marks that people put on records: a file of JSON lines, of which the last line on a record counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, take
from bushel.data.samples import column_of, sample_at
from bushel.errors import BushelError, FileProblem, FormatError
from bushel.records.index import sha256_of
from bushel.sources.protocol import Block, Listing, Refused, Source, SourceOver
from bushel.storage import AnyPath, as_path, open_named

__all__ = [
    "Kind",
    "Mark",
    "Marked",
    "add_mark",
    "last_marks",
    "marked",
]

Kind: TypeAlias = Literal["drop", "label", "look", "none"]  # `none` takes an earlier mark back
Ints = NDArray[np.int64]
_NONE: Ints = np.empty(0, np.int64)


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One mark. A record is known by its key, or without one by the SHA-256 of its file and its number there."""

    mark: Kind
    key: str = ""
    sha256: str = ""
    record: int = -1
    feature: str = "label"  # that `label` is about
    label: str = ""  # the right one
    shard: str = ""  # for people: the file, the split and the record's number in it
    split: str = ""
    row: int = -1

    @property
    def place(self) -> tuple[str, str, int]:
        """What tells the record from others."""
        return (self.key, "", -1) if self.key else ("", self.sha256, self.record)


def _read_marks(path: AnyPath) -> Iterator[Mark]:
    """Every line of a file of marks, in order."""
    with open_named(as_path(path)) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                mark = msgspec.json.decode(line, type=Mark)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise FormatError(path, f"line {number} is not a mark: {error}") from None
            if not mark.key and not (mark.sha256 and mark.record >= 0):
                raise FormatError(path, f"line {number} says neither a key nor a file and its record")
            yield mark


def last_marks(path: AnyPath) -> dict[tuple[str, str, int], Mark]:
    """The marks that count, by the records that they are on."""
    found = {mark.place: mark for mark in _read_marks(path)}
    return {place: mark for place, mark in found.items() if mark.mark != "none"}


def add_mark(path: Path, mark: Mark) -> None:
    """Add a line to a file of marks, which is made if it is not there."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(mark) + b"\n")


def marked(source: Source, path: str) -> Marked:
    """The source after the marks of a file. All keys are listed once, to find the rows that are meant."""
    if not as_path(path).is_file():
        raise FileProblem(path, "there is no such file of marks")
    marks = last_marks(path)
    dropped: dict[int, list[int]] = {}
    labels: dict[int, dict[int, Mark]] = {}
    met: set[Any] = set()
    for partition in range(source.partitions()):
        for row, mark in _rows_of(source, partition, marks):
            met.add(mark.place)
            if mark.mark == "drop":
                dropped.setdefault(partition, []).append(row)
            elif mark.mark == "label":
                labels.setdefault(partition, {})[row] = mark
    counted = {
        "samples dropped by marks": sum(map(len, dropped.values())),
        "labels changed by marks": sum(map(len, labels.values())),
        "marks of samples that are not in the source": len(set(marks) - met),
    }
    return Marked(
        source,
        path,
        {partition: np.array(sorted(rows), np.int64) for partition, rows in dropped.items()},
        labels,
        {what: count for what, count in counted.items() if count},
        hashlib.sha256(msgspec.json.encode(sorted(marks.values(), key=lambda mark: mark.place))).hexdigest(),
    )


def _rows_of(source: Source, partition: int, marks: dict[Any, Mark]) -> Iterator[tuple[int, Mark]]:
    """The rows of a partition that are marked."""
    if any(mark.key for mark in marks.values()):
        for row, key in enumerate(source.list(partition, []).keys):
            if (mark := marks.get((key.decode("utf-8", "backslashreplace"), "", -1))) is not None:
                yield row, mark
    file = source.file_of(partition)
    if file is not None and any(mark.sha256 for mark in marks.values() if not mark.key):
        digest = sha256_of(file)
        for mark in marks.values():
            if not mark.key and mark.sha256 == digest:
                yield mark.record, mark


@dataclass(frozen=True)
class Marked(SourceOver):
    """A source after marks. Rows that are left take the numbers of those that are dropped."""

    source: Source
    path: str
    dropped: dict[int, Ints]  # rows by partition, ascending
    labels: dict[int, dict[int, Mark]]
    counted: dict[str, int]
    digest: str

    def kept_inside(self) -> Marked:
        """The same marks over a source that is kept inside."""
        return replace(self, source=self.source.kept_inside())

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """What is left of the source's listing; the first partition counts what was marked."""
        listing = self.source.list(partition, columns)
        kept = self._kept(partition, len(listing.keys))
        changed = {name: self._relabelled(partition, name, column, None) for name, column in listing.columns.items()}
        counted = {**listing.counted, **(self.counted if partition == 0 else {})}
        keys = listing.keys.take(kept)
        sizes = None if listing.sizes is None else listing.sizes[kept]
        return Listing(keys, {name: take(column, kept) for name, column in changed.items()}, sizes, counted)

    def read(self, partition: int, rows: Ints | None) -> Iterator[Block]:
        """Blocks of the source without what is dropped."""
        for block in self.source.read(partition, None if rows is None else self._inner(partition, rows)):
            columns = {
                name: self._relabelled(partition, name, column, block.rows) for name, column in block.columns.items()
            }
            dropped = self.dropped.get(partition, _NONE)
            refused = [one for one in block.refused if one.row not in dropped]
            refused = [Refused(self._outer(partition, one.row), one.stage, one.reason) for one in refused]
            left = np.flatnonzero(~np.isin(block.rows, dropped))
            if len(left) < len(block.rows):
                columns = {name: take(column, left) for name, column in columns.items()}
            numbers = block.rows[left] - np.searchsorted(dropped, block.rows[left])
            yield replace(block, rows=numbers, columns=columns, refused=refused)

    def locate(self, partition: int, row: int) -> str:
        """Where a row comes from."""
        return self.source.locate(partition, int(self._inner(partition, np.array([row]))[0]))

    def fingerprint(self) -> str:
        """Changes with the source and with the marks."""
        return hashlib.sha256(f"{self.source.fingerprint()}\0{self.digest}".encode()).hexdigest()[:32]

    def describe(self) -> dict[str, Any]:
        """The table of the source, with the file of marks."""
        return {**self.source.describe(), "marks": self.path}

    def _kept(self, partition: int, rows: int) -> Ints:
        return np.setdiff1d(np.arange(rows, dtype=np.int64), self.dropped.get(partition, _NONE))

    def _inner(self, partition: int, rows: Ints) -> Ints:
        """The numbers that rows have in the source."""
        dropped = self.dropped.get(partition, _NONE)
        before: Ints = np.searchsorted(dropped - np.arange(len(dropped)), rows, side="right")
        return rows + before

    def _outer(self, partition: int, row: int) -> int:
        return row - int(np.searchsorted(self.dropped.get(partition, _NONE), row))

    def _relabelled(self, partition: int, name: str, column: Column, rows: Ints | None) -> Column:
        """A column with the labels of marks; `rows` are the numbers of its rows in the source, None if it has all."""
        wanted = {row: mark for row, mark in self.labels.get(partition, {}).items() if mark.feature == name}
        if rows is not None:
            at = {int(row): number for number, row in enumerate(rows.tolist())}
            wanted = {at[row]: mark for row, mark in wanted.items() if row in at}
        if not wanted:
            return column
        if isinstance(column, BytesColumn):
            texts = column.to_list()
            for row, mark in wanted.items():
                texts[row] = mark.label.encode()
            return BytesColumn.of(texts)
        feature = self.schema().features[name]
        values: list[Any] = [sample_at({name: column}, {name: feature}, row).get(name) for row in range(len(column))]
        for row, mark in wanted.items():
            values[row] = _number(mark, self.path) if feature.dtype not in ("str", "bytes") else mark.label
        return column_of(values, feature, name=name)  # type: ignore[no-any-return]


def _number(mark: Mark, path: str) -> float | int:
    for kind in (int, float):
        try:
            return kind(mark.label)
        except ValueError:
            continue
    raise BushelError(f"{path}: {mark.feature} holds numbers, and a mark says {mark.label!r}")
