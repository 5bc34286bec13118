"""What tests of the build share: a small source of each kind, and what a dataset is compared by."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, take
from bushel.data.schema import Feature, Schema
from bushel.records.manifest import read_manifest
from bushel.sources import Block, Listing, Refused, Source

CLASSES = ["bird", "cat", "dog"]


@dataclass(frozen=True)
class Numbers(Source):
    """Samples made of their number; some may be refused, and reading may leave marks to count."""

    rows: int = 1000
    reads: Literal["random", "sequence"] = "random"
    parts: int = 4
    refuse: frozenset[int] = frozenset()  # rows that cannot be read
    changes: dict[str, Any] = field(default_factory=dict)  # columns to replace, by name
    log: Path | None = None  # gets a line for each partition that is read
    first: int = 0
    split: str | None = None

    def _range(self, partition: int) -> NDArray[np.int64]:
        return np.array_split(np.arange(self.first, self.first + self.rows), self.parts)[partition]

    def _columns(self, numbers: NDArray[np.int64]) -> dict[str, Column]:
        columns: dict[str, Column] = {
            "number": numbers,
            "x": (numbers[:, None] * [1.0, 0.5]).astype(np.float32),
            "label": BytesColumn.of([CLASSES[n * 7 % 11 % 3] for n in numbers.tolist()]),
            "text": BytesColumn.of(["é" * (n % 50) for n in numbers.tolist()]),
        }
        for name, values in self.changes.items():
            columns[name] = take(values, numbers - self.first)
        return columns

    def partitions(self) -> int:
        return self.parts

    def schema(self) -> Schema:
        features = {
            "number": Feature(dtype="int64"),
            "x": Feature(dtype="float32", shape=(2,)),
            "label": Feature(dtype="str"),
            "text": Feature(dtype="str"),
        }
        for name, values in self.changes.items():
            if name not in features and name != self.split:
                features[name] = Feature(dtype="str" if isinstance(values, BytesColumn) else "int64")
            elif name == "label" and isinstance(values, np.ndarray):
                features[name] = Feature(dtype="float32" if values.dtype.kind == "f" else "int64")
        return Schema(features=features)

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        numbers = self._range(partition)
        keys = BytesColumn.of([f"n{n}" for n in numbers.tolist()])
        found = self._columns(numbers)
        return Listing(keys, {name: found[name] for name in columns if name in found})

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{partition}\n")
        numbers = self._range(partition)
        wanted = np.arange(len(numbers)) if rows is None else rows
        for begin in range(0, len(wanted), 100):
            part = wanted[begin : begin + 100]
            bad = np.isin(numbers[part], list(self.refuse))
            columns = self._columns(numbers[part[~bad]])
            columns.pop(self.split or "", None)
            yield Block(part[~bad], columns, [Refused(int(row), "read", "cannot be read") for row in part[bad]])

    def locate(self, partition: int, row: int) -> str:
        return f"numbers: {self._range(partition)[row]}"

    def fingerprint(self) -> str:
        return f"{self.rows} {self.first} {sorted(self.refuse)}"

    def describe(self) -> dict[str, Any]:
        return {"kind": "numbers"}


# Workers do not find the modules of tests.
cloudpickle.register_pickle_by_value(__import__(__name__))


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every shard, by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.tfrecord*"))}


def numbers_in(folder: Path, split: str | None = None) -> list[int]:
    """The feature `number` of every record, in the order of splits and shards."""
    from bushel import scan

    manifest = read_manifest(folder)
    found = []
    for name, facts in manifest.splits.items():
        for shard in facts.shards:
            if split in (None, name) and shard.records:
                found += [sample["number"] for sample in scan(folder / shard.path, ["number"])]
    return found
