"""What batches really hold: shapes, types, ranges, labels, and which records come back in a second pass."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.checking.running import links
from bushel.checking.running.user_code import seen, user_place

SAMPLE_BATCHES = 6
SAMPLE_BYTES = 256 << 20
PASS_SECONDS = 4.0
SECOND_PASS_SECONDS = 3.0
MOST_RECORDS = 30_000
MOST_VALUES = 40


@dataclass
class Look:
    """What a dataset gave in one pass, and in another."""

    dataset: Any
    batches: list[Any] = field(default_factory=list)  # the first ones, as NumPy
    digests: Counter[bytes] = field(default_factory=Counter)
    heads: set[bytes] = field(default_factory=set)  # of windows, all steps but the last
    tails: set[bytes] = field(default_factory=set)  # and all but the first
    sums: Any = None  # of each column of a table: how many, their sum, and that of their squares
    facts: dict[str, Any] = field(default_factory=dict)


_looks: dict[int, Look] = {}


def looks() -> list[Look]:
    """All datasets that were looked at."""
    return list(_looks.values())


def inputs_and_labels(element: Any) -> tuple[Any, Any, Any]:
    """The parts of an element as Keras takes it."""
    if isinstance(element, tuple | list) and not hasattr(element, "shape"):
        parts = [*element, None, None, None]
        return (parts[0], parts[1], parts[2]) if 1 <= len(element) <= 3 else (element, None, None)
    return element, None, None


def flat(value: Any, name: str = "") -> dict[str, NDArray[Any]]:
    """All arrays of a structure by name."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return {
            k: v for key, item in value.items() for k, v in flat(item, f"{name}.{key}" if name else str(key)).items()
        }
    if isinstance(value, tuple | list) and not hasattr(value, "shape"):
        return {k: v for i, item in enumerate(value) for k, v in flat(item, f"{name}[{i}]").items()}
    return {name: _array(value)}


def _array(value: Any) -> NDArray[Any]:
    if hasattr(value, "to_tensor") and not hasattr(value, "shape_as_list"):
        value = value.to_tensor() if type(value).__name__ == "RaggedTensor" else value
    if type(value).__name__ == "SparseTensor":
        import tensorflow as tf

        value = tf.sparse.to_dense(value)
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def array_facts(array: NDArray[Any]) -> dict[str, Any]:
    """Shape, type and range of one array."""
    facts: dict[str, Any] = {"shape": list(array.shape), "dtype": str(array.dtype)}
    if array.dtype.kind in "OSU":
        return facts | {"dtype": "string", "examples": [str(v)[:60] for v in array.reshape(-1)[:3]]}
    if array.dtype.kind not in "fiub" or not array.size:
        return facts
    values = array.astype(np.float64) if array.dtype.kind != "f" or array.dtype.itemsize < 4 else array
    finite = np.isfinite(values)
    facts |= {"nan": int(np.isnan(values).sum()), "inf": int(np.isinf(values).sum())}
    if not finite.any():
        return facts
    kept = values if finite.all() else values[finite]
    facts |= {"min": float(kept.min()), "max": float(kept.max()), "mean": float(kept.mean()), "std": float(kept.std())}
    if array.ndim >= 2 and len(array) > 1:
        facts["rows_differ"] = bool((array != array[:1]).any())
    if array.ndim == 4:
        facts["spread"] = float(np.median(np.ptp(values.reshape(len(values), -1), axis=1)))
    facts["integers"] = bool(np.all(kept == np.round(kept))) if kept.size <= 5_000_000 else None
    return facts


