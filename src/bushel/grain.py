"""Datasets for grain: a source of records by number. Needs no grain itself.

grain.MapDataset.source(bushel.grain.source("data", "train")).shuffle(seed=0).batch(64)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from typing import Any, SupportsIndex

import numpy as np

from bushel.data.samples import Sample, sample_at
from bushel.feeding.adapters import Data, open_split
from bushel.reading import Split

__all__ = ["Source", "source"]


def source(data: Data, split: str | None = None, *, columns: Sequence[str] | None = None) -> Source:
    """Records by number, as grain takes them; `columns` chooses features.

    >>> grain.MapDataset.source(bushel.grain.source("data", "train")).shuffle(seed=0).batch(64)
    """
    return Source(open_split(data, split), columns)


class Source:
    """Records by number, as samples; what `source` returns. It can be pickled, and opens its files in each process."""

    def __init__(self, split: Split, columns: Sequence[str] | None) -> None:
        split.wanted(columns)  # refuses unknown names at once
        self._split = split
        self._columns = columns
        self._process = os.getpid()

    def _split_here(self) -> Split:
        if self._process != os.getpid():
            self._split, self._process = copy(self._split), os.getpid()
        return self._split

    def __len__(self) -> int:
        return len(self._split_here())

    def __getitem__(self, number: SupportsIndex) -> Sample:
        return self._getitems([number])[0]

    def _getitems(self, numbers: Sequence[SupportsIndex]) -> list[Sample]:
        """Several samples, read at once: grain asks for them so where it can."""
        split = self._split_here()
        rows = np.array([range(len(split))[number] for number in numbers], np.int64)
        columns: dict[str, Any] = split.read(rows if split.rows is None else split.rows[rows], self._columns)
        return [sample_at(columns, split.schema.features, row) for row in range(len(rows))]

    def __repr__(self) -> str:
        return f"Source({self._split.summary})"
