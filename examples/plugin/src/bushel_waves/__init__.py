"""Sine waves as a source of bushel, and one of everything else that a plug-in can add."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import BytesColumn, Feature, Schema, sources
from bushel.building.engines import LocalEngine
from bushel.transforms import DeclaredTransform, Draw

T = TypeVar("T")
R = TypeVar("R")


class Waves(sources.Source):
    """Sine waves, computed when they are read."""

    def __init__(self, count: int) -> None:
        self.count = count

    @property
    def reads(self) -> sources.Reads:
        return "random"

    def partitions(self) -> int:
        return 1

    def schema(self) -> Schema:
        return Schema.of(wave=Feature(dtype="float32", shape=(64,)), label=Feature(dtype="int64"))

    def list(self, partition: int, columns: Collection[str]) -> sources.Listing:
        keys = BytesColumn.of([f"wave-{number}" for number in range(self.count)])
        known = {"label": np.arange(self.count) % 4}
        return sources.Listing(keys, {name: known[name] for name in columns if name in known})

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[sources.Block]:
        some = np.arange(self.count) if rows is None else rows
        waves = np.sin(np.linspace(0, 2 * np.pi, 64) * (some[:, None] % 4 + 1)).astype(np.float32)
        yield sources.Block(some, {"wave": waves, "label": some % 4})

    def locate(self, partition: int, row: int) -> str:
        return f"wave {row}"

    def fingerprint(self) -> str:
        return hashlib.sha256(str(self.count).encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        return {"kind": "waves", "path": f"waves://{self.count}"}


def open_waves(path: str) -> Waves:
    """Open `waves://100`, or a file that holds the number."""
    _, is_address, rest = path.partition("://")
    return Waves(int(rest if is_address else Path(path).read_text()))


class Halve(DeclaredTransform, msgspec.Struct, frozen=True, tag="halve"):
    """Numbers divided by two."""

    feature: str

    def apply(self, sample: dict[str, Any], draw: Draw) -> dict[str, Any]:
        return {**sample, self.feature: sample[self.feature] / 2}


class InARow(LocalEngine):
    """Does every task in this process, one after another."""

    def __init__(self) -> None:
        super().__init__(1, in_threads=True)

    def run(self, work: Callable[[T], R], tasks: Sequence[T], *, memory: int = 0) -> Iterator[R]:
        return map(work, tasks)


def make_engine(address: str | None, *, workers: int | None = None) -> InARow:
    """What `--engine in-a-row` stands for."""
    return InARow()


def write_lines(folder: Path, part: Any, content: Any, blocks: Iterator[Mapping[str, Any]]) -> Counter[str]:
    """One line of text per record: its label."""
    lines = [str(label) for block in blocks for label in block["label"]]
    (folder / f"{part.name}.txt").write_text("\n".join(lines))
    return Counter()
