"""`batches`: the records of a split as ready batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from time import perf_counter
from types import TracebackType
from typing import Protocol

import msgspec

from bushel.errors import BushelError
from bushel.reading.batch import Batch, Made, OnFault, Place
from bushel.reading.dataset import Dataset, Split
from bushel.reading.layout import Bucket, Layout
from bushel.reading.order import Order
from bushel.reading.pipeline import Threads
from bushel.reading.prepare import Settings, Workers, prepare, tasks_ahead, threads_of
from bushel.reading.process import Process
from bushel.reading.report import Report
from bushel.transforms import BatchTransform, Transform

__all__ = ["Feed", "batches"]


def batches(
    data: Split | Dataset,
    *,
    batch_size: int,
    columns: Sequence[str] | None = None,
    order: Order | None = None,
    transforms: Sequence[Transform | BatchTransform] = (),
    epochs: int | None = 1,
    layout: Sequence[Layout] = (),
    drop_last: bool = False,
    on_fault: OnFault = "raise",
    workers: Workers | None = None,
) -> Feed:
    """Read records as ready batches: dicts of NumPy arrays, `Ragged` or bytes columns, made ahead in threads.

    A batch is its owner's: it never changes, and may be kept. The last batch is smaller unless `drop_last`. `on_fault`
    says whether a damaged record is raised, left out, or replaced by another of its batch, so that ranks stay in step.

    >>> feed = bushel.batches(train, batch_size=256, order=bushel.Order(shuffle=True, seed=7), epochs=3)
    >>> for batch in feed:
    ...     batch["image"], batch["label"]
    """
    settings = Settings(
        batch_size=batch_size,
        columns=columns,
        order=order or Order(),
        transforms=tuple(transforms),
        epochs=epochs,
        layout=tuple(layout),
        drop_last=drop_last,
        on_fault=on_fault,
        workers=workers or Workers(),
    )
    return Feed(_one_split(data), settings)


def _one_split(data: Split | Dataset) -> Split:
    if isinstance(data, Split):
        return data
    if isinstance(data, Dataset) and len(data) == 1:
        return next(iter(data.splits.values()))
    names = f" of the splits {', '.join(data)}" if isinstance(data, Dataset) else ""
    raise ValueError(f"data must be one split{names}, got {data!r}")


class Pipeline(Protocol):
    """Gives what was made, in order."""

    def next(self) -> Made | None:
        """The next that was made; None behind the last."""
        ...

    def close(self) -> None:
        """End all work."""
        ...


class Feed:
    """Batches, one after another; where reading stands; and how it fares.

    Iterating again when all epochs are through reads the following epochs.
    """

    def __init__(self, split: Split, settings: Settings) -> None:
        self.split = split
        self.settings = settings
        self._maker, self._plan = prepare(split, settings)
        self._place = Place()
        self._epochs_done = 0
        self._is_through = False
        self._ready: deque[tuple[Batch, Place]] = deque()
        self._pipeline: Pipeline | None = None
        self._error: BushelError | None = None  # to be raised behind the batches that are ready
        self._report = Report(threads=threads_of(settings))
        self._begun: float | None = None
        self._returned = 0.0

    def __iter__(self) -> Iterator[Batch]:
        if self._is_through:
            self._epochs_done += self.settings.epochs or 0
            self._is_through = False
        return self

    def __len__(self) -> int:
        """How many batches an epoch has; unknown where records are packed."""
        if self._plan.pack is not None:
            raise TypeError("the number of packed batches is not known before they are made")
        return self._plan.steps.count()

    def __next__(self) -> Batch:
        asked = perf_counter()
        if self._begun is None:
            self._begun = asked
        else:
            self._report.consumer += asked - self._returned
        if not self._ready:
            self._wait()
        if not self._ready:
            self._is_through = True
            raise StopIteration
        batch, self._place = self._ready.popleft()
        report = self._report
        report.batches += 1
        report.records += len(batch.rows)
        if batch.real is not None:
            report.filled += int(len(batch.real) - batch.real.sum())
        self._returned = perf_counter()
        return batch

    def _wait(self) -> None:
        """Have at least one batch ready, unless there is none left."""
        begin = perf_counter()
        try:
            while not self._ready:
                if self._error is not None:
                    raise self._error
                if self._pipeline is None:
                    self._pipeline = self._start()
                made = self._pipeline.next()
                if made is None:
                    self.close()
                    break
                self._report.add(made.tally)
                self._ready.extend(made.batches)
                self._error = made.error
                if not made.batches:
                    self._place = made.end
        except BaseException:
            self.close()
            raise
        finally:
            self._report.waited += perf_counter() - begin

    def _start(self) -> Pipeline:
        until = None if self.settings.epochs is None else self._epochs_done + self.settings.epochs
        ahead = tasks_ahead(self.settings, self._plan.batches_at_once)
        if self.settings.workers.process:
            return Process(self.split, self.settings, self._place, until=until, ahead=ahead)
        tasks = self._maker.ahead(self._plan.through(until).tasks(self._place))
        return Threads(self._maker, tasks, threads=threads_of(self.settings), ahead=ahead)

    def state(self) -> dict[str, int]:
        """Where reading stands behind the last batch *returned*: a few integers, the same on every rank.

        `pass` is the epoch with which the pass began that iterating goes on with: behind the last batch of one, it is
        still that one, until the loop over it has ended.
        """
        began = self._epochs_done + (self.settings.epochs or 0) * self._is_through
        return {**self._signature(), **self._place._asdict(), "pass": began}

    def _signature(self) -> dict[str, int]:
        """What a state must have been taken with: other records, or other buckets, are not in the same places."""
        is_bucketed = any(isinstance(step, Bucket) for step in self.settings.layout)
        return {
            "seed": self.settings.order.seed,
            "records": self._plan.steps.size,
            "bucket": self.settings.batch_size if is_bucketed else 0,
        }

    def restore(self, state: dict[str, int]) -> None:
        """Go on where `state` was taken. With another number of ranks the remaining records are read, each once."""
        for name, value in self._signature().items():
            if state.get(name) != value:
                raise ValueError(f"state must be of a feed with {name} {value}, got {state.get(name)}")
        self.close()
        self._is_through = False
        self._place = Place(*(int(state[name]) for name in Place._fields))
        self._epochs_done = int(state["pass"])

    def report(self) -> Report:
        """Where time went so far, and what was passed over."""
        report = msgspec.structs.replace(self._report, faults=list(self._report.faults))
        report.seconds = 0.0 if self._begun is None else (self._returned or perf_counter()) - self._begun
        return report

    def close(self) -> None:
        """End all work; the next batch asked for begins it anew where reading stands."""
        pipeline, self._pipeline, self._error = self._pipeline, None, None
        self._ready.clear()
        if pipeline is not None:
            pipeline.close()

    def __enter__(self) -> Feed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
