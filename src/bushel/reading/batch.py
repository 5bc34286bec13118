"""One batch, the work that makes it from records, and a report of where the time went and what was skipped."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from time import perf_counter
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import ALIGNMENT, BytesColumn, Column, aligned, cut, describe_column, take
from bushel.errors import BushelError, Fault, SchemaMismatch, fault_words, quantity
from bushel.parallel import Timing
from bushel.pixels.codecs import CODEC_WORDS
from bushel.printing import html_table
from bushel.reading.dataset import Split
from bushel.reading.layout import Bucket, Layout, Pack
from bushel.reading.order import Sampler
from bushel.reading.shards import OpenShard, Wanted
from bushel.records.files import Skipped
from bushel.transforms import BatchTransform, Transform
from bushel.transforms.chain import Chain, ChainRows, Refuse, Spent
from bushel.transforms.interface import PaintedTransform, declared

__all__ = ["Batch", "Group", "MadeBatches", "Maker", "OnFault", "Passed", "Place", "Report", "Tally"]


_KEPT = 1000  # faults whose places are kept; all are counted


class Passed(msgspec.Struct, frozen=True):
    """A record that was skipped or replaced, and why."""

    path: str
    record: int
    offset: int  # -1: a sample of raw data, which `path` names
    why: str

    @property
    def place(self) -> str:
        """Where it is."""
        return self.path if self.offset < 0 else f"{self.path}: record {self.record} at byte {self.offset}"

    @classmethod
    def of(cls, skipped: Skipped, why: str | None = None) -> Passed:
        """What happened to a record at fault."""
        return cls(skipped.path, skipped.record, skipped.offset, why or fault_words(skipped.fault))


class Tally(msgspec.Struct):
    """What one piece of work cost, and what happened in it."""

    storage: float = 0.0
    decode: float = 0.0
    transform: float = 0.0
    layout: float = 0.0
    in_python: dict[str, float] = {}  # seconds of the processor, by transform
    waited_for_python: float = 0.0
    passed: list[Passed] = []
    truncated: int = 0


class Report(msgspec.Struct, kw_only=True):
    """What a feed has done so far. Seconds of storage, decode, transform and layout are summed over threads."""

    batches: int = 0
    records: int = 0
    filled: int = 0  # rows that fill up a step, or replace a damaged record
    seconds: float = 0.0  # since the first batch was requested
    storage: float = 0.0
    decode: float = 0.0
    transform: float = 0.0
    layout: float = 0.0
    in_python: dict[str, float] = {}  # seconds of the processor of transforms that run row by row, by name
    waited_for_python: float = 0.0  # by threads that were to run those, summed
    waited: float = 0.0  # by the consumer for the feed
    consumer: float = 0.0  # by the feed for the consumer
    threads: int = 1
    processes: int = 0  # that share the threads; 0: none but this one
    damaged: int = 0
    truncated: int = 0  # rows that were cut to a length
    faults: list[Passed] = []  # the first thousand of the damaged
    fallbacks: int = 0  # images that the CPU decoded because the GPU could not
    codecs: dict[str, str] = {}  # what decoded the images, by format, where a measurement decoded some
    timings: dict[str, Timing] = {}  # the stages of a measurement

    def add(self, tally: Tally) -> None:
        """Add one piece of work."""
        self.storage += tally.storage
        self.decode += tally.decode
        self.transform += tally.transform
        self.layout += tally.layout
        self.waited_for_python += tally.waited_for_python
        for name, seconds in tally.in_python.items():
            self.in_python[name] = self.in_python.get(name, 0.0) + seconds
        self.truncated += tally.truncated
        self.damaged += len(tally.passed)
        self.faults.extend(tally.passed[: max(0, _KEPT - len(self.faults))])

    def add_missing(self, shards: Iterable[OpenShard]) -> None:
        """Count what shards lack according to their manifest."""
        for shard in shards:
            if shard.problem is None:
                continue
            self.damaged += shard.missing or not shard.damage
            lost = f"; {quantity(shard.missing, 'record')} missing" if shard.missing else ""
            self.faults.append(Passed(str(shard.path), len(shard.index), shard.size, shard.problem + lost))

    @property
    def records_per_second(self) -> float:
        """How fast records came, including the consumer's own time."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def slowest(self) -> str:
        """The stage that sets the pace: consumer, storage, decode, transform or layout."""
        if self.waited <= 0.1 * self.seconds:
            return "consumer"
        stages = {name: getattr(self, name) for name in ("storage", "decode", "transform", "layout")}
        return max(stages, key=lambda name: stages[name])

    @property
    def is_held_up_by_python(self) -> bool:
        """Whether threads mostly wait to run transforms in Python, of which a process runs one at a time."""
        busy = sum(self.in_python.values())
        is_full = 0.5 * self.seconds < busy / max(self.processes, 1) < 1.2 * self.seconds
        return self.slowest == "transform" and is_full and self.waited_for_python > 0.5 * busy

    @property
    def advice(self) -> str:
        """The setting to change."""
        if self.is_held_up_by_python:
            return f"Python runs one transform at a time: give it processes: Workers(processes={self.threads})."
        return _ADVICE[self.slowest]

    @property
    def summary(self) -> str:
        """How much was read, and how fast."""
        read = f"{quantity(self.records, 'record')} in {self.batches:,} batch{'es' * (self.batches != 1)}"
        return f"{read}, {self.seconds:.2f} s: {self.records_per_second:,.0f} records/s"

    @property
    def damage(self) -> str:
        """How much was damaged, and the first of it."""
        first = self.faults[0]
        return f"{self.damaged} damaged, the first: {first.place}: {first.why}"

    def __str__(self) -> str:
        share = 100 / max(self.seconds, 1e-9)
        work = ", ".join(f"{name} {getattr(self, name):.2f} s" for name in ("storage", "decode", "transform", "layout"))
        who = quantity(self.threads, "thread")
        if self.processes:
            who += f" of {self.processes} process{'es' * (self.processes > 1)}"
        lines = [
            self.summary,
            f"work in {who}: {work}",
            *self._in_python(),
            *([CODEC_WORDS.format(**self.codecs)] if self.codecs else []),
            f"the model waited for data {self.waited:.2f} s ({self.waited * share:.0f}%); "
            f"data waited for the model {self.consumer:.2f} s ({self.consumer * share:.0f}%)",
            f"slowest: {self.slowest}. {self.advice}",
        ]
        if self.fallbacks:
            lines.append(f"{quantity(self.fallbacks, 'image')} decoded on the CPU, because the GPU could not")
        if self.damaged:
            lines.append(self.damage)
        return "\n".join(lines)

    def _in_python(self) -> list[str]:
        by_cost = sorted(self.in_python.items(), key=lambda named: -named[1])
        costs = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in by_cost)
        return [f"in Python, row by row: {costs}"] if costs else []