def label_facts(array: NDArray[Any]) -> dict[str, Any]:
    """The same of labels, with the values they take."""
    facts = array_facts(array)
    if facts.get("integers") and array.ndim >= 1:
        values, counts = np.unique(array, return_counts=True)
        facts["values"] = [float(v) for v in values[:MOST_VALUES]]
        facts["count_of_values"] = len(values)
        facts["counts"] = [int(c) for c in counts[:MOST_VALUES]]
    if array.ndim == 2 and array.shape[1] > 1 and array.dtype.kind in "fiub":
        sums = array.astype(np.float64).sum(axis=1)
        facts["one_hot"] = bool(np.allclose(sums, 1) and np.isin(array, (0, 1)).all())
        facts["sums_to_one"] = bool(np.allclose(sums, 1, atol=1e-3))
        if np.isin(array, (0, 1)).all() and sums.max(initial=0) == 1:
            facts["empty_rows"] = float((sums == 0).mean())  # of a row for one class or none
    return facts


def digests(inputs: dict[str, NDArray[Any]]) -> list[bytes]:
    """One per record of a batch, of all its inputs."""
    arrays = [np.ascontiguousarray(a) for a in inputs.values() if a.ndim >= 1]
    if not arrays or len({len(a) for a in arrays}) != 1:
        return []
    found = []
    for row in range(len(arrays[0])):
        digest = hashlib.blake2b(digest_size=8)
        for array in arrays:
            part = array[row]
            is_plain = array.dtype.kind != "O"
            digest.update(part.tobytes() if is_plain else repr(part).encode())
        found.append(digest.digest())
    return found


def look_at(dataset: Any, role: str, *, seconds: float = PASS_SECONDS) -> Look:
    """Draw batches of a dataset, once. An error is located and written down, and travels on."""
    known = _looks.get(id(dataset))
    if known is not None:
        return known
    look = Look(dataset)
    _looks[id(dataset)] = look
    with links.quietly():
        try:
            _first_pass(look, role, seconds)
            if not look.facts["infinite"] and look.facts["seconds"] < SECOND_PASS_SECONDS:
                _second_pass(look)
        except _Undrawable as failure:
            from bushel.checking.running.failures import tell_pipeline_failure

            error = failure.error
            look.facts = {**_NOTHING, "failed": True}
            tell_pipeline_failure(dataset, error, user_place())
            raise error from None
        except Exception as error:  # something that cannot be looked at, and may be right all the same
            seen.tell("unseen", what=f"{type(error).__name__}: {error}")
            look.facts = {**_NOTHING, **look.facts}
    return look


class _Undrawable(Exception):
    def __init__(self, error: Exception) -> None:
        self.error = error


_NOTHING = {
    "batches": 1,
    "records": 0,
    "infinite": False,
    "complete": False,
    "seconds": 0.0,
    "inputs": {},
    "labels": {},
}


def _first_pass(look: Look, role: str, seconds: float) -> None:
    dataset = look.dataset
    chain = links.chain_of(dataset)
    cardinality = int(dataset.cardinality()) if hasattr(dataset, "cardinality") else -2
    begun = time.process_time()
    records = batches = kept_bytes = 0
    labels: Counter[float] = Counter()
    per_batch: list[list[float]] = []
    sizes: Counter[int] = Counter()
    complete = False
    try:
        iterator = iter(links.original_iter(dataset))
    except Exception as error:
        raise _Undrawable(error) from None
    while True:
        try:
            element = next(iterator)
        except StopIteration:
            complete = True
            break
        except Exception as error:
            raise _Undrawable(error) from None
        x, y, _ = inputs_and_labels(element)
        inputs = flat(x)
        size = max((len(a) for a in inputs.values() if a.ndim), default=1)
        batches += 1
        records += size
        sizes[size] += 1
        if len(look.batches) < SAMPLE_BATCHES and kept_bytes < SAMPLE_BYTES:
            look.batches.append(element)
            kept_bytes += sum(a.nbytes for a in inputs.values())
        look.digests.update(digests(inputs))
        _note_windows(look, inputs)
        own = _label_values(y)
        if own is not None:
            labels.update(own)
            if len(per_batch) < 64:
                per_batch.append(sorted(set(own))[:MOST_VALUES])
        if (
            time.process_time() - begun > seconds
            or records > MOST_RECORDS
            or (cardinality == -1 and batches >= SAMPLE_BATCHES)
        ):
            break
    x, y, weights = inputs_and_labels(look.batches[0]) if look.batches else (None, None, None)
    look.facts = {
        "role": role,
        "link": chain[-1].id if chain else None,
        "chain": [link.id for link in chain],
        "cardinality": cardinality,
        "infinite": cardinality == -1,
        "complete": complete,
        "batches": batches,
        "records": records,
        "sizes": {str(k): v for k, v in sizes.items()},
        "seconds": time.process_time() - begun,
        "inputs": {name: array_facts(_several(look, name, 0)) for name in flat(x)},
        "labels": {name: label_facts(_several(look, name, 1)) for name in flat(y)},
        "weights": {name: array_facts(array) for name, array in flat(weights).items()},
        "label_counts": {f"{k:g}": v for k, v in labels.most_common(200)} if labels else None,
        "classes_per_batch": [len(own) for own in per_batch],
        "distinct": len(look.digests),
        "padding": _padding(flat(x)),
        "padded_labels": _padded_labels(flat(x), flat(y)),
        "seeded": _is_seeded(),
        "standard": complete and _is_standard(look),
        "label_in": _label_in(look),
    }


