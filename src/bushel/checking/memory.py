"""Data that is in memory: a dict of arrays, a feed of batches, or a tf.data.Dataset."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bushel import _native
from bushel.checking.facts import Data, FileFacts, Plan
from bushel.checking.reading import Scope, read_data
from bushel.columns import BytesColumn, Ragged, as_ragged
from bushel.schema import BYTES_KIND, FLOAT_KIND, INT_KIND

__all__ = ["read_memory"]

MAX_BATCHES = 1000  # of a feed, which may be endless


def read_memory(data: Any, *, label: str | None, plan: Plan) -> Data:
    """Check what is in memory as if it were in a file; splits are the keys of a dict of dicts."""
    with tempfile.TemporaryDirectory(prefix="bushel-") as folder:
        files: list[FileFacts] = []
        for split, columns in _splits(data):
            path = Path(folder) / f"{split}.tfrecord"
            with path.open("wb") as file:
                for batch in columns:
                    for piece in _encode(batch):
                        file.write(piece)
            files.append(FileFacts(number=len(files), path=path, split=split))
        read = read_data(files, label=label, plan=plan, scope=Scope())
    for facts in read.files:
        facts.path = Path(f"<{facts.split}>")
    return read


def _splits(data: Any) -> Iterator[tuple[str, Iterable[dict[str, Any]]]]:
    if isinstance(data, dict) and data and all(_is_feed(part) or isinstance(part, dict) for part in data.values()):
        for name, part in data.items():
            yield str(name), _batches(part)
    else:
        yield "all", _batches(data)


def _is_feed(data: Any) -> bool:
    return hasattr(data, "element_spec") or (hasattr(data, "__next__") and not isinstance(data, dict))


def _batches(data: Any) -> Iterator[dict[str, Any]]:
    if isinstance(data, dict):
        yield data
    elif hasattr(data, "element_spec") and hasattr(data, "as_numpy_iterator"):
        for element in itertools.islice(data.as_numpy_iterator(), MAX_BATCHES):
            yield _named(element, is_batched=_is_batched(data.element_spec))
    elif hasattr(data, "__iter__"):
        for batch in itertools.islice(iter(data), MAX_BATCHES):
            yield _named(batch, is_batched=True)
    else:
        raise ValueError(
            f"data must be paths, a tf.data.Dataset, batches or a dict of arrays; got {type(data).__name__}"
        )


def _is_batched(spec: Any) -> bool:
    """Whether the first size of every part is open, or the same."""
    parts = spec if isinstance(spec, tuple | list) else list(spec.values()) if isinstance(spec, dict) else [spec]
    shapes = [part.shape for part in parts if hasattr(part, "shape")]
    if not shapes or any(shape.rank in (None, 0) for shape in shapes):
        return False
    return len({shape[0] for shape in shapes}) == 1


def _named(element: Any, *, is_batched: bool) -> dict[str, Any]:
    if isinstance(element, dict):
        named = dict(element)
    elif isinstance(element, tuple | list):
        inputs = element[0] if isinstance(element[0], dict) else {"x": element[0]}
        named = {**inputs, **({"label": element[1]} if len(element) > 1 else {})}
    else:
        named = {"x": element}
    return named if is_batched else {name: np.asarray(value)[None] for name, value in named.items()}


def _encode(batch: dict[str, Any]) -> list[Any]:
    columns, rows = [], {len(value) for value in batch.values()}
    if len(rows) != 1:
        raise ValueError(f"arrays must have the same number of rows, got {sorted(rows)}")
    for name, value in batch.items():
        columns.append(_column(name, value))
    encoded: Any = _native.encode(columns, rows.pop(), 1)
    if isinstance(encoded, int):
        raise ValueError(f"row {encoded} is larger than 2 GiB")
    return list(encoded[0])


def _column(name: str, value: Any) -> tuple[Any, ...]:
    """As the core takes it: name, sequence, kind, numbers, ends, data, splits, width, present, step_splits."""
    if isinstance(value, list | tuple) and value and isinstance(value[0], str | bytes):
        value = BytesColumn.of(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "SUO":
        value = BytesColumn.of([item if isinstance(item, bytes | str) else str(item) for item in value.reshape(-1)])
    if isinstance(value, BytesColumn):
        return (name, False, BYTES_KIND, None, value.offsets, value.data, None, 1, None, None)
    if isinstance(value, Ragged):
        ragged = as_ragged(value)
        numbers, kind = _numbers(np.asarray(ragged.values))
        return (name, False, kind, numbers, None, None, ragged.row_splits, 0, None, None)
    numbers, kind = _numbers(np.asarray(value))
    width = int(np.prod(numbers.shape[1:])) if numbers.ndim > 1 else 1
    return (name, False, kind, np.ascontiguousarray(numbers.reshape(-1)), None, None, None, width, None, None)


def _numbers(array: Any) -> tuple[Any, int]:
    is_float = array.dtype.kind == "f"
    return np.ascontiguousarray(array, np.float32 if is_float else np.int64), FLOAT_KIND if is_float else INT_KIND
