"""bushel's own batches handed over to `tf.data`: aligned memory that TensorFlow takes without a copy."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from bushel.feeding.request import Request
from bushel.reading import Batch, Feed
from bushel.tensorflow.specs import as_graph, assemble, components, flat_specs, load, plan

__all__ = ["native_dataset"]

_PREFETCHED = 2  # the feed itself reads ahead; this hides the handing over
_JOINED_BYTES = 2 << 20  # handing over costs a third of a millisecond whatever the size, so small batches go together
_MOST_JOINED = 16


def native_dataset(request: Request, *, skip: int) -> Any:
    """A dataset that every iterator reads by a feed of its own, each the epochs behind those of the one before."""
    tf = load()
    fields, specs = plan(request)
    joined = _joined(request, specs)
    passes = _Passes(request, skip, joined)
    flat = {name: flat_specs(spec) for name, spec in specs.items()}
    signature = tuple(tensor for tensors in flat.values() for tensor in tensors)
    if joined > 1:
        signature = tuple(tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype) for tensor in signature)
    weight = (tf.TensorSpec([request.rows], tf.float32),) if request.is_weighted else ()

    def arrays() -> Iterator[tuple[Any, ...]]:
        for batch in passes.next():
            parts = [array for name, spec in specs.items() for array in components(name, batch[name], spec)]
            yield (*parts, _weights(batch)) if request.is_weighted else tuple(parts)

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


def _joined(request: Request, specs: dict[str, Any]) -> int:
    """How many batches are handed over as one: several where all are plain rows of few bytes."""
    tf = load()
    settings = request.settings
    is_plain = settings.order.world == 1 and settings.on_fault == "raise" and not settings.layout
    is_dense = all(isinstance(spec, tf.TensorSpec) and spec.dtype != tf.string for spec in specs.values())
    if not is_plain or not is_dense or request.is_weighted or any(None in spec.shape[1:] for spec in specs.values()):
        return 1
    row: int = sum(math.prod(spec.shape[1:]) * spec.dtype.size for spec in specs.values())
    return min(_MOST_JOINED, max(1, _JOINED_BYTES // max(1, row * settings.batch_size)))


def _weights(batch: Batch) -> Any:
    return np.ones(len(batch.rows), np.float32) if batch.real is None else batch.real.astype(np.float32)


class _Passes:
    """Which epochs come next. Iterators may be made in any thread, and be left before their end."""

    def __init__(self, request: Request, skip: int, joined: int) -> None:
        self._request = request
        self._read = request.settings
        if joined > 1:  # what is dropped behind the last whole batch is dropped when they are taken apart
            size = request.settings.batch_size * joined
            self._read = msgspec.structs.replace(request.settings, batch_size=size, drop_last=False)
        self._skip = skip
        self._lock = threading.Lock()
        self._begun = 0
        feed = Feed(request.split, request.settings)  # refuses at once what cannot be read
        self._steps = len(feed) if skip or not request.is_packed else None

    @property
    def count(self) -> int | None:
        """How many batches an iterator gives; None if that cannot be known, or is not the same for all."""
        settings = self._request.settings
        if settings.epochs is None:
            return int(load().data.INFINITE_CARDINALITY)
        if self._steps is None or settings.on_fault == "skip" or self._skip % max(1, self._steps * settings.epochs):
            return None
        return self._steps * settings.epochs

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
