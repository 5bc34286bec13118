"""Keras on any backend: batches as a `keras.utils.PyDataset`, and models loaded from files. Loaded when first used."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import Ragged
from bushel.data.schema import Schema
from bushel.errors import FileProblem, missing_package
from bushel.feeding.adapters import Data, Request, fields_of, open_split, probe, request_of, row_weights
from bushel.feeding.preparation import dense_array
from bushel.parallel import available_cores
from bushel.reading import Order, Workers
from bushel.reading.batch import Group, OnFault, Place, PlannedBatch
from bushel.reading.layout import Layout
from bushel.reading.pipeline import FeedSettings, prepare
from bushel.storage import AnyPath, as_path
from bushel.transforms import BatchTransform, Transform

__all__ = ["as_array", "as_tensors", "dataset", "load_keras", "load_model", "py_dataset", "quietly"]


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
    """Records as a `keras.utils.PyDataset` of NumPy batches, arranged as `bushel.tensorflow.dataset` arranges them.

    Any batch can be made independently, so Keras may request them from several `threads` (default: one per core, at
    least two). Call `fit` with `shuffle=False` to keep the order of `order`; otherwise Keras shuffles the batches.

    >>> model.fit(bushel.keras.dataset("data", "train", batch_size=64, order=bushel.Order(shuffle=True)), shuffle=False)
    """
    if on_fault == "skip":
        raise ValueError("on_fault must be one of raise, replace where Keras counts the batches; got 'skip'")
    settings = FeedSettings(
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


dataset = py_dataset


def _dense(name: str, column: Any) -> Any:
    values = column.values if isinstance(column, Ragged) else column
    if isinstance(values, Ragged) or getattr(values, "ndim", 1) > 1:
        help = (
            f"If these are images, give them one size: transforms=[decode_image({name!r}), resize({name!r}, 224, 224)]"
        )
    else:
        help = f"Give it one length: layout=[Pad({name!r})]; or leave it out: columns=[...]"
    return dense_array(name, column, [help])


def _make(request: Request, threads: int) -> Any:
    keras = load_keras("bushel.keras.dataset")
    maker, plan = prepare(request.split, request.settings)
    first = probe(request)
    fields = fields_of(request, first)
    for name in first:
        _dense(name, first[name])

    class Batches(keras.utils.PyDataset):  # type: ignore[misc, name-defined]
        """Batches by number, of the current `epoch`, which advances at the end of each epoch that was begun."""

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
            made = maker(Group(self.epoch, [PlannedBatch(step.positions, step.real, Place())]))
            if made.error is not None:
                raise made.error
            batch = made.batches[0][0]
            arrays = {name: _dense(name, column) for name, column in batch.items()}
            arranged = fields.arrange(arrays, row_weights(batch))
            return arranged if isinstance(arranged, tuple) else (arranged,)

        def on_epoch_begin(self) -> None:
            self._is_begun = True

        def on_epoch_end(self) -> None:  # Keras calls it once before the first epoch, too
            self.epoch += self._is_begun
            self._is_begun = False

    return Batches()


def load_keras(purpose: str = "bushel train") -> Any:
    """The module `keras`."""
    if "keras" in sys.modules:
        return sys.modules["keras"]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with quietly():
        try:
            import keras
        except ImportError:
            raise missing_package("Keras", extra="tensorflow", purpose=purpose) from None
    return keras


def load_model(path: AnyPath, *, purpose: str, compile: bool = False) -> Any:
    """A saved model, ready to be called."""
    path = as_path(path)
    if not path.exists():
        raise FileProblem(path, "there is no such model")
    keras = load_keras(purpose)
    try:
        _refuse_code(path)
        return keras.saving.load_model(path, compile=compile, safe_mode=True)
    except FileProblem:
        raise
    except Exception as error:  # whatever the backend says of sizes that no machine holds
        raise FileProblem(path, f"Keras cannot load this model: {str(error).splitlines()[0]}") from None


def _refuse_code(path: Path) -> None:
    """Refuse an HDF5 file that holds a function as code: Keras before 3.11.3 runs it, in its safe mode too."""
    import h5py

    if not path.is_file() or not h5py.is_hdf5(path):
        return
    with h5py.File(path, "r") as file:
        if '"Lambda"' in str(file.attrs.get("model_config", "")):
            raise ValueError("it holds a Lambda layer, whose Python code would run")


def as_tensors(inputs: Any) -> Any:
    """Inputs for a Keras model: if one is text, all are TensorFlow tensors, because only TensorFlow has text."""
    parts = inputs.values() if isinstance(inputs, dict) else [inputs]
    if not any(isinstance(part, np.ndarray) and part.dtype == object for part in parts):
        return inputs
    import tensorflow as tf

    if isinstance(inputs, dict):
        return {name: tf.convert_to_tensor(part) for name, part in inputs.items()}
    return tf.convert_to_tensor(inputs)


def as_array(outputs: Any) -> NDArray[Any]:
    """What a Keras model returned, as an array. A tensor of torch that records gradients does not convert by itself."""
    return np.asarray(load_keras().ops.convert_to_numpy(outputs))


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Keep C++ output off the terminal: TensorFlow prints notes about the CPU before it reads any setting.

    Errors are still raised as exceptions.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