def _note_windows(look: Look, inputs: dict[str, NDArray[Any]]) -> None:
    """What tells windows of one series that overlap, and tables that were standardised."""
    array = next(iter(inputs.values())) if len(inputs) == 1 else np.zeros(0)
    if array.ndim not in (2, 3) or array.dtype.kind != "f" or not 4 <= array.shape[1] <= LONGEST_WINDOW:
        return
    look.heads.update(digests({"": array[:, :-1]}))
    look.tails.update(digests({"": array[:, 1:]}))
    if array.ndim == 2:
        own = np.stack([np.full(array.shape[1], len(array)), array.sum(0), np.square(array, dtype=np.float64).sum(0)])
        look.sums = own if look.sums is None else look.sums + own if look.sums.shape == own.shape else None


def _is_standard(look: Look) -> bool:
    """Whether every column has mean 0 and deviation 1: over just these records it was standardised."""
    if look.sums is None or look.sums[0, 0] < LEAST_ROWS:
        return False
    mean = look.sums[1] / look.sums[0]
    variance = look.sums[2] / look.sums[0] - mean**2
    return bool(np.all(np.abs(mean) < 1e-3) and np.all(np.abs(variance - 1) < 5e-3))


LONGEST_WINDOW = 2000
LEAST_ROWS = 32


def _label_in(look: Look) -> str | None:
    """The input, or the column of one, that is the label itself."""
    if not look.batches:
        return None
    x, y, _ = inputs_and_labels(look.batches[0])
    labels = list(flat(y))
    if len(labels) != 1:
        return None
    label = _several(look, labels[0], 1)
    if label.dtype.kind not in "iuf" or len(label) < 32 or label.ndim > 2:
        return None
    if label.ndim == 2 and label.shape[1] > 1 and (label.sum(axis=1) == 1).all() and np.isin(label, (0, 1)).all():
        label = label.argmax(axis=1)
    flat_label = label.reshape(len(label), -1)
    if len(np.unique(flat_label)) < 3 and len(label) < 64:
        return None
    for name in flat(x):
        array = _several(look, name, 0)
        if array.dtype.kind not in "iuf" or len(array) != len(label) or array.ndim > 3:
            continue
        columns = array.reshape(len(array), -1)
        if columns.shape == flat_label.shape and len(np.unique(flat_label)) > 1 and np.array_equal(columns, flat_label):
            return f"input {name!r}" if name else "the input"
        if flat_label.shape[1] == 1 and 1 < columns.shape[1] <= 2048 and len(np.unique(flat_label)) > 1:
            same = _tells_it(columns.astype(np.float64), flat_label.astype(np.float64))
            if same.any():
                return f"column {int(same.argmax())} of {f'input {name!r}' if name else 'the input'}"
    return None


