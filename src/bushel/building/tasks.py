"""What one worker does alone: write a shard from a source, a partition to sorted runs, or sorted runs to a shard."""

from __future__ import annotations

import contextlib
import ctypes
import pickle
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.building.engines import Counters
from bushel.building.output.journal import Journal, Outcome, Quarantine, Quarantined, StoredJournal
from bushel.building.planning.plan import Plan, load_plan
from bushel.building.record_encoding import BlockEncoder, BlockLearner, NotDecoded, learnt_blocks, save_fits
from bushel.building.shard_files import (
    InOrder,
    PlacedRecords,
    ShardFile,
    SortedRunWriter,
    deliver,
    merge_runs,
    order_of,
    read_back,
    write_beside,
    write_in_order,
)
from bushel.data.categories import count_labels
from bushel.data.columns import BytesColumn, Column
from bushel.data.encoding import FramedRecords, Narrowings
from bushel.errors import BushelError, TooManyRefused
from bushel.parallel import available_cores, iterate_ahead
from bushel.records.files import Compression
from bushel.sources.protocol import Block, Refused, Source
from bushel.storage import as_path
from bushel.transforms.chain import Layer

__all__ = ["Job", "Task", "give_back_memory", "memory_of", "perform"]

STEP_BYTES = 16 << 20  # read and written at a time
_STEP_ROWS = 1 << 16
_BLOCKS_AHEAD = 2


class Task(NamedTuple):
    """One piece of work, by number.

    It belongs to a shard (written from the source, or merged from runs), to a partition, to a part of the planned
    places, or to what transforms learn from.
    """

    kind: Literal["shard", "merge", "partition", "part", "fit"]
    number: int
    slot: int  # place in the counters of progress
    layer: int = 0  # the number of the fitting pass

    @property
    def name(self) -> str:
        """Its name in the journal."""
        if self.kind == "fit":
            return f"fit-{self.layer:02d}-{self.number:06d}"
        return f"{'shard' if self.kind == 'merge' else self.kind}-{self.number:06d}"


@dataclass
class Job:
    """Everything that tasks need to know; pickled once per stage."""

    source: Source | None  # None if only runs are merged
    encoder: BlockEncoder
    out: Path  # where shards are written
    compression: Compression | None
    max_refused: int | None
    check: bool  # read finished shards back
    counters: Counters
    layer: Layer | None = None  # the transforms that are fitted now
    fit_rows: int = 0  # rows of a task that fits
    part_rows: int = 0  # rows of a part, if shards are merged from parts
    deliver_to: Path | None = None  # where finished shards go, if they do not stay in `out`
    build: str = ""  # the identity of the build, of which a delivered shard is a part
    is_spread: bool = False  # over machines that share nothing but the store: each writes shards to a folder of its own

    @property
    def journal(self) -> Journal:
        """The journal of the build."""
        return StoredJournal(self.deliver_to) if self.is_spread and self.deliver_to else Journal(self.out)

    @cached_property
    def runs(self) -> dict[str, Path]:
        """The files of all runs, by name: listed once, when all are written."""
        return {path.name: path for path in self.journal.runs.iterdir()}

    @cached_property
    def durable(self) -> bool:
        """Whether runs and fits, too, must be on disk when they are noted: machines of a cluster fail one by one."""
        return not self.journal.is_of_this_machine

    @cached_property
    def plan(self) -> Plan:
        """Where each sample goes; loaded once per worker."""
        plan = load_plan(self.journal.plan)
        assert plan is not None, "a task is made from a plan"
        return plan


_loaded = threading.local()  # a worker may be a thread, and has its own open files


def perform(job: Job | str, task: Task) -> Outcome:
    """Do one task and note it in the journal. Doing it twice gives the same result.

    A worker is given the path of a pickled job, which it loads once.
    """
    if isinstance(job, str):
        if getattr(_loaded, "path", None) != job:
            give_back_memory()
            _loaded.job, _loaded.path = pickle.loads(as_path(job).read_bytes()), job
        job = _loaded.job
    assert isinstance(job, Job)
    with tempfile.TemporaryDirectory(prefix="bushel-") if job.is_spread else contextlib.nullcontext(job.out) as folder:
        job.out = Path(folder)
        work = _Work(job, task)
        kinds = {"fit": work.fit, "part": work.write_part, "partition": work.write_partition}
        try:
            outcome = kinds.get(task.kind, work.write_shard)()
        finally:
            work.quarantine.close()
            job.counters.end(task.slot)
        if job.deliver_to is not None and outcome.path:
            deliver(job.out, job.deliver_to, outcome, job.build)
        job.journal.note(outcome, durable=job.durable)
    return outcome


