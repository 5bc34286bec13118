"""`dataset`: the records of a split as a `tf.data.Dataset` that a model can be fitted to."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from bushel.data.schema import Schema
from bushel.feeding.adapters import Data, Request, open_split, request_of, row_weights
from bushel.reading import Batch, Feed, Order, Workers
from bushel.reading.batch import OnFault
from bushel.reading.layout import Layout
from bushel.reading.pipeline import FeedSettings
from bushel.tensorflow.graph import graph_dataset
from bushel.tensorflow.tensors import as_graph, assemble, components, flat_specs, load_tensorflow, plan
from bushel.transforms import BatchTransform, Transform

__all__ = ["dataset"]

Engine = Literal["native", "graph"]

_PREFETCHED = 2  # the feed itself reads ahead; this hides the transfer
_JOINED_BYTES = 2 << 20  # a transfer costs a third of a millisecond whatever the size, so small batches go together
_MOST_JOINED = 16


def dataset(
    data: Data,
    split: str | None = None,
    *,
    batch_size: int,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    order: Order | None = None,
    transforms: Sequence[Transform | BatchTransform] = (),
    epochs: int | None = 1,
    layout: Sequence[Layout] = (),
    drop_last: bool = False,
    on_fault: OnFault = "raise",
    workers: Workers | None = None,
    skip: int = 0,
    schema: Schema | None = None,
    engine: Engine = "native",
) -> Any:
    """Records as a `tf.data.Dataset` of `(feature, label)`, or of `(dict of features, label)` if there are several.

    Takes what `bushel.batches` takes. Features that only describe a record (`key`, `image/height`) are read if
    `columns` names them; `label` is the dataset's own by default, and there is none if `columns` leaves it out. Rows
    that only fill up a batch come with a third part, weights of 0 and 1. Every iterator reads the next `epochs`.

    `engine="native"` hands over bushel's own batches. `engine="graph"` is made of TensorFlow's ops alone: slower, but
    it can be serialised, and works with tf.data service and without bushel. `skip` starts after that many batches.

    >>> model.fit(dataset("data", "train", batch_size=64, order=bushel.Order(shuffle=True, seed=0)))
    """
    if engine not in ("native", "graph"):
        raise ValueError(f"engine must be one of native, graph; got {engine!r}")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    if skip < 0:
        raise ValueError(f"skip must be at least 0, got {skip}")
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
    request = request_of(open_split(data, split, schema), settings, label)
    if engine == "graph":
        return graph_dataset(request, skip=skip).with_options(_options(request.settings.order))
    passes = _Passes(request, skip, _joined(request))
    made = _native_dataset(request, passes).with_options(_options(request.settings.order))
    return _with_length(made, passes.rest) if passes.begins_inside and passes.rest is not None else made


def _with_length(made: Any, count: int) -> Any:
    """A dataset whose first iterator yields so many batches; TensorFlow would assert that later ones yield as many."""
    tf = load_tensorflow()
    made.cardinality = lambda: tf.constant(count, tf.int64)
    return made


def _options(order: Order) -> Any:
    """How `tf.distribute` shares the batches among workers: not at all if each has its rank, otherwise by number."""
    tf = load_tensorflow()
    options = tf.data.Options()
    policies = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policies.OFF if order.world > 1 else policies.DATA
    return options


def _native_dataset(request: Request, passes: _Passes) -> Any:
    """A dataset whose iterators each have their own feed, with the epochs after those of the one before."""
    tf = load_tensorflow()
    fields, specs = plan(request)
    joined = passes.joined
    flat = {name: flat_specs(spec) for name, spec in specs.items()}
    signature = tuple(tensor for tensors in flat.values() for tensor in tensors)
    if joined > 1:
        signature = tuple(tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype) for tensor in signature)
    weight = (tf.TensorSpec([request.rows], tf.float32),) if request.is_weighted else ()

    def arrays() -> Iterator[tuple[Any, ...]]:
        for batch in passes.next():
            parts = [array for name, spec in specs.items() for array in components(name, batch[name], spec)]
            yield (*parts, row_weights(batch)) if request.is_weighted else tuple(parts)

    def to_structure(*tensors: Any) -> Any:
        left = list(tensors)
        columns = {name: assemble(spec, [left.pop(0) for _ in flat[name]]) for name, spec in specs.items()}
        return fields.arrange(columns, left[0] if left else None)

    def apart(*tensors: Any) -> Any:
        several = tf.data.Dataset.from_tensors(tensors)
        return several.rebatch(request.settings.batch_size, drop_remainder=request.rows is not None)

    dataset = tf.data.Dataset.from_generator(arrays, output_signature=(*signature, *weight))
    if joined > 1:
        dataset = dataset.flat_map(as_graph(apart))
    dataset = dataset.map(as_graph(to_structure))
    if (count := passes.count) is not None:
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(count))
    return dataset.prefetch(_PREFETCHED)


def _joined(request: Request) -> int:
    """How many batches are transferred as one: several if all are plain rows of few bytes."""
    tf = load_tensorflow()
    _, specs = plan(request)
    settings = request.settings
    is_plain = settings.order.world == 1 and settings.on_fault == "raise" and not settings.layout
    is_dense = all(isinstance(spec, tf.TensorSpec) and spec.dtype != tf.string for spec in specs.values())
    if not is_plain or not is_dense or request.is_weighted or any(None in spec.shape[1:] for spec in specs.values()):
        return 1
    row: int = sum(math.prod(spec.shape[1:]) * spec.dtype.size for spec in specs.values())
    return min(_MOST_JOINED, max(1, _JOINED_BYTES // max(1, row * settings.batch_size)))


class _Passes:
    """Which epochs come next. Iterators may be made in any thread, and abandoned early."""

    def __init__(self, request: Request, skip: int, joined: int) -> None:
        self._request = request
        self._read = request.settings
        if joined > 1:  # what is dropped after the last whole batch is dropped when they are taken apart
            size = request.settings.batch_size * joined
            self._read = msgspec.structs.replace(request.settings, batch_size=size, drop_last=False)
        self.joined = joined
        self._skip = skip
        self._lock = threading.Lock()
        self._begun = 0
        feed = Feed(request.split, request.settings)  # refuses what cannot be read at once
        self._steps = len(feed) if skip or not request.is_packed else None

    @property
    def count(self) -> int | None:
        """How many batches every iterator yields; None if unknown, or not the same for all."""
        return None if self.begins_inside else self.rest

    @property
    def rest(self) -> int | None:
        """How many batches the first iterator yields; None if unknown."""
        settings = self._request.settings
        if settings.epochs is None:
            return int(load_tensorflow().data.INFINITE_CARDINALITY)
        if self._steps is None or settings.on_fault == "skip":
            return None
        return self._whole - self._skip % max(1, self._whole)

    @property
    def begins_inside(self) -> bool:
        """Whether the first iterator yields only the rest of its epochs."""
        return self._request.settings.epochs is not None and bool(self._skip % max(1, self._whole))

    @property
    def _whole(self) -> int:
        return (self._steps or 0) * (self._request.settings.epochs or 1)

    def next(self) -> Iterator[Batch]:
        """The batches of the next pass."""
        with self._lock:
            turn, self._begun = self._begun, self._begun + 1
        feed = Feed(self._request.split, self._read)
        epoch, position = self._place(turn)
        began = epoch - epoch % (self._request.settings.epochs or 1)
        feed.restore({**feed.state(), "epoch": epoch, "position": position, "bin": 0, "pass": began})
        try:
            yield from feed
        finally:
            feed.close()

    def _place(self, turn: int) -> tuple[int, int]:
        settings = self._request.settings
        epoch, step = divmod(self._skip, self._steps) if self._skip and self._steps else (0, 0)
        position = step * settings.batch_size * settings.order.world
        if turn == 0:
            return epoch, position
        passed = epoch // settings.epochs if settings.epochs else epoch
        return (passed + turn) * (settings.epochs or 1), 0
