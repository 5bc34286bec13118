"""A column of a table that holds images, or paths to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel.data.columns import BytesColumn, Column, Ragged, take
from bushel.data.schema import Feature
from bushel.sources.images.image_checks import ImageCheck
from bushel.sources.protocol import Block, Refused
from bushel.storage import as_path

__all__ = ["ImageColumn"]

_ROWS = 256  # whose images are in memory at a time


@dataclass(frozen=True)
class ImageColumn:
    """A column of paths below `root`, of encoded images, or of both, as Hugging Face has them in a struct."""

    name: str
    root: str
    check: ImageCheck

    def made_of(self, names: Mapping[str, Any]) -> list[str]:
        """The columns of the file that the images come from."""
        return [name for name in (self.name, f"{self.name}/bytes", f"{self.name}/path") if name in names]

    def replace_features(self, features: dict[str, Feature]) -> dict[str, Feature]:
        """Features with those of the images in place of what they are made of."""
        out: dict[str, Feature] = {}
        for name, feature in features.items():
            if name in self.made_of(features):
                out |= self.check.features(self.name)
            else:
                out[name] = feature
        return out

    def load(self, block: Block, is_path: bool) -> Iterator[Block]:
        """The same rows with their images read and checked, some at a time."""
        for start in range(0, max(len(block.rows), 1), _ROWS):
            rows = np.arange(start, min(start + _ROWS, len(block.rows)))
            columns = {name: take(column, rows) for name, column in block.columns.items()}
            refused = block.refused if start == 0 else []
            yield self._load(Block(block.rows[rows], columns, refused), is_path)

    def _load(self, block: Block, is_path: bool) -> Block:
        made_of = self.made_of(block.columns)
        payload: list[bytes] = []
        there: list[int] = []
        refused: dict[int, tuple[str, str]] = {}
        for row in range(len(block.rows)):
            try:
                data = self._bytes([(name, _value(block.columns[name], row)) for name in made_of], is_path)
            except OSError as error:
                refused[row] = ("read", f"{error.filename}: {(error.strerror or str(error)).lower()}")
                continue
            if data is None:
                refused[row] = ("read", f"{self.name}: there is no image")
                continue
            payload.append(data)
            there.append(row)
        checked = self.check.check_all(BytesColumn.of(payload), self.name)
        refused |= {there[row]: ("decode", f"{self.name}: {reason}") for row, reason in checked.bad.items()}
        kept = np.array([there[row] for row in checked.rows], np.int64)
        columns: dict[str, Column] = {}
        for name, column in block.columns.items():
            columns |= checked.columns if name in made_of else {name: take(column, kept)}
        left = [Refused(int(block.rows[row]), *why) for row, why in refused.items()]
        return Block(block.rows[kept], columns, sorted([*block.refused, *left]), checked.counted)

    def _bytes(self, values: list[tuple[str, bytes | None]], is_path: bool) -> bytes | None:
        for name, value in values:
            if value is None:
                continue
            if name.endswith("/path") or (name == self.name and is_path):
                return (as_path(self.root) / value.decode()).read_bytes()
            return value
        return None


def _value(column: Column, row: int) -> bytes | None:
    if isinstance(column, Ragged):
        if column.present is not None and not column.present[row]:
            return None
        row = int(column.row_splits[row])
        column = column.values
    assert isinstance(column, BytesColumn)
    return column[row]