_ADVICE = {
    "consumer": "Reading keeps up: nothing to change here.",
    "storage": "Read neighbouring records together: Order(shuffle=True, block=1024); or use a faster disk.",
    "decode": "Ask for fewer columns, or give more threads: Workers(threads=...).",
    "transform": "Give more threads: Workers(threads=...); or do what is fixed (decode, resize) once, when building.",
    "layout": "Bucket by length so that less is filled: Bucket(feature); or give more threads.",
}


Ints: TypeAlias = NDArray[np.int64]
OnFault: TypeAlias = Literal["raise", "skip", "replace"]

_POOLED = 8  # arrays of dropped batches, kept for reuse while the feed lives


class Place(NamedTuple):
    """Where reading stands: everything needed to continue."""

    epoch: int = 0
    position: int = 0  # records that all ranks together have read in this epoch
    bin: int = 0  # of rows packed from the records after that position


_NO_ROWS: Ints = np.empty(0, np.int64)


def _flatten(batch: Batch) -> tuple[list[Any], tuple[str, ...]]:
    return list(batch.values()), tuple(batch)


def _unflatten(names: Iterable[str], columns: Iterable[Any]) -> Batch:
    return Batch(zip(names, columns, strict=True))


# Libraries that walk nested values treat a subclass of dict as one opaque value until it is registered. None is
# imported here: one that the program has loaded is registered when the first batch is made.
_WALKERS: dict[str, Callable[[Any], None]] = {
    "jax.tree_util": lambda module: module.register_pytree_node(Batch, _flatten, _unflatten),
    "torch.utils._pytree": lambda module: module.register_pytree_node(
        Batch,
        _flatten,
        lambda columns, names: _unflatten(names, columns),
        serialized_type_name="bushel.Batch",
    ),
}
_walkers_met: set[str] = set()


