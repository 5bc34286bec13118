"""A chain of transforms, run: on one sample, on whole columns, or on the rows of a batch.

Builds, fits, batches, contracts and serving all come here, so that the same chain makes the same of the same record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn
from bushel.data.samples import Sample, Stack, sample_at
from bushel.data.schema import Feature
from bushel.pixels.depth import is_wide
from bushel.transforms.encoded import EncodeImage, own_form
from bushel.transforms.image import decoded
from bushel.transforms.protocol import (
    BatchTransform,
    ColumnTransform,
    CountingTransform,
    Draw,
    PlacedTransform,
    Transform,
    is_in_core,
)

__all__ = ["Chain", "Rows", "apply_all"]

Columns: TypeAlias = dict[str, Any]
Step: TypeAlias = tuple[int, Any]  # a transform, by its number in the whole chain
# Takes the place of a row that a transform failed on, and why; returns if the row is to be left out, raises if not.
Refuse: TypeAlias = Callable[[int, Exception], None]


class Rows(NamedTuple):
    """The rows of a batch after the chain, and which of those given they are."""

    columns: Columns
    kept: NDArray[np.int64]


@dataclass(frozen=True)
class Chain:
    """Transforms in their order. A part of a chain keeps the numbers of its steps, and so draws what the whole does."""

    steps: tuple[Step, ...] = ()
    seed: int = 0

    @classmethod
    def of(cls, transforms: Sequence[Transform | BatchTransform], seed: int = 0, *, first: int = 0) -> Chain:
        """All of these transforms; `first` is the number of the first one."""
        return cls(tuple(enumerate(transforms, first)), seed)

    def __bool__(self) -> bool:
        return bool(self.steps)

    def only(self, numbers: Collection[int]) -> Chain:
        """Only the steps of these numbers."""
        return replace(self, steps=tuple(step for step in self.steps if step[0] in numbers))

    def without(self, feature: str) -> Chain:
        """All steps but those of a feature: one that is to be predicted need not be there."""
        return replace(self, steps=tuple(step for step in self.steps if getattr(step[1], "feature", None) != feature))

    def apply(self, sample: Sample, *, record: int = 0, epoch: int = 0, counted: Counter[str] | None = None) -> Sample:
        """One sample after all steps; `record` is its number or the hash of its key, from which transforms draw."""
        for number, transform in self.steps:
            sample = transform.apply(sample, Draw(self.seed, epoch, record, number, counted))
        return sample

    def apply_columns(self, columns: Columns, counted: Counter[str] | None = None) -> Columns | None:
        """Many samples at once, as `apply` would change each; None if some step cannot, or fails on some row."""
        if not all(isinstance(transform, ColumnTransform) for _, transform in self.steps):
            return None
        noted: Counter[str] = Counter()
        try:
            for _, transform in self.steps:
                if isinstance(transform, CountingTransform):
                    columns = transform.apply_counted(columns, noted)
                else:
                    columns = transform.apply_columns(columns)
        except Exception:  # sample by sample it is found which row is at fault
            return None
        if counted is not None:
            counted.update(noted)
        return columns

    def vary(self, sample: Sample, *, record: int = 0, counted: Counter[str] | None = None) -> Sample:
        """One sample that is repeated, after all steps; images are decoded for them, and encoded again as they were."""
        forms: dict[str, Any] = {}
        draw = Draw(self.seed, 0, record, 0, counted)
        for number, transform in self.steps:
            feature = getattr(transform, "feature", None)
            if isinstance(feature, str) and isinstance(data := sample.get(feature), bytes):
                forms[feature] = own_form(data, feature)
                sample = {**sample, feature: decoded(data, feature, draw, "uint16" if is_wide(data) else "uint8")}
            sample = transform.apply(sample, replace(draw, step=number))
        for feature, form in forms.items():
            sample = EncodeImage(feature, form).apply(sample, draw)
        return sample

    def apply_rows(
        self,
        columns: Columns,
        features: Mapping[str, Feature],
        records: Sequence[int] | NDArray[np.int64],
        *,
        epoch: int = 0,
        pool: Any = None,
        refuse: Refuse | None = None,
    ) -> Rows:
        """The rows of a batch after all steps, those of whole batches last; `records` are the numbers of the rows.

        Steps that the core can do come first, on whole columns. A row that a transform fails on raises, unless
        `refuse` leaves it out.
        """
        numbers = np.asarray(records, np.int64)
        on_batches = tuple(step for step in self.steps if isinstance(step[1], BatchTransform))
        rest = replace(self, steps=tuple(step for step in self.steps if not isinstance(step[1], BatchTransform)))
        columns, features, rest = rest._begin(columns, features)
        kept = np.arange(len(numbers))
        if rest:
            given = columns, features
            columns, kept = rest._stack(
                lambda at: sample_at(*given, at), numbers, epoch, Stack(len(numbers), pool), refuse
            )
        if len(kept):
            for number, transform in on_batches:
                columns = transform.apply_batch(columns, Draw(self.seed, epoch, int(numbers[0]), number))
        return Rows(columns, kept)

    def _begin(self, columns: Columns, features: Mapping[str, Feature]) -> tuple[Columns, Mapping[str, Feature], Chain]:
        """The columns after the steps that come first and that the core does, their features, and the other steps.

        Where one of them fails nothing is begun: sample by sample it is found which record is at fault.
        """
        first = tuple(takewhile(lambda step: is_in_core(step[1]), self.steps))
        changed = replace(self, steps=first).apply_columns(columns) if first else columns
        if changed is None or not first:
            return columns, features, self
        known = dict(features)
        for name, column in changed.items():
            if column is not columns.get(name):
                known.pop(name, None)
                if isinstance(column, BytesColumn):
                    known[name] = Feature(dtype="str")
        return changed, known, replace(self, steps=self.steps[len(first) :])

    def _stack(
        self,
        sample_of: Callable[[int], Sample],
        records: NDArray[np.int64],
        epoch: int,
        stack: Stack,
        refuse: Refuse | None,
    ) -> Rows:
        before, (number, last) = replace(self, steps=self.steps[:-1]), self.steps[-1]
        is_placed = isinstance(last, PlacedTransform)
        kept: list[int] = []
        for at, record in enumerate(records.tolist()):
            try:
                sample = before.apply(sample_of(at), record=record, epoch=epoch)
                draw = Draw(self.seed, epoch, record, number)
                sample = last.apply_at(sample, draw, stack.room) if is_placed else last.apply(sample, draw)
            except Exception as error:
                if refuse is None:
                    raise
                refuse(at, error)
                continue
            stack.add(sample)
            kept.append(at)
        return Rows(stack.columns(), np.array(kept, np.int64))


def apply_all(transforms: Sequence[Transform], sample: Sample, *, seed: int = 0, record: int = 0) -> Sample:
    """One raw sample through a chain, as the build does it."""
    return Chain.of(transforms, seed).apply(sample, record=record)
