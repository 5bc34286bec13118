"""Rows of a batch mixed with each other: images and labels alike."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.columns import Column
from bushel.errors import MissingName, SchemaMismatch
from bushel.transforms.protocol import Draw

__all__ = ["cutmix", "mixup"]


class Mixup(msgspec.Struct, frozen=True, tag="mixup"):
    """Each row becomes a blend with another; labels become shares of `classes`."""

    feature: str
    label: str
    classes: int
    alpha: float = 0.2

    def apply_batch(self, columns: dict[str, Column], draw: Draw) -> dict[str, Column]:
        """Blend the rows of a batch."""
        values = _dense(columns, self.feature)
        partner, share = _partners(len(values), self.alpha, draw)
        blend = share.astype(np.float32).reshape(-1, *[1] * (values.ndim - 1))
        mixed = values * blend + values[partner] * (1 - blend)
        return {**columns, self.feature: mixed, self.label: _blend_labels(columns, self, partner, share)}


class Cutmix(msgspec.Struct, frozen=True, tag="cutmix"):
    """A rectangle of each image comes from another; labels become shares of `classes` by area."""

    feature: str
    label: str
    classes: int
    alpha: float = 1.0

    def apply_batch(self, columns: dict[str, Column], draw: Draw) -> dict[str, Column]:
        """Paste parts of the rows of a batch into each other."""
        images = _dense(columns, self.feature)
        partner, share = _partners(len(images), self.alpha, draw)
        places = draw.generator(salt=1).random((len(images), 2))
        mixed = images.copy()
        height, width = images.shape[1:3]
        for row, (down, across) in enumerate(places):
            side = math.sqrt(1 - share[row])
            tall, wide = int(height * side), int(width * side)
            top, left = int(down * (height - tall + 1)), int(across * (width - wide + 1))
            area = slice(top, top + tall), slice(left, left + wide)
            mixed[row][area] = images[partner[row]][area]
            share[row] = 1 - tall * wide / (height * width)
        return {**columns, self.feature: mixed, self.label: _blend_labels(columns, self, partner, share)}


def _partners(rows: int, alpha: float, draw: Draw) -> tuple[NDArray[Any], NDArray[np.float64]]:
    generator = draw.generator()
    return generator.permutation(rows), generator.beta(alpha, alpha, rows)


def _dense(columns: dict[str, Column], name: str) -> NDArray[Any]:
    if name not in columns:
        raise MissingName("column", name, columns, where="transform")
    column = columns[name]
    if not isinstance(column, np.ndarray):
        raise SchemaMismatch("rows of different shapes cannot be mixed", at=name)
    return column


def _blend_labels(
    columns: dict[str, Column], step: Any, partner: NDArray[Any], share: NDArray[np.float64]
) -> NDArray[np.float32]:
    labels = _dense(columns, step.label)
    if labels.ndim == 1:
        if labels.size and not 0 <= labels.min() <= labels.max() < step.classes:
            raise SchemaMismatch(f"labels must be at least 0 and below {step.classes}", at=step.label)
        labels = np.eye(step.classes, dtype=np.float32)[labels]
    blend = share.astype(np.float32)[:, None]
    return np.asarray(labels * blend + labels[partner] * (1 - blend), np.float32)


mixup, cutmix = Mixup, Cutmix