def _meet_walkers() -> None:
    """Tell the libraries that are loaded by now how to walk a batch."""
    for name, meet in _WALKERS.items():
        module = sys.modules.get(name)
        if name not in _walkers_met and hasattr(module, "register_pytree_node"):
            _walkers_met.add(name)
            meet(module)


class Batch(dict[str, Any]):
    """Columns with one row per record, by name, and which records they are.

    `rows` are their numbers in the shards. `real` is False where a row fills up a step or replaces a damaged
    record, and None if all are real. Helpers of frameworks may walk and rebuild it like a dict; what they make of it
    has its columns, and no `rows`.
    """

    rows: Ints
    real: NDArray[np.bool_] | None
    epoch: int

    def __init__(
        self,
        columns: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        rows: Ints = _NO_ROWS,
        real: NDArray[np.bool_] | None = None,
        epoch: int = 0,
    ) -> None:
        super().__init__(columns)
        self.rows = rows
        self.real = real
        self.epoch = epoch
        if not _WALKERS.keys() <= _walkers_met:
            _meet_walkers()

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (dict(self), self.rows, self.real, self.epoch)

    def __repr__(self) -> str:
        return f"Batch({', '.join(f'{name}: {describe_column(column)}' for name, column in self.items())})"

    def _repr_html_(self) -> str:
        rows = [(name, describe_column(column)) for name, column in self.items()]
        return html_table(("feature", "column"), rows, title=f"{len(self.rows):,} rows of epoch {self.epoch}")


class PlannedBatch(NamedTuple):
    """What one batch is made of: positions of the order, or records that were packed into bins."""

    positions: Ints | range  # a range costs nothing until a thread makes the batch
    real: NDArray[np.bool_] | None
    after: Place
    bins: Ints | None = None
    bin_count: int = 0


class Group(NamedTuple):
    """A few batches of one epoch that are made together."""

    epoch: int
    batches: list[PlannedBatch]


@dataclass
class MadeBatches:
    """Batches, where reading stands after each, and what making them took."""

    batches: list[tuple[Batch, Place]] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    end: Place = field(default_factory=Place)
    error: Exception | None = None  # raised after these batches


class _Refusal(Exception):
    """A row that a transform failed on, among those of several batches."""


def _refuse_all(_: int, __: Exception) -> None:
    raise _Refusal


def _is_dense(columns: dict[str, Column]) -> bool:
    return all(isinstance(column, np.ndarray | BytesColumn) for column in columns.values())


def _as_array(parts: Sequence[Ints | range]) -> Ints:
    """All positions, one after the other."""
    # In one step where they are one range: NumPy lets go of the GIL in each, and then waits for it again.
    ranges = [part for part in parts if isinstance(part, range)]
    if len(ranges) == len(parts) and all(one.stop == other.start for one, other in pairwise(ranges)):
        return np.arange(ranges[0].start, ranges[-1].stop)
    return np.concatenate([np.arange(part.start, part.stop) if isinstance(part, range) else part for part in parts])