def _tells_it(columns: NDArray[np.float64], label: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The columns that are the label, moved or scaled at most."""
    centred, wanted = columns - columns.mean(axis=0), label - label.mean()
    sizes = np.sqrt((centred**2).sum(axis=0) * (wanted**2).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.abs((centred * wanted).sum(axis=0)) / sizes > 1 - 1e-9)


def _is_seeded() -> bool:
    """With a global seed, each pass draws the same random numbers."""
    from tensorflow.python.eager import context

    return context.global_seed() is not None


def _several(look: Look, name: str, part: int) -> NDArray[Any]:
    """One component over the batches that were kept."""
    arrays = [flat(inputs_and_labels(batch)[part]).get(name) for batch in look.batches[:4]]
    same = [a for a in arrays if a is not None]
    try:
        return np.concatenate(same) if same[0].ndim else np.stack(same)
    except ValueError:
        return same[0]


def _label_values(y: Any) -> list[float] | None:
    arrays = flat(y)
    if len(arrays) != 1:
        return None
    array = next(iter(arrays.values()))
    if array.dtype.kind not in "fiub" or not array.size:
        return None
    if array.ndim == 2 and array.shape[1] > 1 and np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all():
        return [float(v) for v in array.argmax(axis=1)]
    if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1) or array.ndim == 0:
        return [float(v) for v in array.reshape(-1)]
    return None


def _padding(inputs: dict[str, NDArray[Any]]) -> dict[str, float]:
    """Of integer sequences: the share of rows that end in zeros."""
    found = {}
    for name, array in inputs.items():
        if array.ndim == 2 and array.dtype.kind in "iu" and array.shape[1] > 2 and len(array):
            found[name] = float((array[:, -1] == 0).mean())
    return found


def _padded_labels(inputs: dict[str, NDArray[Any]], labels: dict[str, NDArray[Any]]) -> bool:
    """Whether sequences of labels are padded with 0, which is the label of tokens as well."""
    if len(labels) != 1:
        return False
    label = next(iter(labels.values()))
    for array in inputs.values():
        if array.ndim == 2 and array.dtype.kind in "iu" and array.shape == label.shape and label.dtype.kind in "iu":
            padding = np.flip(np.cumsum(np.flip(array != 0, 1), 1), 1) == 0
            share = float(padding.mean())
            return share > 0.1 and not label[padding].any() and bool((label[~padding] == 0).any())
    return False


def _second_pass(look: Look) -> None:
    """How many of the records of another pass were there in the first, and whether they came in the same order."""
    if not look.digests:
        return
    again: Counter[bytes] = Counter()
    begun, batches = time.process_time(), 0
    first = digests(flat(inputs_and_labels(look.batches[0])[0]))
    same_order = None
    for element in links.original_iter(look.dataset):
        own = digests(flat(inputs_and_labels(element)[0]))
        if same_order is None:
            same_order = own == first
        again.update(own)
        batches += 1
        if time.process_time() - begun > SECOND_PASS_SECONDS:
            break
    total = sum(again.values())
    same = sum((again & look.digests).values())
    look.facts["again"] = {
        "records": total,
        "same": same,
        "same_order": bool(same_order),
        "complete": batches >= look.facts["batches"],
    }


def overlap(train: Look, val: Look) -> dict[str, Any]:
    """How many records of one dataset are in another."""
    shared = [digest for digest in val.digests if digest in train.digests]
    windows = len(val.heads & train.tails | val.tails & train.heads)
    return {"val": len(val.digests), "train": len(train.digests), "shared": len(shared), "windows": windows}


def tell_look(look: Look) -> None:
    """Write down what was seen."""
    if look.facts and not look.facts.get("reported"):
        look.facts["reported"] = True
        seen.tell("look", **look.facts)
