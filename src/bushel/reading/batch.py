"""One batch, and the work that makes it from records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from time import perf_counter
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn, describe_column, take
from bushel.data.schema import Feature, Schema
from bushel.errors import BushelError
from bushel.printing import html_table
from bushel.reading.dataset import Split
from bushel.reading.layout import Bucket, Layout, Pack
from bushel.reading.order import Sampler
from bushel.reading.report import Passed, Tally
from bushel.reading.rows import Stack, aligned, sample_at
from bushel.reading.shards import Wanted
from bushel.storage import is_object
from bushel.transforms import BatchTransform, Draw, PlacedTransform, Transform
from bushel.transforms.protocol import is_in_core

__all__ = ["Batch", "Made", "Maker", "OnFault", "Place", "Task"]

Ints: TypeAlias = NDArray[np.int64]
OnFault: TypeAlias = Literal["raise", "skip", "replace"]
Steps: TypeAlias = list[tuple[int, Transform]]  # by their number in the chain

_POOLED = 8  # arrays of batches that were dropped, kept to be filled again while the feed lives


class Place(NamedTuple):
    """Where reading stands: all that is needed to go on."""

    epoch: int = 0
    position: int = 0  # records that all ranks together have consumed in this epoch
    bin: int = 0  # of rows packed from the records behind that position


class Batch(dict[str, Any]):
    """Columns with one row a record, by name; and which records they are.

    `rows` are their numbers in the shards. `real` is False where a row only fills up a step or stands in for a damaged
    record, None where all are real.
    """

    rows: Ints
    real: NDArray[np.bool_] | None
    epoch: int

    def __init__(self, columns: dict[str, Any], rows: Ints, real: NDArray[np.bool_] | None, epoch: int) -> None:
        super().__init__(columns)
        self.rows = rows
        self.real = real
        self.epoch = epoch

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (dict(self), self.rows, self.real, self.epoch)

    def __repr__(self) -> str:
        return f"Batch({', '.join(f'{name}: {describe_column(column)}' for name, column in self.items())})"

    def _repr_html_(self) -> str:
        rows = [(name, describe_column(column)) for name, column in self.items()]
        return html_table(("feature", "column"), rows, title=f"{len(self.rows):,} rows of epoch {self.epoch}")


class Part(NamedTuple):
    """What one batch is made of: positions of the order, or records that were packed into bins."""

    positions: Ints
    real: NDArray[np.bool_] | None
    after: Place
    bins: Ints | None = None
    bin_count: int = 0


class Task(NamedTuple):
    """A few batches of one epoch that are made in one go."""

    epoch: int
    parts: list[Part]


@dataclass
class Made:
    """Batches, where reading stands behind each, and what making them took."""

    batches: list[tuple[Batch, Place]] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    end: Place = field(default_factory=Place)
    error: BushelError | None = None  # that ends the work behind these batches


@dataclass(frozen=True)
class Maker:
    """Makes batches: a pure function of a task."""

    split: Split
    sampler: Sampler
    wanted: Wanted
    seed: int
    transforms: tuple[Transform | BatchTransform, ...] = ()
    layout: tuple[Layout, ...] = ()
    on_fault: OnFault = "raise"
    pool: _native.Pool = field(default_factory=lambda: _native.Pool(_POOLED))

    def __call__(self, task: Task) -> Made:
        """Make the batches of a task."""
        made = Made(end=task.parts[-1].after)
        rows = self._rows(task, np.concatenate([part.positions for part in task.parts]))
        columns = self._read(rows, made.tally)
        if columns is None:
            self._make_each(task, made)
            return made
        at = 0
        for part in task.parts:
            end = at + len(part.positions)
            piece = columns if len(task.parts) == 1 else {name: cut(c, at, end) for name, c in columns.items()}
            batch = self._finish(piece, rows[at:end], part, task.epoch, made.tally)
            if batch is not None:
                made.batches.append((batch, part.after))
            at = end
        return made

    def ahead(self, tasks: Iterator[Task]) -> Iterator[Task]:
        """The same tasks; where shards are in a store, what the next ones need is on its way before they begin."""
        if self.split.stream is not None or not is_object(self.split.paths[0]):
            return tasks
        from bushel.reading.objects import read_ahead

        asked = ((t, self._rows(t, np.concatenate([part.positions for part in t.parts]))) for t in tasks)
        return read_ahead(self.split.shards, asked)

    def _rows(self, task: Task, positions: Ints) -> Ints:
        if task.parts[0].bins is not None:  # packed: the plan has already looked the records up
            return positions
        return self.sampler.rows(task.epoch, positions)

    def _read(self, rows: Ints, tally: Tally) -> dict[str, Column] | None:
        """The columns; None if a record is at fault."""
        begin = perf_counter()
        decoded = self.split.decode(rows, self.wanted)
        tally.storage += decoded.seconds_fetching
        if decoded.faults:
            return None
        columns = self.split.shape(decoded, self.wanted, rows)
        tally.decode += perf_counter() - begin - decoded.seconds_fetching
        return columns

    def _make_each(self, task: Task, made: Made) -> None:
        """The way for tasks with damage: batch by batch, records at fault raised, left out or replaced."""
        for part in task.parts:
            rows = self._rows(task, part.positions)
            try:
                kept = self._intact(rows, made.tally)
            except BushelError as error:
                made.error = error
                return
            self._make_kept(task, part, rows, kept, made)

    def _make_kept(self, task: Task, part: Part, rows: Ints, kept: Ints, made: Made) -> None:
        chosen, part = self._resolve(part, kept, len(rows))
        if not len(chosen):
            return
        columns = self._read(rows[chosen], made.tally)
        assert columns is not None
        batch = self._finish(columns, rows[chosen], part, task.epoch, made.tally)
        if batch is not None:
            made.batches.append((batch, part.after))

    def _intact(self, rows: Ints, tally: Tally) -> Ints:
        """Which rows can be read; the others are counted, or raised."""
        shards = self.split.shards
        faults = self.split.decode(rows, self.wanted).faults
        for row, fault, column in faults:
            if self.on_fault == "raise":
                raise shards.error(int(rows[row]), fault, self.wanted[column][0] if column >= 0 else None)
            tally.passed.append(Passed.of(shards.skipped(int(rows[row]), fault)))
        if self.on_fault == "replace" and len(faults) == len(rows):  # nothing is left to stand in
            raise shards.error(int(rows[0]), faults[0][1], None)
        return np.setdiff1d(np.arange(len(rows)), [row for row, _, _ in faults])

    def _resolve(self, part: Part, kept: Ints, count: int) -> tuple[Ints, Part]:
        """Rows to use instead of all: those kept, or for each the next that was; and the part that they make."""
        if part.bins is not None:  # a packed row that lacks a record is a row all the same
            return kept, part._replace(bins=part.bins[kept])
        if self.on_fault != "replace":
            return kept, part._replace(real=None if part.real is None else part.real[kept])
        chosen = kept[np.searchsorted(kept, np.arange(count)) % len(kept)]
        stands = chosen == np.arange(count)
        real = stands if part.real is None else part.real & stands
        return chosen, part._replace(real=None if real.all() else real)

    def _finish(self, columns: dict[str, Column], rows: Ints, part: Part, epoch: int, tally: Tally) -> Batch | None:
        """The batch; None if no row of it came through its transforms."""
        if self.transforms:
            begin = perf_counter()
            columns, kept = self._transform(columns, rows, epoch, tally)
            if len(kept) < len(rows):
                if not len(kept):
                    return None
                chosen, part = self._resolve(part, kept, len(rows))
                places = np.searchsorted(kept, chosen)
                columns, rows = {name: take(c, places) for name, c in columns.items()}, rows[chosen]
            tally.transform += perf_counter() - begin
        begin = perf_counter()
        for step in self.layout:
            if isinstance(step, Bucket):
                continue
            if isinstance(step, Pack):
                assert part.bins is not None
                columns, cut_rows = step.apply(columns, part.bins, part.bin_count)
            else:
                columns, cut_rows = step.apply(columns)
            tally.truncated += cut_rows
        columns = {name: aligned(c) if isinstance(c, np.ndarray) else c for name, c in columns.items()}
        tally.layout += perf_counter() - begin
        return Batch(columns, rows, part.real, epoch)

    def _transform(
        self, columns: dict[str, Column], rows: Ints, epoch: int, tally: Tally
    ) -> tuple[dict[str, Column], Ints]:
        """The columns transformed, and which rows came through."""
        numbered = list(enumerate(self.transforms))
        on_samples = [(number, step) for number, step in numbered if not isinstance(step, BatchTransform)]
        on_batches = [(number, step) for number, step in numbered if isinstance(step, BatchTransform)]
        kept = np.arange(len(rows))
        columns, schema, on_samples = begun(columns, self.split.schema, on_samples)
        if on_samples:
            columns, kept = self._transform_samples(columns, schema, rows, epoch, on_samples, tally)
        if len(kept):
            for number, change in on_batches:
                columns = change.apply_batch(columns, Draw(self.seed, epoch, int(rows[0]), number))
        return columns, kept

    def _transform_samples(
        self, columns: dict[str, Column], schema: Schema, rows: Ints, epoch: int, steps: Steps, tally: Tally
    ) -> tuple[dict[str, Column], Ints]:
        stack = Stack(len(rows), self.pool)
        *before, (last_number, last) = steps
        placed = last if isinstance(last, PlacedTransform) else None
        kept: list[int] = []
        for at, row in enumerate(rows.tolist()):
            try:
                sample = sample_at(columns, schema, at)
                for number, step in before:
                    sample = step.apply(sample, Draw(self.seed, epoch, row, number))
                draw = Draw(self.seed, epoch, row, last_number)
                sample = placed.apply_at(sample, draw, stack.room) if placed else last.apply(sample, draw)
            except BushelError as error:
                self._take_refusal(row, error, tally, is_last=not kept and at == len(rows) - 1)
                continue
            stack.add(sample)
            kept.append(at)
        return stack.columns(), np.array(kept, np.int64)

    def _take_refusal(self, row: int, error: BushelError, tally: Tally, *, is_last: bool) -> None:
        """Take a record whose data a transform cannot use like one that is damaged.

        `is_last` says that no other of its batch is left to stand in for it.
        """
        place = self.split.shards.skipped(row, 0)
        if self.on_fault == "raise" or (self.on_fault == "replace" and is_last):
            error.help = (*error.help, f"It is record {place.record} of {place.path}.")[-2:]
            raise error
        tally.passed.append(Passed.of(place, error.message))


def begun(columns: dict[str, Column], schema: Schema, steps: Steps) -> tuple[dict[str, Column], Schema, Steps]:
    """The columns behind the transforms that come first and that the core does, what they are now, and what is left.

    Where one of them fails nothing is begun: sample by sample it is told which record is to blame.
    """
    first = list(takewhile(lambda numbered: is_in_core(numbered[1]), steps))
    changed: dict[str, Any] = columns
    try:
        for _, step in first:
            changed = step.apply_columns(changed)  # type: ignore[attr-defined]
    except BushelError:
        return columns, schema, steps
    features = dict(schema.features)
    for name, column in changed.items():
        if column is not columns.get(name):
            features.pop(name, None)
            if isinstance(column, BytesColumn):
                features[name] = Feature(dtype="str")
    return changed, replace(schema, features=features), steps[len(first) :]


def cut(column: Any, begin: int, end: int) -> Any:
    """Some rows of a column, without a copy of what they hold."""
    if isinstance(column, np.ndarray):
        return column[begin:end]
    if isinstance(column, BytesColumn):
        first, last = int(column.offsets[begin]), int(column.offsets[end])
        return BytesColumn(column.offsets[begin : end + 1] - first, column.data[first:last])
    first, last = int(column.row_splits[begin]), int(column.row_splits[end])
    if isinstance(column, SparseColumn):
        splits = column.row_splits[begin : end + 1] - first
        return SparseColumn(column.places[first:last], column.values[first:last], splits, column.size)
    present = None if column.present is None else column.present[begin:end]
    return Ragged(cut(column.values, first, last), column.row_splits[begin : end + 1] - first, present)
