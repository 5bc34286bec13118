"""`batches`: the records of a split as ready batches."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from time import perf_counter
from types import TracebackType
from typing import Any, NoReturn

import msgspec

from bushel.data.schema import IMAGE_ENCODINGS
from bushel.errors import BushelError, BushelWarning, MissingName
from bushel.parallel import Ahead, Stopwatch
from bushel.pixels.codecs import decoders
from bushel.reading.arrow_streams import stream_batches
from bushel.reading.batch import Batch, MadeBatches, OnFault, Place, Report
from bushel.reading.dataset import Dataset, Split
from bushel.reading.dataset import open as open_records
from bushel.reading.layout import Bucket, Layout
from bushel.reading.order import Order, launched_share
from bushel.reading.pipeline import FeedSettings, ProcessesAhead, Workers, make_ahead, prepare, threads_of
from bushel.reading.raw import fit_to, open
from bushel.storage import AnyPath
from bushel.transforms import BatchTransform, Transform, decode_image

__all__ = ["Feed", "batches", "measure"]

_LOG = logging.getLogger("bushel")


def batches(
    data: Split | Dataset | AnyPath | Any,
    split: str | None = None,
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

    `data` is a split, a dataset, or anything that `bushel.open` opens: also raw data that was never built, such as a
    folder of images. `split` names the split, unless there is only one. Transforms that learn are fitted to the train
    split of raw data.

    A batch is yours: it never changes and may be kept. The last batch is smaller unless `drop_last`.
    `on_fault` says whether a damaged record is an error, is skipped, or is replaced by another of its batch, so that
    ranks stay in step.

    >>> feed = bushel.batches(train, batch_size=256, order=bushel.Order(shuffle=True, seed=7), epochs=3)
    >>> for batch in feed:
    ...     batch["image"], batch["label"]
    """
    settings = FeedSettings(
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
    _warn_of_doubling_ranks(settings.order)
    chosen = _one_split(data, split)
    fitted = fit_to(chosen, settings.transforms, settings.order.seed)
    return Feed(chosen, msgspec.structs.replace(settings, transforms=fitted))


def _one_split(data: Any, name: str | None) -> Split:
    if isinstance(data, Split):
        if name is not None:
            raise ValueError(f"split must be left out for a split that is open, got {name!r}")
        return data
    opened = data if isinstance(data, Dataset) else open(data)
    if name is None and len(opened) != 1:
        raise ValueError(f"data must be one split of the splits {', '.join(opened)}, got {opened!r}")
    return opened.choose(name)


class Feed:
    """Batches, one after another, with the current position and a report.

    Iterating again after the last epoch reads the following epochs. Several threads may request batches: each batch
    goes to one of them. A forked or pickled feed continues where this one stands.
    """

    def __init__(self, split: Split, settings: FeedSettings, pool: Any = None) -> None:
        self.split = split
        self.settings = settings
        self._pool = pool
        self._maker, self._schedule = prepare(split, settings, pool)
        self._place = Place()
        self.turn = settings.turn  # which of the batches after the place is this process's next
        self._epochs_done = 0
        self._is_through = False
        self._ready: deque[tuple[Batch, Place]] = deque()
        self._pipeline: Ahead[MadeBatches] | ProcessesAhead | None = None
        self._error: Exception | None = None  # to be raised after the batches that are ready
        self._report = Report(threads=threads_of(settings), processes=settings.workers.processes)
        self._report.add_missing(split.shards.shards)
        self._fruitful = 0  # the last epoch that gave a batch
        self._begun: float | None = None
        self._returned = 0.0
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        return _feed_at, (self.split, self.settings, self.state())

    def __getitem__(self, number: object) -> NoReturn:
        raise TypeError(
            "a feed gives batches in order, not by number: iterate over it; for torch's DataLoader use "
            "bushel.torch.loader(...), or bushel.torch.dataset(...) for records by number"
        )

    def __iter__(self) -> Iterator[Batch]:
        if self._is_through:
            self._epochs_done += self.settings.epochs or 0
            self._is_through = False
        return self

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """What Arrow's libraries ask for: the batches from here on."""
        return stream_batches(self).__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        """How many batches an epoch has; unknown if records are packed."""
        if self._schedule.pack is not None:
            raise TypeError("the number of packed batches is not known before they are made")
        return self._schedule.steps.count()

    def __next__(self) -> Batch:
        if os.getpid() != self._process:
            self._begin_in_child()
        with self._lock:
            return self._next()

    def _begin_in_child(self) -> None:
        """A forked process has none of the threads, but may have locks that they held: start with new ones."""
        self._process, self._lock, self._pipeline = os.getpid(), threading.Lock(), None
        self.split = copy(self.split)
        self._maker, self._schedule = prepare(self.split, self.settings, self._pool)

    def _next(self) -> Batch:
        asked = perf_counter()
        if self._begun is None:
            self._begun = asked
        else:
            self._report.consumer += asked - self._returned
        if not self._ready:
            self._wait()
        if not self._ready:
            self._is_through = True
            self._log_end()
            if not self._report.batches and self._report.damaged:
                raise self._nothing_intact()
            raise StopIteration
        batch, self._place = self._ready.popleft()
        self.turn = self.settings.turns - 1
        report = self._report
        report.batches += 1
        report.records += len(batch.rows)
        if batch.real is not None:
            report.filled += int(len(batch.real) - batch.real.sum())
        self._returned = perf_counter()
        return batch

    def _log_end(self) -> None:
        if _LOG.isEnabledFor(logging.INFO):
            report = self.report()
            _LOG.info("read %s of %s: %s", self.split.name, self.split.paths[0].parent, report.summary)
            if report.damaged:
                _LOG.info("read %s of %s: %s", self.split.name, self.split.paths[0].parent, report.damage)

    def _wait(self) -> None:
        """Wait until a batch is ready, if any is left."""
        begin = perf_counter()
        try:
            while not self._ready:
                if self._error is not None:
                    raise self._error
                if self._pipeline is None:
                    self._pipeline = self._start()
                made = next(self._pipeline, None)
                if made is None:
                    self.close()
                    break
                self._report.add(made.tally)
                self._ready.extend(made.batches)
                self._error = made.error
                if made.batches:
                    self._fruitful = made.end.epoch
                else:
                    self._place = made.end
                    if made.end.epoch > self._fruitful + 1:  # one whole epoch lies between
                        raise self._nothing_intact()
        except BaseException:
            self.close()
            raise
        finally:
            self._report.waited += perf_counter() - begin

    def _nothing_intact(self) -> BushelError:
        where = self.split.paths[0]
        look = "build {} OUT" if self.split.is_raw else "check {}"
        help = [f"To see what is damaged: bushel {look.format(where)}"]
        return BushelError(f"{where}: an epoch has no intact record", help=help)

    def _start(self) -> Ahead[MadeBatches] | ProcessesAhead:
        _warn_of_doubling_workers(self.settings)
        until = None if self.settings.epochs is None else self._epochs_done + self.settings.epochs
        schedule = replace(self._schedule, epochs=until, turn=self.turn)
        if self.settings.workers.processes:
            return ProcessesAhead(self.split, self.settings, schedule, self._place)
        return make_ahead(self._maker, schedule, self.settings, self._place)

    def state(self) -> dict[str, int]:
        """Where reading stands after the last batch *returned*: a few integers, the same on every rank.

        `pass` is the epoch in which the current pass over the data began. After the last batch of a pass it stays the
        same until the loop over the pass has ended.
        """
        began = self._epochs_done + (self.settings.epochs or 0) * self._is_through
        return {**self._signature(), **self._place._asdict(), "pass": began}

    def _signature(self) -> dict[str, int]:
        """What must be equal when a state is restored: with other records or buckets, positions mean something else."""
        is_bucketed = any(isinstance(step, Bucket) for step in self.settings.layout)
        return {
            "seed": self.settings.order.seed,
            "records": self._schedule.steps.size,
            "bucket": self.settings.batch_size if is_bucketed else 0,
        }

    def restore(self, state: dict[str, int]) -> None:
        """Continue where `state` was taken. With another number of ranks, the remaining records are read once each."""
        for name, value in self._signature().items():
            if state.get(name) != value:
                raise ValueError(f"state must be of a feed with {name} {value}, got {state.get(name)}")
        self.close()
        self._is_through = False
        self._place = Place(*(int(state[name]) for name in Place._fields))
        self.turn = self.settings.turn
        self._fruitful = self._place.epoch
        self._epochs_done = int(state["pass"])

    def report(self) -> Report:
        """Where the time went so far, and what was skipped."""
        report = msgspec.structs.replace(
            self._report, faults=list(self._report.faults), in_python=dict(self._report.in_python)
        )
        report.seconds = 0.0 if self._begun is None else (self._returned or perf_counter()) - self._begun
        return report

    def close(self) -> None:
        """End all work; requesting another batch starts it again from the current position."""
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


def _warn_of_doubling_ranks(order: Order) -> None:
    """Warn if a launcher started several ranks, and the order does not say which of them this is."""
    share = launched_share()
    if order.world == 1 and share is not None:
        warnings.warn(
            f"this is rank {share[0]} of {share[1]} (RANK, WORLD_SIZE), and each of them reads all records: give the "
            f"order rank={share[0]}, world={share[1]}, or use bushel.torch.loader, which does so itself",
            BushelWarning,
            stacklevel=3,
        )


def _warn_of_doubling_workers(settings: FeedSettings) -> None:
    """Warn if this process is one of several workers of a DataLoader, and nobody divides the records among them."""
    loading = sys.modules.get("torch.utils.data")
    worker = loading.get_worker_info() if loading else None
    if worker is not None and worker.num_workers > 1 and settings.turns == 1:
        warnings.warn(
            f"each of the {worker.num_workers} workers of this DataLoader reads all records: use "
            "DataLoader(bushel.torch.loader(...), batch_size=None), which divides them",
            BushelWarning,
            stacklevel=5,
        )


def _feed_at(split: Split, settings: FeedSettings, state: dict[str, int]) -> Feed:
    feed = Feed(split, settings)
    feed.restore(state)
    return feed


def measure(
    paths: AnyPath | Iterable[AnyPath],
    *,
    split: str | None = None,
    batch_size: int = 256,
    columns: Sequence[str] | None = None,
    order: Order | None = None,
    seconds: float = 5.0,
    decode_images: bool = True,
    transforms: Sequence[Transform | BatchTransform] = (),
    workers: Workers | None = None,
) -> Report:
    """Read a dataset for some seconds, from the first split unless one is named, and report where the time went.

    Encoded images are decoded, as in training, unless `transforms` decode them. Transforms that run in Python are
    named in the report, with what they cost.
    """
    if not seconds > 0:
        raise ValueError(f"seconds must be more than 0, got {seconds}")
    stopwatch = Stopwatch((lambda: None) if workers is not None and workers.processes else lambda: 0.0)
    with stopwatch.stage("open"):
        data = open_records(paths)
    chosen = data[split] if split is not None else next(iter(data.splits.values()))
    is_decoded_already = any(isinstance(transform, decode_image) for transform in transforms)
    images = [] if is_decoded_already or not decode_images else _images(chosen, columns)
    feed = batches(
        chosen,
        batch_size=batch_size,
        columns=columns,
        order=order or Order(shuffle=True),
        transforms=[*(decode_image(name) for name in images), *transforms],
        epochs=None,
        on_fault="skip",
        workers=workers,
    )
    with feed:
        with stopwatch.stage("first batch"):
            next(feed, None)
        end = perf_counter() + seconds
        with stopwatch.stage("read"):
            while perf_counter() < end and next(feed, None) is not None:
                pass
        report = feed.report()
    report.timings = stopwatch.timings()
    report.codecs = decoders() if images or is_decoded_already else {}
    return report


def _images(split: Split, columns: Sequence[str] | None) -> list[str]:
    for name in columns or ():
        if name not in split.schema:
            raise MissingName("feature", name, split.schema, where=split.paths[0])
    names = list(split.schema if columns is None else columns)
    return [name for name in names if split.schema[name].encoding in IMAGE_ENCODINGS]
