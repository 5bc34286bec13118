"""A source with the samples that balancing added: repeated rows, and rows made from others."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bushel.building.planning.plan import REPEATS_NAME, load_array, save_array
from bushel.data.columns import Column, take
from bushel.sources.protocol import Block, Listing, Refused, Source
from bushel.storage import write_whole

__all__ = ["Balanced", "balanced_source", "repeat_key"]

MADE_NAME = "made.pickle"
_BLOCK_ROWS = 4096

Rows = NDArray[np.int64]


def repeat_key(key: bytes, number: int) -> bytes:
    """The key of a repeated sample."""
    return key + b"#%d" % number


def balanced_source(source: Source, folder: Path, originals: list[int]) -> Source:
    """The source with the samples that balancing added, if it did."""
    return Balanced(source, folder, originals) if originals else source


def save_repeats(folder: Path, repeats: Rows) -> None:
    """Write partition, row and number of each repeated sample, by partition."""
    save_array(folder / REPEATS_NAME, repeats)


def save_made(folder: Path, columns: dict[str, Column]) -> None:
    """Write the samples that were made from others."""
    with write_whole(folder / MADE_NAME) as file:
        file.write(pickle.dumps(columns))


class Balanced:
    """After the rows of each partition come its repeats; after all partitions, what was made from others."""

    def __init__(self, source: Source, folder: Path, originals: list[int]) -> None:
        self.source, self.folder, self.originals = source, folder, originals
        self.reads: Literal["random", "sequence"] = source.reads
        self.has_made = (folder / MADE_NAME).exists()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "source":
            raise AttributeError(name)
        return getattr(self.source, name)  # what only some sources have: split, group, label

    @cached_property
    def _repeats(self) -> Rows:
        path = self.folder / REPEATS_NAME
        return np.asarray(load_array(path)) if path.exists() else np.empty((0, 3), np.int64)

    @cached_property
    def _made(self) -> dict[str, Column]:
        columns: dict[str, Column] = pickle.loads((self.folder / MADE_NAME).read_bytes())
        return columns

    def _is_made(self, partition: int) -> bool:
        return self.has_made and partition == len(self.originals)

    def repeats_of(self, partition: int) -> tuple[Rows, Rows]:
        """The repeated rows of a partition, in order, and the number of each repeat."""
        begin, end = np.searchsorted(self._repeats[:, 0], [partition, partition + 1])
        return self._repeats[begin:end, 1], self._repeats[begin:end, 2]

    def partitions(self) -> int:
        """Those of the source, and one of what was made."""
        return self.source.partitions() + self.has_made

    def schema(self) -> Any:
        """As the source's."""
        return self.source.schema()

    def list(self, partition: int, columns: Any) -> Listing:
        """As the source lists it."""
        return self.source.list(partition, columns)

    def read(self, partition: int, rows: Rows | None) -> Iterator[Block]:
        """The rows of the source, and their repeats in separate blocks."""
        if self._is_made(partition):
            yield from self._read_made(rows)
            return
        again, _ = self.repeats_of(partition)
        listed = self.originals[partition]
        if rows is None:
            for block in self.source.read(partition, None):
                cut = _until(block, listed)
                yield cut
                begin, end = np.searchsorted(again, _extent(cut))
                yield from _repeated(cut, again[begin:end], listed + np.arange(begin, end))
            return
        is_repeat = rows >= listed
        base = np.where(is_repeat, again[np.where(is_repeat, rows - listed, 0)], rows) if len(again) else rows
        for block in self.source.read(partition, np.unique(base)):
            yield from _repeated(block, base[~is_repeat], rows[~is_repeat], is_repeat=False)
            yield from _repeated(block, base[is_repeat], rows[is_repeat])

    def _read_made(self, rows: Rows | None) -> Iterator[Block]:
        count = len(next(iter(self._made.values())))
        wanted = np.arange(count) if rows is None else rows
        for begin in range(0, len(wanted), _BLOCK_ROWS):
            part = wanted[begin : begin + _BLOCK_ROWS]
            yield Block(part, {name: take(column, part) for name, column in self._made.items()}, is_repeat=True)

    def locate(self, partition: int, row: int) -> str:
        """Where the repeated sample comes from."""
        if self._is_made(partition):
            return f"made for balance: sample {row}"
        listed = self.originals[partition]
        if row < listed:
            return self.source.locate(partition, row)
        again, numbers = self.repeats_of(partition)
        return f"{self.source.locate(partition, int(again[row - listed]))} (repeat {numbers[row - listed]})"

    def fingerprint(self) -> str:
        """The source's: what is added follows from it."""
        return self.source.fingerprint()

    def describe(self) -> dict[str, Any]:
        """The source's."""
        return self.source.describe()


def _extent(block: Block) -> tuple[int, int]:
    """The first row of a block and the end of its rows, including refused ones."""
    rows = [int(row) for row in (*np.asarray(block.rows)[:1], *np.asarray(block.rows)[-1:])]
    rows += [bad.row for bad in block.refused]
    return (min(rows), max(rows) + 1) if rows else (0, 0)


def _until(block: Block, listed: int) -> Block:
    """The block without rows that are not listed: a trial lists only the first ones, and repeats take their numbers."""
    rows = np.asarray(block.rows, np.int64)
    if not len(rows) or rows.max() < listed:
        return block
    keep = np.flatnonzero(rows < listed)
    columns = {name: take(column, keep) for name, column in block.columns.items()}
    refused = [bad for bad in block.refused if bad.row < listed]
    return Block(rows[keep], columns, refused, block.counted)


def _repeated(block: Block, base: Rows, numbers: Rows, *, is_repeat: bool = True) -> Iterator[Block]:
    """The wanted rows of a block, as often as they are wanted, under their new numbers."""
    rows = np.asarray(block.rows, np.int64)
    order = np.argsort(rows)
    at = np.searchsorted(rows[order], base)
    is_here = np.isin(base, rows)
    found = np.flatnonzero(is_here)
    refused: list[Refused] = []
    if block.refused and len(base):
        reasons = {bad.row: bad for bad in block.refused}
        pairs = zip(base.tolist(), numbers.tolist(), strict=True)
        refused = [reasons[row]._replace(row=number) for row, number in pairs if row in reasons]
    if not len(found) and not refused:
        return
    picked = order[at[found]]
    columns = {name: take(column, picked) for name, column in block.columns.items()}
    counted = {} if is_repeat else block.counted
    yield Block(numbers[found], columns, refused, counted, is_repeat=is_repeat)
