"""`dataset`: the records of a split as a `tf.data.Dataset` that a model can be fitted to."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal

import msgspec
import numpy as np

from bushel.data.schema import Schema
from bushel.errors import BushelError, MissingName, SchemaMismatch
from bushel.feeding.adapters import Data, Request, open_split, request_of, row_weights, run_identity
from bushel.reading import Batch, Bucket, Dense, Feed, Order, Pack, Pad, Sparse, Workers
from bushel.reading.batch import OnFault
from bushel.reading.layout import Layout
from bushel.reading.order import BufferedShuffle
from bushel.reading.pipeline import FeedSettings, Steps
from bushel.records.files import open_file
from bushel.storage import on_disk
from bushel.tensorflow.operations import is_by_row, is_random, transform_batch, transform_row
from bushel.tensorflow.tensors import as_graph, assemble, components, flat_specs, load_tensorflow, parse_fn, plan
from bushel.transforms import BatchTransform, Transform

__all__ = ["dataset", "graph_dataset", "lay_out"]


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
    made.run = passes  # which `bushel.keras.keep_place` moves
    _refuse_checkpoints(made)
    return _with_length(made, passes.rest) if passes.begins_inside and passes.rest is not None else made


def _refuse_checkpoints(made: Any) -> None:
    """Let `tf.train.Checkpoint` of an iterator say what to use; TensorFlow says only that a PyFunc is stateful."""

    def refuse(*_: Any) -> Any:
        raise BushelError(
            'an iterator of engine="native" cannot be saved: save the number of batches, and start with '
            'dataset(..., skip=NUMBER); with Keras, use bushel.keras.keep_place; or use engine="graph"'
        )

    class Native(type(made)):  # type: ignore[misc]
        def __iter__(self) -> Any:
            iterator = super().__iter__()
            iterator._serialize_to_tensors = refuse
            return iterator

    made.__class__ = Native


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
        self._moved: tuple[int, int] | None = None  # a number of batches, and the pass that begins after them

    @property
    def steps(self) -> int | None:
        """How many batches an epoch has; None if unknown."""
        return self._steps

    @property
    def identity(self) -> dict[str, int]:
        """What must stay the same for a number of batches to mean the same place."""
        return run_identity(self._request)

    def move(self, batches: int) -> None:
        """Begin the next pass after so many batches of the run. Every pass has as many batches as before."""
        with self._lock:
            self._moved = batches, self._begun

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
        if self._moved is not None and self._steps:
            batches, first = self._moved
            yield from self._after(batches + (turn - first) * self._whole)
            return
        epoch, position = self._place(turn)
        yield from self._from(self._read, epoch, position, epoch - epoch % (self._request.settings.epochs or 1))

    def _after(self, batches: int) -> Iterator[Batch]:
        """A whole pass that begins after so many batches, inside an epoch or not."""
        settings = self._request.settings
        epoch, step = divmod(batches, self._steps or 1)
        yield from self._from(self._read, epoch, self._position(step), epoch)
        if step and settings.epochs is not None:
            after = epoch + settings.epochs
            yield from islice(self._from(settings, after, 0, after), step)

    def _from(self, settings: FeedSettings, epoch: int, position: int, began: int) -> Iterator[Batch]:
        feed = Feed(self._request.split, settings)
        feed.restore({**feed.state(), "epoch": epoch, "position": position, "bin": 0, "pass": began})
        try:
            yield from feed
        finally:
            feed.close()

    def _position(self, step: int) -> int:
        return step * self._request.settings.batch_size * self._request.settings.order.world

    def _place(self, turn: int) -> tuple[int, int]:
        settings = self._request.settings
        epoch, step = divmod(self._skip, self._steps) if self._skip and self._steps else (0, 0)
        if turn == 0:
            return epoch, self._position(step)
        passed = epoch // settings.epochs if settings.epochs else epoch
        return (passed + turn) * (settings.epochs or 1), 0


_READ_AT_ONCE = 64  # raw records that travel together from a file: one at a time costs ten times as much
_FILES_AT_ONCE = 16


def graph_dataset(request: Request, *, skip: int) -> Any:
    """Read raw records, shuffle them while they are small, batch them, and only then parse, decode and transform."""
    _refuse_what_only_the_native_engine_can(request, skip)
    tf = load_tensorflow()
    fields, specs = plan(request)
    settings = request.settings
    steps = Steps(len(request.split), settings.batch_size, settings.order, settings.drop_last)
    is_dense = all(isinstance(spec, tf.TensorSpec) for spec in specs.values()) and not settings.layout
    make = _by_row if is_dense and is_by_row(settings.transforms) else _by_batch

    def to_structure(columns: Any, weight: Any) -> Any:
        return fields.arrange({name: _as_promised(columns[name], spec) for name, spec in specs.items()}, weight)

    count = tf.data.INFINITE_CARDINALITY if settings.epochs is None else steps.count() * settings.epochs
    batches = make(request, steps, specs).map(as_graph(to_structure), tf.data.AUTOTUNE, deterministic=True)
    return batches.apply(tf.data.experimental.assert_cardinality(count)).prefetch(tf.data.AUTOTUNE)


def _by_batch(request: Request, steps: Steps, specs: dict[str, Any]) -> Any:
    """Batches of columns and the weights of their rows, transformed batch by batch."""
    tf = load_tensorflow()
    settings, schema = request.settings, request.split.schema
    parse, take_share = parse_fn(schema, request.columns), _share(steps)
    transform = transform_batch(settings.transforms, schema, specs)

    def to_columns(records: Any, seed: Any = (0, 0)) -> Any:
        records, weight = take_share(records)
        return lay_out(settings.layout, transform(parse(records), seed)), weight

    groups = _with_seeds(_groups(request, steps).repeat(settings.epochs), settings)
    return groups.map(as_graph(to_columns), tf.data.AUTOTUNE, deterministic=True)


def _by_row(request: Request, steps: Steps, _: dict[str, Any]) -> Any:
    """The same, parsed batch by batch and transformed row by row, which keeps all cores busy with images."""
    tf = load_tensorflow()
    settings, schema = request.settings, request.split.schema
    parse, take_share = parse_fn(schema, request.columns), _share(steps)
    transform = transform_row(settings.transforms, schema)

    def to_columns(records: Any) -> Any:
        records, weight = take_share(records)
        return parse(records), weight

    def change(row: Any, weight: Any) -> Any:
        return transform(row, (0, 0)), weight

    def change_at_random(pair: Any, seed: Any) -> Any:
        return transform(pair[0], seed), pair[1]

    rows = _groups(request, steps).map(as_graph(to_columns), tf.data.AUTOTUNE, deterministic=True).unbatch()
    is_drawn = is_random(settings.transforms)
    rows = _with_seeds(rows, settings)
    rows = rows.map(as_graph(change_at_random if is_drawn else change), tf.data.AUTOTUNE, deterministic=True)
    return rows.batch(settings.batch_size).repeat(settings.epochs)


def _with_seeds(drawn_for: Any, settings: FeedSettings) -> Any:
    tf = load_tensorflow()
    if not is_random(settings.transforms):
        return drawn_for
    seeds = tf.data.Dataset.random(settings.order.seed, rerandomize_each_iteration=True).batch(2)
    return tf.data.Dataset.zip(drawn_for, seeds)


def _refuse_what_only_the_native_engine_can(request: Request, skip: int) -> None:
    settings, order = request.settings, request.settings.order
    unable = {
        "skip": skip > 0,
        "on_fault": settings.on_fault != "raise",
        "workers": settings.workers != type(settings.workers)(),
        "order.weights": order.weights is not None,
        "order.balance": order.balance is not None,
        "order.block": order.block is not None,
        "a layout that packs": any(isinstance(step, Pack) for step in settings.layout),
        "a mixture of splits": bool(request.split.parts),
        "joined features": bool(request.split.joins),
        "a selection of records": request.split.rows is not None and not request.split.parts,
    }
    for what, is_asked in unable.items():
        if is_asked:
            raise ValueError(f'engine must be "native" for {what}: TensorFlow\'s own ops cannot do it')


def _groups(request: Request, steps: Steps) -> Any:
    """Raw records in the groups that all ranks together take in one step; the last may be smaller, or left out."""
    settings, order = request.settings, request.settings.order
    size = settings.batch_size * order.world
    bucket = next((step for step in settings.layout if isinstance(step, Bucket)), None)
    first = size if bucket is None else bucket.window * settings.batch_size
    drops_last = steps.count() == steps.size // size
    is_final = drops_last and bucket is None
    if order.shuffle:
        records = _shuffled(request, steps).batch(first, drop_remainder=is_final)
    else:
        records = _blocks(request).rebatch(first, drop_remainder=is_final)
    if bucket is None:
        return records
    return _bucket_records(records, bucket, request.split.schema, settings).rebatch(size, drop_remainder=drops_last)


def _shuffled(request: Request, steps: Steps) -> Any:
    """Raw records one by one, shuffled as well as a buffer allows."""
    order, paths = request.settings.order, request.split.paths
    buffer = min(order.buffer, steps.size)
    if buffer < steps.size:
        warnings.warn(
            f'{paths[0]}: engine="graph" shuffles by shard, and in a buffer of {buffer} records',
            BufferedShuffle,
            stacklevel=6,
        )
    # Blocks make reading several files at once cheap; from a single file, single records are cheaper.
    records = _blocks(request).unbatch() if len(paths) > 1 else _files(request).flat_map(as_graph(_read))
    return records.shuffle(buffer, order.seed, reshuffle_each_iteration=True)


def _blocks(request: Request) -> Any:
    """Raw records a few at a time: file after file, or from several shuffled files in turns."""
    tf = load_tensorflow()
    files, order, count = _files(request), request.settings.order, len(request.split.paths)

    def read(path: Any, kind: Any) -> Any:
        return _read(path, kind).batch(_READ_AT_ONCE)

    if not order.shuffle:
        return files.flat_map(as_graph(read))
    return files.shuffle(count, order.seed, reshuffle_each_iteration=True).interleave(
        as_graph(read),
        cycle_length=min(count, _FILES_AT_ONCE),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def _files(request: Request) -> Any:
    """Where the records are, and how each file is compressed."""
    paths = request.split.paths
    stored = f'{paths[0]}: engine="graph" reads files of this machine; engine="native" reads stores too'
    names = [str(on_disk(path, otherwise=stored).absolute()) for path in paths]
    kinds = [(open_file(path).compression or "").upper() for path in paths]
    return load_tensorflow().data.Dataset.from_tensor_slices((names, kinds))


def _read(path: Any, kind: Any) -> Any:
    return load_tensorflow().data.TFRecordDataset(path, kind)


def _share(steps: Steps) -> Callable[[Any], tuple[Any, Any]]:
    """The part of a group for one rank, as in `Steps`, and the weight of each of its rows."""
    tf = load_tensorflow()
    order, size = steps.order, steps.batch_size
    rest = steps.size % (size * order.world)
    last = steps.at(steps.size - rest) if rest else None
    share = 0 if last is None else len(last.positions)
    if order.uneven == "wrap" and share * order.world > rest:
        raise ValueError('engine must be "native" for uneven="wrap": TensorFlow\'s own ops cannot go back in the data')

    def take(records: Any) -> tuple[Any, Any]:
        if not rest or last is None:
            own = tf.ensure_shape(records[order.rank * size : (order.rank + 1) * size], [size])
            return own, tf.ones([size])
        here = tf.shape(records)[0]
        count = tf.where(here == size * order.world, size, share)
        places = order.rank * count + tf.range(count)
        own = tf.gather(records, tf.minimum(places, here - 1))
        if steps.drop_last:
            own = tf.ensure_shape(own, [size])
        return own, tf.cast(places < here, tf.float32)

    return take


def _as_promised(value: Any, spec: Any) -> Any:
    """A column with the type and static shape of the dataset; other values are an error when they come."""
    tf = load_tensorflow()
    if isinstance(spec, tf.TensorSpec):
        value = value.to_tensor() if isinstance(value, tf.RaggedTensor) else value
        return tf.ensure_shape(tf.cast(value, spec.dtype) if spec.dtype != tf.string else value, spec.shape)
    if isinstance(spec, tf.SparseTensorSpec):
        shape = tf.stack([value.dense_shape[0], spec.shape[1]])
        return tf.SparseTensor(value.indices, value.values, shape)
    if not isinstance(value, tf.RaggedTensor):
        raise SchemaMismatch("the graph made a dense tensor of what must be ragged", at=str(spec))
    return value


def lay_out(layout: tuple[Layout, ...], columns: dict[str, Any]) -> dict[str, Any]:
    """The columns of a batch after every step of a layout."""
    for step in layout:
        if isinstance(step, Pad):
            columns = _pad(step, columns)
        elif isinstance(step, Sparse):
            columns = _join(step, columns)
        elif isinstance(step, Dense):
            columns = {**columns, step.feature: load_tensorflow().sparse.to_dense(columns[step.feature])}
    return columns


def _pad(step: Pad, columns: dict[str, Any]) -> dict[str, Any]:
    tf = load_tensorflow()
    rows = columns[step.feature]
    if not isinstance(rows, tf.RaggedTensor):
        rows = tf.RaggedTensor.from_tensor(rows, row_splits_dtype=tf.int64)
    lengths = rows.row_lengths()
    longest = tf.reduce_max(tf.concat([lengths, [np.int64(0)]], 0))
    length = np.int64(step.length) if step.length else -(-longest // step.multiple) * step.multiple
    fill = tf.constant(step.fill, rows.dtype)
    inner = [None] * (rows.shape.rank - 2)
    padded = rows.to_tensor(fill, shape=[None, step.length, *inner])
    if step.length is None:
        missing = length - tf.shape(padded, tf.int64)[1]
        around = [[0, 0], [0, missing], *[[0, 0]] * len(inner)]
        padded = tf.pad(padded, around, constant_values=fill)
    out = {**columns, step.feature: padded}
    if step.mask:
        out[f"{step.feature}/mask"] = tf.sequence_mask(lengths, length)
    return out


def _join(step: Sparse, columns: dict[str, Any]) -> dict[str, Any]:
    tf = load_tensorflow()
    names = (f"{step.feature}/indices", f"{step.feature}/values")
    places, values = (columns[name] for name in names)
    message = f"{step.feature}: a record must have as many indices as values, all of them below {step.size}"
    checks = [
        tf.debugging.assert_equal(places.row_splits, values.row_splits, message),
        tf.debugging.assert_less(places.values, np.int64(step.size), message),
        tf.debugging.assert_non_negative(places.values, message),
    ]
    with tf.control_dependencies(checks):
        indices = tf.stack([places.value_rowids(), places.values], axis=1)
    joined = tf.sparse.reorder(tf.SparseTensor(indices, values.values, tf.stack([places.nrows(), step.size])))
    return {**{name: value for name, value in columns.items() if name not in names}, step.feature: joined}


def _bucket_records(windows: Any, step: Bucket, schema: Schema, settings: FeedSettings) -> Any:
    """Windows of raw records, each sorted by length, cut into batches, and the batches shuffled."""
    tf = load_tensorflow()
    if step.feature not in schema:
        raise MissingName("feature", step.feature, schema, where="layout")
    parse = parse_fn(schema, [step.feature])
    size = settings.batch_size

    def arrange(records: Any, seed: Any) -> Any:
        rows = parse(records)[step.feature]
        if isinstance(rows, tf.RaggedTensor):
            records = tf.gather(records, tf.argsort(rows.row_lengths(), stable=True))
        whole = tf.shape(records)[0] // size
        runs = tf.random.experimental.stateless_shuffle(tf.reshape(records[: whole * size], [whole, size]), seed)
        return tf.concat([tf.reshape(runs, [-1]), records[whole * size :]], 0)

    seeds = tf.data.Dataset.random(settings.order.seed, rerandomize_each_iteration=True).batch(2)
    return tf.data.Dataset.zip(windows, seeds).map(as_graph(arrange), tf.data.AUTOTUNE, deterministic=True)
