"""What a source must provide. Everything is in columns, with no Python object per sample if that can be avoided."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn
from bushel.data.schema import Schema
from bushel.storage import AnyPath, as_path, listed

__all__ = ["Block", "Listing", "Reads", "Refused", "Source", "as_given", "fingerprint_of", "fingerprint_of_arrays"]


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


class Source(Protocol):
    """Where samples come from, in one or several partitions. A value that is cheap to pickle.

    If samples already have a split, the attribute `split` names the column that holds it; it can be listed, but need
    not be a feature. If samples belong together (windows of a series, tiles of an image), the attribute `group` names
    the column of their groups, by which shares are drawn. The attribute `label` is the name of the label if that is
    not `label`. `any_thread` is true if it need not be read in the thread that made it, and `decodes_in_threads` if it
    decodes in threads, so that a short build starts no processes. Missing values are rows of a `Ragged` that are not
    present.
    """

    reads: Reads

    def partitions(self) -> int:
        """The number of parts that can be listed and read separately."""
        ...

    def schema(self) -> Schema:
        """Names and types of the features, from the whole source, not only from its first rows."""
        ...

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """List one partition: keys, and the requested columns that the source has."""
        ...

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """Read rows of one partition, a block at a time.

        A source that reads at random is given row numbers and yields those, in that order. One that reads in sequence
        is given None and yields all rows in order.
        """
        ...

    def locate(self, partition: int, row: int) -> str:
        """Where a row comes from, as text for people: `cats/001.jpg`, `rows.csv: row 1041`."""
        ...

    def fingerprint(self) -> str:
        """A value that changes when the source does, found without reading payload."""
        ...

    def describe(self) -> dict[str, Any]:
        """The `[source]` table of a recipe that makes this source again."""
        ...


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
