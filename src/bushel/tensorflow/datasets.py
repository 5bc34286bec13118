"""`dataset`: the records of a split as a `tf.data.Dataset` that a model can be fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from bushel.data.schema import Schema
from bushel.feeding.request import Data, open_split, request_of
from bushel.reading import Order, Workers
from bushel.reading.batch import OnFault
from bushel.reading.layout import Layout
from bushel.reading.pipeline import Settings
from bushel.tensorflow.graph import graph_dataset
from bushel.tensorflow.native import native_dataset
from bushel.tensorflow.specs import load
from bushel.transforms import BatchTransform, Transform

__all__ = ["dataset"]

Engine = Literal["native", "graph"]


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
    """Records as a `tf.data.Dataset` of `(feature, label)`, or of `(dict of features, label)` where there are several.

    Takes what `bushel.batches` takes. Features that only describe a record (`key`, `image/height`) are read if
    `columns` names them; `label` is the dataset's own by default, and there is none if `columns` leaves it out. Rows
    that only fill up a batch come with a third part, weights of 0 and 1. Every iterator reads the next `epochs`.

    `engine="native"` hands over bushel's own batches. `engine="graph"` is made of TensorFlow's ops alone: slower, but
    it can be serialised, and works with tf.data service and without bushel. `skip` goes on behind so many batches.

    >>> model.fit(dataset("data", "train", batch_size=64, order=bushel.Order(shuffle=True, seed=0)))
    """
    if engine not in ("native", "graph"):
        raise ValueError(f"engine must be one of native, graph; got {engine!r}")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    if skip < 0:
        raise ValueError(f"skip must be at least 0, got {skip}")
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
    request = request_of(open_split(data, split, schema), settings, label)
    made = native_dataset(request, skip=skip) if engine == "native" else graph_dataset(request, skip=skip)
    return made.with_options(_options(request.settings.order))


def _options(order: Order) -> Any:
    """How `tf.distribute` shares the batches among workers: not at all if each was told its rank, else by number."""
    tf = load()
    options = tf.data.Options()
    policies = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policies.OFF if order.world > 1 else policies.DATA
    return options
