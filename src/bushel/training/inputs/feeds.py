"""Batches of a split, and some of its rows, as a model is fed them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.feeding.preparation import Problem, encode_labels, inputs_of
from bushel.reading import Feed, Order, Split, Workers, batches
from bushel.training.options import Options

__all__ = ["evenly_spread", "feature_rows", "feed_of", "rows_of"]

Array = NDArray[Any]


def feed_of(
    split: Split, problem: Problem, options: Options, *, augmentation: tuple[Any, ...] = (), training: bool = False
) -> Feed:
    """Batches of a split: shuffled, augmented and without end for training, else in order and once."""
    preparation = problem.preparation
    order = Order(shuffle=options.shuffle and training, seed=options.seed, buffer=options.shuffle_buffer)
    return batches(
        split,
        batch_size=options.batch_size,
        columns=list(dict.fromkeys([*preparation.features, problem.target.label])),
        order=order,
        transforms=[*preparation.transforms, *augmentation, *preparation.scaling],
        layout=preparation.layout,
        epochs=None if training else 1,
        drop_last=training and options.strategy is not None,  # devices take equal shares
        on_fault=options.on_fault,
        workers=Workers(threads=options.threads),
    )


def evenly_spread(split: Split, most: int) -> Split:
    """At most `most` records, evenly spread over a split; of compressed shards, all."""
    if split.is_sequential or len(split) <= most:
        return split
    return split.select(np.unique(np.linspace(0, len(split) - 1, most).astype(np.int64)))


def rows_of(split: Split, problem: Problem, options: Options, *, most: int) -> tuple[dict[str, Array], Array]:
    """At most `most` rows from all over a split, as the model is fed them: each input as an array, and labels."""
    parts = list(_some(split, problem, options, most, ()))
    arrays = {name: np.concatenate([x[name] for x, _ in parts])[:most] for name in problem.preparation.names}
    return arrays, np.concatenate([labels for _, labels in parts])[:most]


def feature_rows(
    split: Split,
    problem: Problem,
    options: Options,
    make: Callable[[dict[str, Array]], Array],
    *,
    most: int,
    augmentation: tuple[Any, ...] = (),
) -> tuple[Array, Array]:
    """The same as rows of numbers, made batch by batch: of large images not all need to be kept."""
    parts = [(make(x), labels) for x, labels in _some(split, problem, options, most, augmentation)]
    return np.concatenate([x for x, _ in parts])[:most], np.concatenate([labels for _, labels in parts])[:most]


def _some(
    split: Split, problem: Problem, options: Options, most: int, augmentation: tuple[Any, ...]
) -> Iterator[tuple[dict[str, Array], Array]]:
    taken = 0
    with closing(feed_of(evenly_spread(split, most), problem, options, augmentation=augmentation)) as feed:
        for batch in feed:
            yield inputs_of(problem.preparation, batch), encode_labels(problem.target, batch[problem.target.label])
            taken += len(batch.rows)
            if taken >= most:
                return
