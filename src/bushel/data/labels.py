"""What is to be predicted: what kind it is, and the codes of its classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.categories import Categories, hash_values, text_of
from bushel.data.columns import BytesColumn, Column, Ragged
from bushel.data.schema import Feature

__all__ = ["Label", "Labels", "Task", "labels_of"]

Task = Literal["classification", "multi_label", "regression"]
UNKNOWN = -1


class Label(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be predicted."""

    feature: str
    task: Task
    names: list[str] = []  # of classes, by code; empty where labels were integers already
    class_weights: dict[str, float] = {}  # of the train split: records / (classes * records of the class)


@dataclass(frozen=True)
class Labels:
    """The label of a build. `names` are those of classes by code, and empty where labels are numbers already."""

    feature: str
    task: Task
    names: list[str] = field(default_factory=list)
    is_text: bool = False

    @cached_property
    def _known(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        hashes = hash_values(BytesColumn.of(self.names))
        order = np.argsort(hashes)
        return hashes[order], order.astype(np.int64)

    def encode(self, column: Column) -> Column:
        """Text as codes, -1 where the class is not known; numbers as they are."""
        if isinstance(column, Ragged) and isinstance(column.values, BytesColumn):
            codes = self._codes(column.values)
            return Ragged(codes, column.row_splits, column.present)
        if isinstance(column, BytesColumn) and self.is_text:
            return self._codes(column)
        return column

    def _codes(self, texts: BytesColumn) -> NDArray[np.int64]:
        known, order = self._known
        hashes = hash_values(texts)
        if not len(known):
            return np.full(len(hashes), UNKNOWN, np.int64)
        at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
        return np.where(known[at] == hashes, order[at], UNKNOWN)

    def stored(self, feature: Feature) -> Feature:
        """The feature as records hold it."""
        shape = (None,) if self.task == "multi_label" and feature.shape == () else feature.shape
        if self.is_text:
            return Feature(dtype="int64", shape=shape)
        return Feature(dtype=feature.dtype, shape=shape, encoding=feature.encoding, cast=feature.cast)

    def name_of(self, value: int) -> str:
        """A class as a manifest names it."""
        return self.names[value] if self.names else str(value)

    def described(self, counts: dict[str, int]) -> Label:
        """The label as the manifest holds it; `counts` are those of the train split."""
        total = sum(counts.values())
        seen = {name: count for name, count in counts.items() if count}
        weights = {name: total / (len(seen) * count) for name, count in seen.items()}
        return Label(feature=self.feature, task=self.task, names=self.names, class_weights=weights)


def labels_of(categories: Categories, frozen: Label | None = None) -> Labels:
    """What the values of the label column make; new classes go after those of a dataset that is added to."""
    if categories.is_list:
        task: Task = "multi_label"
    else:
        task = "regression" if categories.kind == "float" else "classification"
    if categories.kind != "text":
        return Labels(categories.name, task)
    names = list(frozen.names) if frozen else []
    known = set(names)
    texts = sorted(value for value in categories.values.values() if value)
    names += [name for name in map(text_of, texts) if name not in known]
    return Labels(categories.name, task, names, is_text=True)


def count_labels(labels: Labels, values: NDArray[Any]) -> dict[str, int]:
    """How many samples each class has, by its name."""
    found, counts = np.unique(values, return_counts=True)
    return {labels.name_of(int(value)): int(count) for value, count in zip(found, counts, strict=True)}