def give_back_memory() -> None:
    """Release what the tasks of the last stage needed: this stage needs other memory."""
    _native.give_back_buffers()
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


class _Asked(NamedTuple):
    """Rows of a partition, and where their records go."""

    partition: int
    rows: NDArray[np.int64]
    by_row: NDArray[np.int64]  # the order that sorts them
    places: NDArray[np.int64]
    ends_step: bool


class _Work:
    """One task while it runs."""

    def __init__(self, job: Job, task: Task) -> None:
        self.job, self.plan, self.task = job, job.plan, task
        self.quarantine = Quarantine(job.journal.refused_path(task.name))
        self.counted: Counter[str] = Counter()
        self.narrowings = Narrowings()
        self.progress = job.counters.begin(task.slot)

    def fit(self) -> Outcome:
        """Learn from some of the train split, and leave the result for the build."""
        assert self.job.layer is not None, "what is fitted is of some layer"
        learner = BlockLearner(self.job.encoder, self.job.layer)
        learnt = 0
        blocks = learnt_blocks(self.plan, self._source, self.task.number, self.job.fit_rows)
        for partition, block, wanted in blocks:
            rows = np.asarray(block.rows, np.int64)
            listed = np.minimum(rows, max(0, self.plan.facts.partition_rows[partition] - 1))
            hashes = np.asarray(self.plan.hashes[int(self.plan.starts[partition]) + listed])
            learnt += learner.add_block(block, hashes, wanted)
            self.progress[0] += int(wanted.sum())
        save_fits(self.job.journal.fits_path(self.task.name), learner.fits, durable=self.job.durable)
        return self._outcome(samples=learnt, bytes=0)

    def write_partition(self) -> Outcome:
        """Read one partition once and write its records to sorted runs."""
        partition = self.task.number
        begin = int(self.plan.starts[partition])
        place = np.asarray(self.plan.place[begin : int(self.plan.starts[partition + 1])])
        left = planned = int((place >= 0).sum())
        blocks = self._source.read(partition, None)
        with self._runs() as runs, contextlib.ExitStack() as stack:
            stack.callback(getattr(blocks, "close", lambda: None))
            for block in blocks:
                records, seen = self._encode(partition, block, place)
                if records is not None:
                    runs.add(_placed(records, place[records.rows]))
                left -= seen
                if left == 0 and planned < len(place):  # the rest of the partition is not wanted
                    break
        self._check_all_read(partition, left)
        return self._outcome(samples=planned, bytes=runs.bytes)

    def write_part(self) -> Outcome:
        """Write the records of some planned places to a sorted run, so that many workers can make a few shards."""
        begin = self.task.number * self.job.part_rows
        rows = np.asarray(self.plan.order[begin : begin + self.job.part_rows])
        with self._runs() as runs:
            for records in chain.from_iterable(self._read_planned(rows, begin)):
                runs.add(records)
                self.progress[1] += len(records.data)
        return self._outcome(samples=len(rows), bytes=runs.bytes)

    def _runs(self) -> SortedRunWriter:
        return SortedRunWriter(self.job.journal.runs / self.task.name, self.plan.facts.shards, self.job.durable)

    def write_shard(self) -> Outcome:
        """Write one shard, from the source or from the runs of all partitions."""
        shard = self.plan.facts.shards[self.task.number]
        is_merged = self.task.kind == "merge"
        rows = self.plan.order[shard.first : shard.end]
        steps: Iterator[list[PlacedRecords] | InOrder] = (
            self._from_runs() if is_merged else self._read_planned(np.asarray(rows), shard.first)
        )
        with ShardFile(self.job.out / shard.file_name(self.job.compression), self.job.compression) as file:
            for records in steps:
                for written in write_in_order(file, records):
                    self.progress[1] += written
                if isinstance(records, InOrder):
                    self.progress[0] += len(records.places)
        if is_merged:
            self.progress[0] = shard.samples  # refused samples count as done too
        places = file.planned_places
        self._write_beside(file, places)
        if self.job.check:
            begun = time.thread_time_ns()
            read_back(file.path, len(places))
            self.progress[3] = time.thread_time_ns() - begun
        return self._outcome(
            samples=shard.samples,
            records=len(places),
            bytes=file.path.stat().st_size,
            path=file.path.name,
            sha256=file.sha256,
            digest=file.digest,
            label_counts=self._label_counts(file),
            refused=shard.samples - len(places),
        )

    def _outcome(self, **facts: Any) -> Outcome:
        facts.setdefault("refused", self.quarantine.count)
        facts.setdefault("records", facts["samples"] - facts["refused"])
        narrowed, counted = dict(self.narrowings), dict(self.counted + Counter())
        return Outcome(task=self.task.name, narrowed=narrowed, counted=counted, **facts)

    @property
    def _source(self) -> Source:
        assert self.job.source is not None, "runs are merged without a source"
        return self.job.source

    def _read_planned(self, rows: NDArray[np.int64], first: int) -> Iterator[list[PlacedRecords]]:
        """The records of planned places, from `first` on, as many at a time as memory should hold."""
        found: list[PlacedRecords] = []
        seen = 0
        with contextlib.closing(self._blocks_ahead(self._asked(rows, first))) as blocks:
            for asked, block in blocks:
                if block is not None:
                    records, more = self._encode(asked.partition, block, None)
                    if records is not None:
                        at = asked.by_row[np.searchsorted(asked.rows[asked.by_row], records.rows)]
                        found.append(_placed(records, asked.places[at]))
                    seen += more
                    continue
                self._check_all_read(asked.partition, len(asked.rows) - seen)
                seen = 0
                if found and asked.ends_step:
                    yield found
                    found = []

    def _asked(self, rows: NDArray[np.int64], first: int) -> Iterator[_Asked]:
        """What to ask of each partition, step by step."""
        step = max(1, min(_STEP_ROWS, int(STEP_BYTES / max(1.0, self.plan.facts.sample_bytes))))
        for begin in range(0, len(rows), step):
            planned = rows[begin : begin + step]
            partitions = self.plan.partition_of(planned)
            numbers = np.unique(partitions).tolist()
            for partition in numbers:
                here = np.flatnonzero(partitions == partition)
                wanted = planned[here] - self.plan.starts[partition]
                yield _Asked(partition, wanted, np.argsort(wanted), first + begin + here, partition == numbers[-1])

    def _blocks(self, asked: Iterator[_Asked]) -> Iterator[tuple[_Asked, Block | None]]:
        """The blocks of what was asked for, and None at the end of each."""
        is_decoded = self.job.encoder.decodes == "image"
        read = self._source.read_undecoded if is_decoded else self._source.read
        for one in asked:
            for block in read(one.partition, one.rows):
                yield one, block
            yield one, None

    def _blocks_ahead(self, asked: Iterator[_Asked]) -> Any:
        """The same; the next is read in a thread, if the source may be and this process has more than one core."""
        blocks = self._blocks(asked)
        is_ahead = self._source.any_thread and available_cores() > 1
        return iterate_ahead(blocks, _BLOCKS_AHEAD) if is_ahead else blocks

    def _from_runs(self) -> Iterator[InOrder]:
        shard = self.plan.facts.shards[self.task.number]
        if self.job.part_rows:
            parts = range(shard.first // self.job.part_rows, -(-shard.end // self.job.part_rows))
            tasks = [Task("part", part, 0) for part in parts]
        else:
            tasks = [Task("partition", number, 0) for number, samples in enumerate(self.plan.facts.planned) if samples]
        return merge_runs(self.job.runs, [task.name for task in tasks], self.task.number, self.job.out)

    def _encode(
        self, partition: int, block: Block, place: NDArray[np.int64] | None
    ) -> tuple[FramedRecords | None, int]:
        """Encode a block; returns its records, and how many planned samples it held."""
        rows = np.asarray(block.rows, np.int64)
        begin = int(self.plan.starts[partition])
        is_listed = rows < self.plan.facts.partition_rows[partition]
        wanted = is_listed if place is None else is_listed & (place[np.where(is_listed, rows, 0)] >= 0)
        hashes = self.plan.hashes[begin + np.where(is_listed, rows, 0)]
        try:
            records, refused, counted, narrowings = self.job.encoder.encode(block, hashes, wanted)
        except NotDecoded:
            assert block.decoded is not None
            return self._encode(partition, block.decoded(), place)
        listed = self.plan.facts.partition_rows[partition]
        unread = [bad for bad in block.refused if bad.row < listed and (place is None or place[bad.row] >= 0)]
        for bad in (*unread, *refused):
            self._refuse(partition, bad)
        self.counted.update(block.counted)
        self.counted.update(counted)
        self.narrowings.merge(narrowings)
        seen = int(wanted.sum()) + len(unread)
        self.progress[0] += seen
        if place is not None and records is not None:
            self.progress[1] += len(records.data)
        return records, seen

    def _refuse(self, partition: int, refused: Refused) -> None:
        row = int(self.plan.starts[partition]) + refused.row
        key = self.plan.keys(partition)[refused.row]
        entry = Quarantined(
            source=self._source.locate(partition, refused.row),
            key=key.decode(errors="backslashreplace"),
            split=self.plan.split_of(int(self.plan.place[row])),
            stage=refused.stage,
            reason=refused.reason,
        )
        self.quarantine.add(entry)
        self.progress[2] += 1
        allowed = self.job.max_refused
        if allowed is not None and self.quarantine.count > allowed:
            raise TooManyRefused(
                self.job.deliver_to or self.job.out,
                self.quarantine.count,
                allowed,
                first=f"The last one: {entry}",
            )

    def _check_all_read(self, partition: int, left: int) -> None:
        if left != 0:
            what = (
                f"{left:,} samples that it listed were not read" if left > 0 else "more samples were read than listed"
            )
            raise BushelError(f"source: {what} from partition {partition}", help=["Did it change during the build?"])

    def _write_beside(self, file: ShardFile, places: NDArray[np.int64]) -> None:
        rows = np.asarray(self.plan.order[places])
        by_row = order_of(rows)  # the order of what is looked up for them: neighbours share pages
        ordered = rows[by_row]
        edges = np.searchsorted(ordered, self.plan.starts)
        partitions = _put_back(np.repeat(np.arange(len(edges) - 1), np.diff(edges)), by_row)
        origins, repeats = self.plan.origins(partitions, rows - self.plan.starts[partitions])
        index = file.index(_put_back(np.asarray(self.plan.hashes[ordered]), by_row), origins, partitions)
        if repeats is not None:
            index.values["repeat"] = repeats
        write_beside(file.path, index, self._keys(ordered, edges, by_row))

    def _keys(self, ordered: NDArray[np.int64], edges: NDArray[np.int64], by_row: NDArray[np.int64]) -> BytesColumn:
        """The keys of rows, which are in order; `edges` are where partitions begin, and `by_row` is where keys go."""
        found: list[tuple[Any, Any]] = []
        which, within = (np.empty(len(ordered), np.int64) for _ in range(2))
        for partition in np.flatnonzero(np.diff(edges)).tolist():
            some = slice(*edges[partition : partition + 2].tolist())
            which[by_row[some]], within[by_row[some]] = len(found), np.arange(some.stop - some.start)
            # Gathered, not kept mapped: each mapping holds a file open, and there may be thousands of partitions.
            keys = self.plan.keys_of(partition, ordered[some] - self.plan.starts[partition])
            found.append((keys.offsets, keys.data))
        return BytesColumn(*_native.gather_rows(found, which, within))

    def _label_counts(self, file: ShardFile) -> dict[str, int]:
        labels = self.job.encoder.labels
        if labels is None or labels.task == "regression" or not file.lengths:
            return {}
        if labels.task == "classification" and file.labels:
            return count_labels(labels, np.concatenate(file.labels))
        stored = self.job.encoder.schema.features.get(labels.feature)
        if labels.task == "classification" and (stored is None or stored.shape != () or stored.dtype != "int64"):
            return {}  # a transform made something else of it, such as a vector
        return count_labels(labels, _flat(_read_column(file.path, labels.feature)))


_BASE_MEMORY = 384 << 20  # the program, a few steps of records, and codecs


def memory_of(plan: Plan, kind: str) -> int:
    """About how much memory one task of this kind takes."""
    shard = max((shard.samples for shard in plan.facts.shards), default=0)
    rows = max(plan.facts.partition_rows, default=0) if kind == "partition" else shard
    return _BASE_MEMORY + 64 * rows


def _put_back(values: NDArray[Any], order: NDArray[np.int64]) -> NDArray[Any]:
    """Values that were looked up in some order, where they belong."""
    found = np.empty_like(values)
    found[order] = values
    return found


def _placed(records: FramedRecords, places: NDArray[np.int64]) -> PlacedRecords:
    starts = np.cumsum(records.lengths) - records.lengths
    return PlacedRecords(places, records.data, starts, records.lengths, records.labels)


def _read_column(path: Path, name: str) -> Column:
    from bushel.records.scan import read

    return read(path, [name])[name]


def _flat(column: Column) -> Any:
    return column if isinstance(column, np.ndarray) else column.values  # type: ignore[union-attr]