@dataclass(frozen=True)
class Maker:
    """Makes batches: a pure function of a group."""

    split: Split
    sampler: Sampler
    wanted: Wanted
    seed: int
    transforms: tuple[Transform | BatchTransform, ...] = ()
    layout: tuple[Layout, ...] = ()
    on_fault: OnFault = "raise"
    pool: _native.Pool = field(default_factory=lambda: _native.Pool(_POOLED))
    place: Callable[[NDArray[Any]], NDArray[Any]] = aligned  # brings an array to where its consumer wants it
    is_apart: threading.Event = field(default_factory=threading.Event)  # set where batches are not made together

    def __call__(self, group: Group) -> MadeBatches:
        """Make the batches of a group."""
        made = MadeBatches(end=group.batches[-1].after)
        rows = self._rows(group, *group.batches)
        columns = self._read(rows, made.tally)
        is_alone = len(group.batches) == 1
        if columns is not None and self.transforms and not is_alone:
            columns = self._transform_together(columns, rows, group.epoch, made.tally)
        if columns is None:
            self._make_each(group, made)
            return made
        chain = self._chain if is_alone else self._chain.of_batches
        if not chain and not self.layout and self._stay_aligned(columns, group):
            made.batches += self._plain_batches(columns, rows, group)
            return made
        at = 0
        for planned in group.batches:
            end = at + len(planned.positions)
            own = columns if is_alone else {name: cut(c, at, end) for name, c in columns.items()}
            try:
                batch = self._finish(own, rows[at:end], planned, group.epoch, made.tally, chain)
            except Exception as error:
                if not made.batches:
                    raise
                made.error = error
                return made
            if batch is not None:
                made.batches.append((batch, planned.after))
            at = end
        return made

    def _stay_aligned(self, columns: dict[str, Column], group: Group) -> bool:
        """Whether parts of the columns, one per batch, need no copy to begin where frameworks want them to."""
        size = len(group.batches[0].positions)
        arrays = [column for column in columns.values() if isinstance(column, np.ndarray)]
        return self.place is aligned and all(
            _native.is_aligned(array) and size * array.strides[0] % ALIGNMENT == 0 for array in arrays
        )

    def _plain_batches(self, columns: dict[str, Column], rows: Ints, group: Group) -> Iterator[tuple[Batch, Place]]:
        """Parts of the columns. A microsecond here counts: it is Python, which one thread runs at a time."""
        at = 0
        for planned in group.batches:
            end = at + len(planned.positions)
            part = slice(at, end)
            own = {name: c[part] if type(c) is np.ndarray else cut(c, at, end) for name, c in columns.items()}
            yield Batch(own, rows[part], planned.real, group.epoch), planned.after
            at = end

    def row_bytes(self) -> float:
        """How large the row of a batch is, by the first record; infinite if batches must be made one at a time."""
        if not all(
            isinstance(step, PaintedTransform | BatchTransform) or declared(step).in_core for step in self.transforms
        ):
            return math.inf
        rows, tally = self.sampler.rows(0, np.zeros(1, np.int64)), Tally()
        try:
            columns = self._read(rows, tally)
            columns = columns and self._transform_together(columns, rows, 0, tally)
        except Exception:  # found again, and named, when its batch is made
            columns = None
        if columns is None or tally.in_python:
            return math.inf
        sizes = (column.data.nbytes for column in columns.values() if isinstance(column, np.ndarray | BytesColumn))
        return float(sum(sizes))

    def _transform_together(
        self, columns: dict[str, Column], rows: Ints, epoch: int, tally: Tally
    ) -> dict[str, Column] | None:
        """The rows of several batches changed at once; None where that could differ from one batch after the other."""
        if self.is_apart.is_set() or not _is_dense(columns):
            return None
        begin, chain = perf_counter(), self._chain.of_samples
        try:
            found = self._apply(chain, columns, rows, epoch, tally, _refuse_all)
        except _Refusal:
            return None
        except Exception:  # of rows that cannot stand in one column; if a batch has it too, it is raised there
            self.is_apart.set()
            return None
        tally.transform += perf_counter() - begin
        if not _is_dense(found.columns):  # images of several sizes: a batch of its own may have but one
            self.is_apart.set()
            return None
        return found.columns

    def ahead(self, groups: Iterator[Group]) -> Iterator[Group]:
        """The same groups; shards in a store prefetch the records of the next ones."""
        return self.split.shards.ahead(groups, lambda group: self._rows(group, *group.batches))

    def _rows(self, group: Group, *batches: PlannedBatch) -> Ints:
        positions = _as_array([planned.positions for planned in batches])
        if group.batches[0].bins is not None:  # packed: the schedule has looked the records up
            return positions
        return self.sampler.rows(group.epoch, positions)

    def _read(self, rows: Ints, tally: Tally) -> dict[str, Column] | None:
        """The columns; None if a record is at fault."""
        begin = perf_counter()
        decoded = self.split.decode(rows, self.wanted)
        tally.storage += decoded.seconds_fetching
        if decoded.faults:
            return None
        try:
            columns = self.split.shape(decoded, self.wanted, rows)
        except SchemaMismatch:
            if self.on_fault == "raise":
                raise
            return None
        tally.decode += perf_counter() - begin - decoded.seconds_fetching
        return columns

    def _make_each(self, group: Group, made: MadeBatches) -> None:
        """A group with damage: batch by batch, with records at fault raised, skipped or replaced."""
        for planned in group.batches:
            rows = self._rows(group, planned)
            try:
                kept = self._intact(rows, made.tally)
                self._make_kept(group, planned, rows, kept, made)
            except Exception as error:
                if not made.batches and not isinstance(error, BushelError):
                    raise
                made.error = error
                return

    def _make_kept(self, group: Group, planned: PlannedBatch, rows: Ints, kept: Ints, made: MadeBatches) -> None:
        if not len(kept) and self.on_fault == "replace" and planned.bins is None:
            rows, kept = np.full(len(rows), self._stand_in(group, planned)), np.arange(len(rows))
            planned = planned._replace(real=np.zeros(len(rows), bool))
        chosen, planned = self._resolve(planned, kept, len(rows))
        if not len(chosen):
            return
        columns = self._read(rows[chosen], made.tally)
        assert columns is not None
        batch = self._finish(columns, rows[chosen], planned, group.epoch, made.tally, self._chain)
        if batch is not None:
            made.batches.append((batch, planned.after))

    def _stand_in(self, group: Group, planned: PlannedBatch) -> int:
        """The nearest intact record in the order, for a batch without any, so that ranks stay in step."""
        size, count = self.sampler.size, len(planned.positions)
        low, high = int(min(planned.positions)), int(max(planned.positions)) + 1
        while low > 0 or high < size:
            for begin, end in ((high, min(high + count, size)), (max(low - count, 0), low)):
                rows = self.sampler.rows(group.epoch, np.arange(begin, end, dtype=np.int64))
                if len(kept := self._intact(rows, Tally()) if len(rows) else rows):
                    return int(rows[kept[0]])
            low, high = max(low - count, 0), min(high + count, size)
        raise BushelError(f"{self.split.paths[0]}: no record can be read, so none can stand in for those damaged")

    def _intact(self, rows: Ints, tally: Tally) -> Ints:
        """Which rows can be read; the others are counted, or raised."""
        shards = self.split.shards
        faults = self.split.decode(rows, self.wanted).faults
        for row, fault, column in faults:
            if self.on_fault == "raise":
                raise shards.error(int(rows[row]), fault, self.wanted[column][0] if column >= 0 else None)
            tally.passed.append(Passed.of(shards.skipped(int(rows[row]), fault), shards.why(int(rows[row]))))
        kept = np.setdiff1d(np.arange(len(rows)), [row for row, _, _ in faults])
        return kept if self.on_fault == "raise" else self._fitting(rows, kept, tally)

    def _fitting(self, rows: Ints, kept: Ints, tally: Tally) -> Ints:
        """Of rows that can be read, those that hold what the schema says; the others are counted."""
        if not len(kept) or self._why_unfit(rows[kept]) is None:
            return kept
        fitting = []
        for at in kept.tolist():
            if (why := self._why_unfit(rows[at : at + 1])) is None:
                fitting.append(at)
            else:
                place = self.split.shards.skipped(int(rows[at]), Fault.MALFORMED)
                tally.passed.append(Passed.of(place, why))
        return np.array(fitting, np.int64)

    def _why_unfit(self, rows: Ints) -> str | None:
        """Why rows do not hold what the schema says; None if they do."""
        try:
            self.split.shape(self.split.decode(rows, self.wanted), self.wanted, rows)
        except SchemaMismatch as error:
            return f"{error.at.rpartition('/')[2]}: {error.what}"
        return None

    def _resolve(self, planned: PlannedBatch, kept: Ints, count: int) -> tuple[Ints, PlannedBatch]:
        """Rows to use: those kept, or for each row the next one kept; and the batch that they make."""
        if planned.bins is not None:  # a packed row that lacks a record is still a row
            return kept, planned._replace(bins=planned.bins[kept])
        if self.on_fault != "replace":
            return kept, planned._replace(real=None if planned.real is None else planned.real[kept])
        chosen = kept[np.searchsorted(kept, np.arange(count)) % len(kept)]
        stands = chosen == np.arange(count)
        real = stands if planned.real is None else planned.real & stands
        return chosen, planned._replace(real=None if real.all() else real)

    def _finish(
        self, columns: dict[str, Column], rows: Ints, planned: PlannedBatch, epoch: int, tally: Tally, chain: Chain
    ) -> Batch | None:
        """The batch after a chain; None if no row of it came through."""
        if chain:
            begin = perf_counter()
            columns, kept = self._transform(chain, columns, rows, epoch, tally)
            if len(kept) < len(rows):
                if not len(kept):
                    return None
                chosen, planned = self._resolve(planned, kept, len(rows))
                places = np.searchsorted(kept, chosen)
                columns, rows = {name: take(c, places) for name, c in columns.items()}, rows[chosen]
            tally.transform += perf_counter() - begin
        begin = perf_counter()
        for step in self.layout:
            if isinstance(step, Bucket):
                continue
            if isinstance(step, Pack):
                assert planned.bins is not None
                columns, cut_rows = step.apply(columns, planned.bins, planned.bin_count)
            else:
                columns, cut_rows = step.apply(columns)
            tally.truncated += cut_rows
        columns = {name: self.place(c) if isinstance(c, np.ndarray) else c for name, c in columns.items()}
        tally.layout += perf_counter() - begin
        return Batch(columns, rows, planned.real, epoch)

    def _transform(self, chain: Chain, columns: dict[str, Column], rows: Ints, epoch: int, tally: Tally) -> ChainRows:
        """The columns transformed, and which rows came through."""
        refused: list[int] = []

        def refuse(at: int, error: Exception) -> None:
            refused.append(at)
            self._take_refusal(int(rows[at]), error, tally, is_last=len(refused) == len(rows))

        return self._apply(chain, columns, rows, epoch, tally, refuse)

    def _apply(
        self, chain: Chain, columns: dict[str, Column], rows: Ints, epoch: int, tally: Tally, refuse: Refuse
    ) -> ChainRows:
        features, spent = self.split.schema.features, Spent(tally.in_python)
        found = chain.apply_rows(columns, features, rows, epoch=epoch, pool=self.pool, refuse=refuse, spent=spent)
        tally.waited_for_python += spent.waited
        return found

    @cached_property
    def _chain(self) -> Chain:
        return Chain.of(self.transforms, self.seed)

    def _take_refusal(self, row: int, error: Exception, tally: Tally, *, is_last: bool) -> None:
        """Treat a record that a transform cannot use like a damaged one; any other error names the record too.

        `is_last` says that no other record of its batch is left to replace it.
        """
        shards = self.split.shards
        if not isinstance(error, BushelError):
            error.add_note(f"It is {shards.place(row)}.")
            raise error
        if self.on_fault == "raise" or (self.on_fault == "replace" and is_last):
            error.help = (*error.help, f"It is {shards.place(row)}.")[-2:]
            raise error
        tally.passed.append(Passed.of(shards.skipped(row, 0), error.message))
