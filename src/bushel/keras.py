"""Keras on any backend: batches as a `keras.utils.PyDataset`, and models loaded from files. Loaded when first used."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Ragged
from bushel.data.schema import IMAGE_ENCODINGS, Schema
from bushel.errors import FileProblem, SchemaMismatch, missing_package
from bushel.feeding.adapters import Data, Request, fields_of, open_split, probe, request_of, row_weights, run_identity
from bushel.feeding.preparation import dense_array
from bushel.parallel import available_cores
from bushel.reading import Order, Workers
from bushel.reading.batch import Group, OnFault, Place, PlannedBatch
from bushel.reading.layout import Layout
from bushel.reading.pipeline import FeedSettings, prepare
from bushel.storage import AnyPath, as_path, read_named, write_whole
from bushel.transforms import BatchTransform, Transform

__all__ = ["as_array", "as_tensors", "dataset", "keep_place", "load_keras", "load_model", "py_dataset", "quietly"]


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


def _dense(name: str, column: Any, schema: Schema) -> Any:
    values = column.values if isinstance(column, Ragged) else column
    feature = schema.features.get(name)
    if feature is not None and feature.encoding in IMAGE_ENCODINGS and isinstance(values, BytesColumn):
        raise SchemaMismatch(
            "an undecoded image cannot be fed to a model",
            at=name,
            help=[f"Decode it first: transforms=[decode_image({name!r})]"],
        )
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
        _dense(name, first[name], request.split.schema)

    class Batches(keras.utils.PyDataset):  # type: ignore[misc, name-defined]
        """Batches by number, of the current `epoch`, which advances at the end of each epoch that was begun."""

        def __init__(self) -> None:
            super().__init__(workers=threads)
            self.epoch = 0
            self.run = self  # which `keep_place` moves
            self.identity = run_identity(request)
            self._first = 0  # the batch of the epoch that is number 0 here
            self._is_begun = False

        def __len__(self) -> int:
            return plan.steps.count()

        @property
        def steps(self) -> int:
            return len(self)

        def move(self, batches: int) -> None:
            self.epoch, self._first = divmod(batches, len(self))
            self._is_begun = False

        def __getitem__(self, number: int) -> Any:
            if not 0 <= number < len(self):
                raise IndexError(f"batch must be below {len(self)}, got {number}")
            later, number = divmod(self._first + number, len(self))
            step = plan.steps.at(number * plan.steps.batch_size * plan.steps.order.world)
            assert step is not None
            made = maker(Group(self.epoch + later, [PlannedBatch(step.positions, step.real, Place())]))
            if made.error is not None:
                raise made.error
            batch = made.batches[0][0]
            arrays = {name: _dense(name, column, request.split.schema) for name, column in batch.items()}
            arranged = fields.arrange(arrays, row_weights(batch))
            return arranged if isinstance(arranged, tuple) else (arranged,)

        def on_epoch_begin(self) -> None:
            self._is_begun = True

        def on_epoch_end(self) -> None:  # Keras calls it once before the first epoch, too
            self.epoch += self._is_begun
            self._is_begun = False

    return Batches()


class _Anchor(msgspec.Struct, frozen=True):
    """How many batches a run had read when its optimiser had taken so many steps."""

    batches: int
    optimiser_steps: int
    run: dict[str, int]


def keep_place(data: Any, path: AnyPath) -> Any:
    """A callback for `fit` that goes on in the data where the model's checkpoint was saved, to the batch.

    `data` is what `bushel.tensorflow.dataset` or `bushel.keras.dataset` returned. The place is the number of steps that
    the optimiser has taken, which every checkpoint of Keras holds; the small file at `path` says where they began. With
    a checkpoint of weights alone, the place is the beginning of the epoch that Keras begins with.

    >>> backup = keras.callbacks.BackupAndRestore("backup", save_freq=100)
    >>> model.fit(train, epochs=9, callbacks=[backup, bushel.keras.keep_place(train, "backup/place.json")])
    """
    keras = load_keras("bushel.keras.keep_place")
    run: Any = getattr(data, "run", None)
    if run is None or not hasattr(run, "move"):
        raise ValueError(
            'data must be what bushel.tensorflow.dataset (with engine="native") or bushel.keras.dataset returned, '
            f"got {type(data).__name__}"
        )
    if run.steps is None:
        raise ValueError("data must have no layout that packs where places are kept: its batches cannot be counted")
    place = as_path(path)

    class KeepPlace(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        """Moves the data before the first epoch of each `fit`, when all other callbacks have restored the model."""

        def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002
            self._is_moved = False

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
            if not self._is_moved:
                run.move(_find_place(place, run, epoch, _steps_taken(self.model.optimizer)))
            self._is_moved = True

    return KeepPlace()


def _steps_taken(optimiser: Any) -> int:
    if optimiser is None:
        return 0
    return int(as_array(optimiser.iterations)) * (getattr(optimiser, "gradient_accumulation_steps", None) or 1)


def _find_place(path: Path, run: Any, epoch: int, taken: int) -> int:
    """How many batches of a run were read before; a new run begins with the epoch that Keras begins with."""
    anchor = _read_anchor(path)
    if anchor is not None and taken >= anchor.optimiser_steps:
        for name, value in run.identity.items():
            if anchor.run.get(name) != value:
                what = f"the place is of a run with {name} {anchor.run.get(name)}, and this one has {value}"
                raise FileProblem(path, what, help=["For a new run, delete the file."])
        found = anchor.batches + taken - anchor.optimiser_steps
        if taken > anchor.optimiser_steps or found >= epoch * run.steps:
            return found
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path) as file:
        file.write(msgspec.json.encode(_Anchor(epoch * run.steps, taken, run.identity)))
    return int(epoch * run.steps)


def _read_anchor(path: Path) -> _Anchor | None:
    try:
        return msgspec.json.decode(read_named(path), type=_Anchor)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise FileProblem(path, f"this is no place in the data: {error}", help=["For a new run, delete it."]) from None


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
