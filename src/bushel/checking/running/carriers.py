"""What `fit` can be given: arrays, frames, datasets, `PyDataset`s and generators, each as a dataset to look at."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.checking.program.account import (
    MOST_VALUES,
    Carrier,
    CodePlace,
    DeliveredColumn,
    DeliveredData,
    DeliveredPart,
)
from bushel.checking.running import links
from bushel.checking.running.batches import Look, flat, inputs_and_labels, look_at
from bushel.checking.running.user_code import is_user_file, seen, user_place

MOST_BATCHES = 64  # of a carrier that is not a dataset
DRAWN = 12  # batches of a generator: they are given back to `fit`
MOST_COLUMNS = 512


@dataclass
class Carried:
    """Something that `fit` is given, with what was seen of it."""

    look: Look
    carrier: Carrier
    fewer: dict[str, Any] = field(default_factory=dict)  # arguments that let a call of Keras take a few batches


def carry(x: Any, y: Any, batch_size: Any, role: str) -> Carried | None:
    """Look at whatever a call of Keras is given; None where that is not possible."""
    import tensorflow as tf

    if isinstance(x, tf.data.Dataset):
        links.note_use(x, role)
        return Carried(look_at(x, role), "tf.data")
    if x is None:
        return None
    if _is_sequence(x):
        return _of_sequence(tf, x, role)
    if hasattr(x, "__next__"):
        return _of_generator(tf, x, role)
    return _of_arrays(tf, x, y, batch_size, role)


def _is_sequence(x: Any) -> bool:
    """Whether it is a `PyDataset` or a `Sequence`, as iterators of `ImageDataGenerator` are."""
    return hasattr(x, "__getitem__") and hasattr(x, "__len__") and hasattr(x, "on_epoch_end")


def _of_arrays(tf: Any, x: Any, y: Any, batch_size: Any, role: str) -> Carried | None:
    try:
        with links.quietly():
            pair = (_tensors(tf, x), _tensors(tf, y)) if y is not None else (_tensors(tf, x),)
            dataset = tf.data.Dataset.from_tensor_slices(pair).batch(batch_size or 32)
    except Exception:
        return None
    look = look_at(dataset, role)
    look.facts["arrays"] = True
    return Carried(look, "arrays")


def _tensors(tf: Any, value: Any) -> Any:
    return tf.nest.map_structure(lambda part: part.to_numpy() if hasattr(part, "to_numpy") else part, value)


def _of_sequence(tf: Any, x: Any, role: str) -> Carried | None:
    count = _length(x)
    if not count:
        return None

    def draw() -> Iterator[Any]:
        return (_plain(x[number]) for number in range(min(count, MOST_BATCHES)))

    carried = _drawn(tf, draw, type(x).__getitem__, "PyDataset", role)
    if carried is not None and carried.look.facts["complete"]:
        carried.look.facts["complete"] = count <= MOST_BATCHES
    return carried


def _length(x: Any) -> int:
    try:
        return len(x)
    except Exception:
        return 0


def _of_generator(tf: Any, x: Any, role: str) -> Carried | None:
    code = getattr(x, "gi_code", None)
    try:
        with links.quietly():
            first = list(itertools.islice(x, DRAWN))
    except Exception:
        return None  # what is wrong with it comes to light when Keras draws from it
    kept = [_plain(batch) for batch in first]
    made = SimpleNamespace(__code__=code) if code is not None else type(x).__next__
    carried = _drawn(tf, lambda: iter(kept), made, "generator", role)
    rest = (batch for batch in itertools.chain(first, x))  # Keras takes nothing but a generator
    if carried is None:
        return Carried(_unseen(role), "generator", {"x": rest})
    carried.look.facts["complete"] = len(first) < DRAWN
    carried.fewer["x"] = rest
    return carried


def _unseen(role: str) -> Look:
    facts = {"role": role, "batches": 1, "records": 0, "complete": False, "infinite": False, "inputs": {}, "labels": {}}
    return Look(None, facts=facts)


def _drawn(tf: Any, draw: Callable[[], Iterator[Any]], made: Any, carrier: Carrier, role: str) -> Carried | None:
    """Batches that Python makes, as a dataset of which the function that makes them is the only link."""
    try:
        with links.quietly():
            signature = _signature(tf, list(itertools.islice(draw(), 4)))
            dataset = tf.data.Dataset.from_generator(draw, output_signature=signature)
    except Exception as error:
        seen.tell("unseen", what=f"{type(error).__name__}: {error}")
        return None
    links.remember_source(carrier, dataset, made if _is_users(made) else None)
    return Carried(look_at(dataset, role), carrier)


def _is_users(made: Any) -> bool:
    code = getattr(inspect.unwrap(made) if callable(made) else made, "__code__", None)
    return code is not None and is_user_file(code.co_filename)


def _plain(batch: Any) -> Any:
    """A batch as a tuple of arrays; Keras takes lists for tuples."""
    parts = batch if isinstance(batch, tuple) else (batch,)
    parts = tuple(part for part in parts if part is not None)
    return tuple(_arrays(part) for part in parts)


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _arrays(item) for name, item in value.items()}
    if isinstance(value, list | tuple) and value and hasattr(value[0], "shape"):
        return tuple(_arrays(item) for item in value)
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _signature(tf: Any, batches: list[Any]) -> Any:
    """What all batches have in common: sizes that differ are not known."""

    def joined(*arrays: Any) -> Any:
        ranks = {array.ndim for array in arrays}
        if len(ranks) != 1:
            return tf.TensorSpec(None, arrays[0].dtype)
        sizes = [{array.shape[axis] for array in arrays} for axis in range(ranks.pop())]
        shape = [next(iter(found)) if len(found) == 1 and axis else None for axis, found in enumerate(sizes)]
        return tf.TensorSpec(shape, arrays[0].dtype)

    return tf.nest.map_structure(joined, *batches)


def deliver(carried: Carried, role: Any, place: Any) -> dict[str, Any]:
    """The account of what was carried, as the child writes it down."""
    look = carried.look
    lines = [link.place for link in links.chain_of(look.dataset)[::-1]]
    inputs, targets = (_parts(look, part) for part in (0, 1))
    delivery = DeliveredData(
        role=role,
        carrier=carried.carrier,
        inputs=inputs,
        targets=targets,
        rows=int(look.facts.get("records", 0)),
        complete=bool(look.facts.get("complete")),
        places=[CodePlace(*one) for one in (*lines, place or user_place()) if one],
    )
    found: dict[str, Any] = msgspec.to_builtins(delivery)
    return found


def _parts(look: Look, part: int) -> list[DeliveredPart]:
    batches = [flat(inputs_and_labels(batch)[part]) for batch in look.batches]
    found = []
    for name in batches[0] if batches else ():
        arrays = [batch[name] for batch in batches if name in batch]
        shape, dtype = list(arrays[0].shape), str(arrays[0].dtype)
        found.append(DeliveredPart(name=name, shape=shape, dtype=dtype, columns=_columns(arrays)))
    return found


def _columns(arrays: list[NDArray[Any]]) -> list[DeliveredColumn]:
    """The columns of a table of numbers."""
    if arrays[0].dtype.kind not in "fiub" or arrays[0].ndim not in (1, 2):
        return []
    try:
        rows = np.concatenate([array.reshape(len(array), -1) for array in arrays]).astype(np.float64)
    except ValueError:
        return []
    if not len(rows) or rows.shape[1] > MOST_COLUMNS:
        return []
    return [_column(number, values[np.isfinite(values)]) for number, values in enumerate(rows.T)]


def _column(number: int, values: NDArray[np.float64]) -> DeliveredColumn:
    if not len(values):
        return DeliveredColumn(index=number, low=0, high=0, mean=0, deviation=0, values=0, is_whole=False)
    return DeliveredColumn(
        index=number,
        low=float(values.min()),
        high=float(values.max()),
        mean=float(values.mean()),
        deviation=float(values.std()),
        values=min(len(np.unique(values)), MOST_VALUES),
        is_whole=bool(np.all(values == np.round(values))),
    )
