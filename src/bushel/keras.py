"""NumPy batches as a `keras.utils.PyDataset`: for Keras on any backend, without TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bushel.data.columns import BytesColumn
from bushel.data.schema import Schema
from bushel.errors import SchemaMismatch, missing_package
from bushel.feeding.request import Data, Request, fields_of, open_split, probe, request_of
from bushel.parallel.threads import available_cores
from bushel.reading import Order, Workers
from bushel.reading.batch import OnFault, Part, Place, Task
from bushel.reading.layout import Layout
from bushel.reading.prepare import Settings, prepare
from bushel.transforms import BatchTransform, Transform

__all__ = ["py_dataset"]


def py_dataset(
    data: Data,
    split: str | None = None,
    *,
    batch_size: int,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    order: Order | None = None,
    transforms: Sequence[Transform | BatchTransform] = (),
    layout: Sequence[Layout] = (),
    drop_last: bool = False,
    on_fault: OnFault = "raise",
    threads: int | None = None,
    schema: Schema | None = None,
) -> Any:
    """Records as a `keras.utils.PyDataset` of NumPy batches, arranged as `dataset` arranges them.

    Any batch of any epoch is made on its own, so Keras asks for them in as many `threads` as it likes (default: one a
    core, at least two). The order is that of `order` if `fit` is told `shuffle=False`; else Keras shuffles the batches.

    >>> model.fit(py_dataset("data", "train", batch_size=64, order=bushel.Order(shuffle=True)), shuffle=False)
    """
    if on_fault == "skip":
        raise ValueError("on_fault must be one of raise, replace where Keras counts the batches; got 'skip'")
    settings = Settings(
        batch_size=batch_size,
        columns=columns,
        order=order or Order(),
        transforms=tuple(transforms),
        epochs=1,
        layout=tuple(layout),
        drop_last=drop_last,
        on_fault=on_fault,
        workers=Workers(threads=threads),
    )
    request = request_of(open_split(data, split, schema), settings, label)
    if request.is_packed:
        raise ValueError("layout must hold no Pack where Keras counts the batches, got one")
    return _make(request, threads or max(2, available_cores()))


def _make(request: Request, threads: int) -> Any:
    try:
        import keras
    except ImportError:
        raise missing_package("Keras", extra="tensorflow", purpose="bushel.tensorflow.py_dataset") from None
    maker, plan = prepare(request.split, request.settings)
    first = probe(request)
    fields = fields_of(request, first)
    for name in first:
        _to_array(name, first[name])

    class Batches(keras.utils.PyDataset):  # type: ignore[misc]
        """Batches by number; `epoch` says of which epoch, and goes up at the end of each that was begun."""

        def __init__(self) -> None:
            super().__init__(workers=threads)
            self.epoch = 0
            self._is_begun = False

        def __len__(self) -> int:
            return plan.steps.count()

        def __getitem__(self, number: int) -> Any:
            step = plan.steps.at(number * plan.steps.batch_size * plan.steps.order.world)
            if step is None:
                raise IndexError(f"batch must be below {len(self)}, got {number}")
            made = maker(Task(self.epoch, [Part(step.positions, step.real, Place())]))
            if made.error is not None:
                raise made.error
            batch = made.batches[0][0]
            weight = np.ones(len(batch.rows), np.float32) if batch.real is None else batch.real.astype(np.float32)
            arrays = {name: _to_array(name, column) for name, column in batch.items()}
            arranged = fields.arrange(arrays, weight)
            return arranged if isinstance(arranged, tuple) else (arranged,)

        def on_epoch_begin(self) -> None:
            self._is_begun = True

        def on_epoch_end(self) -> None:  # Keras calls it once before the first epoch, too
            self.epoch += self._is_begun
            self._is_begun = False

    return Batches()


def _to_array(name: str, column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return column
    if isinstance(column, BytesColumn):
        return column.to_numpy()
    raise SchemaMismatch(
        f"Keras takes arrays, and this is {type(column).__name__.removesuffix('Column').lower()}",
        at=name,
        help=[f"Give it one length: layout=[Pad({name!r})]; or leave it out: columns=[...]"],
    )
