"""Data that is in memory: a dict of arrays, a table, a feed of batches, or a tf.data.Dataset."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bushel import _native
from bushel.checking.collect.facts import Data, FileFacts, ReadingPlan
from bushel.checking.collect.one_pass import read_data
from bushel.checking.findings import ASPECTS, Aspect
from bushel.data.columns import BytesColumn, Ragged, SparseColumn, count_of, part_sparse
from bushel.data.encoding import Narrowings, Stored, store
from bushel.data.samples import feature_of_column
from bushel.reading import Dataset, Feed, Pack, Split

MAX_BATCHES = 1000  # of a feed, which may be endless
_ENDLESS = -1  # what tf.data gives for the number of elements


@dataclass(frozen=True)
class _SplitInMemory:
    """One split: its batches, how large they are if they are final, and whether they begin again without end."""

    name: str
    batches: Iterable[dict[str, Any]]
    is_final: bool = False
    is_endless: bool = False


def paths_of_opened(data: Any) -> list[Path] | None:
    """The files of a dataset that is open, or of one of its splits; None for anything else."""
    if isinstance(data, Dataset):
        if data.manifest is not None:
            return [Path(data.where)]
        return [path for split in data.splits.values() for path in split.paths]
    return list(data.paths) if isinstance(data, Split) and data.rows is None else None


def read_memory(data: Any, *, label: str | None, plan: ReadingPlan) -> Data:
    """Check what is in memory as if it were in a file; splits are the keys of a dict of dicts.

    What a feed gives is what a model sees: its batches are neither shuffled nor cut again, unless the plan says so.
    """
    with tempfile.TemporaryDirectory(prefix="bushel-") as folder:
        files: list[FileFacts] = []
        splits = list(_splits(data))
        for split in splits:
            path = Path(folder) / f"{len(files)}.tfrecord"
            rows = _write(split, path)
            if split.is_final and plan == ReadingPlan(classes=plan.classes):
                plan = ReadingPlan(batch_size=rows, shuffle_buffer=0, classes=plan.classes)
            files.append(FileFacts(number=len(files), path=path, split=split.name))
        # What begins again without end repeats itself by design.
        repeats = any(split.is_endless for split in splits)
        looked_at: frozenset[Aspect] = frozenset(ASPECTS) - ({"contents"} if repeats else set())
        read = read_data(files, label=label, plan=plan, aspects=looked_at)
    for facts in read.files:
        facts.path = Path(f"<{facts.split}>")
    return read


def _write(split: _SplitInMemory, path: Path) -> int:
    """Write the batches as records; the rows of the first."""
    first = 0
    with path.open("wb") as file:
        for batch in split.batches:
            for piece in _encode(batch):
                file.write(piece)
            first = first or len(next(iter(batch.values())))
    return first


def _splits(data: Any) -> Iterator[_SplitInMemory]:
    if isinstance(data, dict) and data and all(_is_feed(part) or isinstance(part, dict) for part in data.values()):
        for name, part in data.items():
            yield _split(str(name), part)
    else:
        yield _split("all", data)


def _is_feed(data: Any) -> bool:
    return hasattr(data, "element_spec") or (hasattr(data, "__next__") and not isinstance(data, dict))


def _split(name: str, data: Any) -> _SplitInMemory:
    if isinstance(data, dict):
        return _SplitInMemory(name, [data])
    if isinstance(data, Split):
        return _SplitInMemory(name, [data[:]])
    if hasattr(data, "columns") and hasattr(data, "to_numpy"):  # a DataFrame
        return _SplitInMemory(name, [{str(column): data[column].to_numpy() for column in data.columns}])
    if isinstance(data, Feed):
        is_packed = any(isinstance(step, Pack) for step in data.settings.layout)
        most = MAX_BATCHES if is_packed else min(len(data), MAX_BATCHES)  # of one epoch: the next holds the same
        return _SplitInMemory(name, (dict(batch) for batch in itertools.islice(data, most)), is_final=True)
    if hasattr(data, "element_spec") and hasattr(data, "as_numpy_iterator"):
        is_batched = _is_batched(data.element_spec)
        elements = itertools.islice(data.as_numpy_iterator(), MAX_BATCHES)
        batches = (_named(element, is_batched=is_batched) for element in elements)
        return _SplitInMemory(name, batches, is_final=is_batched, is_endless=int(data.cardinality()) == _ENDLESS)
    if hasattr(data, "__iter__") and not isinstance(data, str | bytes):
        batches = (_named(batch, is_batched=True) for batch in itertools.islice(iter(data), MAX_BATCHES))
        return _SplitInMemory(name, batches, is_final=True)
    raise ValueError(f"data must be paths, a tf.data.Dataset, batches or a dict of arrays; got {type(data).__name__}")


def _is_batched(spec: Any) -> bool:
    """Whether the first size of every part is open, or the same."""
    parts = spec if isinstance(spec, tuple | list) else list(spec.values()) if isinstance(spec, dict) else [spec]
    flat = [inner for part in parts for inner in (part.values() if isinstance(part, dict) else [part])]
    shapes = [part.shape for part in flat if hasattr(part, "shape")]
    if not shapes or any(shape.rank in (None, 0) for shape in shapes):
        return False
    return len({shape[0] for shape in shapes}) == 1


def _named(element: Any, *, is_batched: bool) -> dict[str, Any]:
    if isinstance(element, dict):
        named = dict(element)
    elif isinstance(element, tuple | list) and element:
        inputs = element[0] if isinstance(element[0], dict) else {"x": element[0]}
        named = {**inputs, **({"label": element[1]} if len(element) > 1 else {})}
    else:
        named = {"x": element}
    return named if is_batched else {name: np.asarray(value)[None] for name, value in named.items()}


def _encode(batch: dict[str, Any]) -> list[Any]:
    if not batch:
        raise ValueError("data must hold at least one array, got none")
    rows = {len(value) for value in batch.values()}
    if len(rows) != 1:
        raise ValueError(f"arrays must have the same number of rows, got {sorted(rows)}")
    encoded: Any = _native.encode([stored for name in batch for stored in _stored(name, batch[name])], rows.pop(), 1)
    if isinstance(encoded, int):
        raise ValueError(f"row {encoded} is larger than 2 GiB")
    return list(encoded[0])


def _stored(name: str, value: Any) -> Iterator[Stored]:
    column = _as_column(value)
    for part, own in (part_sparse(name, column) if isinstance(column, SparseColumn) else {name: column}).items():
        feature = feature_of_column(own, name=part, is_text=False)
        yield store(part, msgspec.structs.replace(feature, cast=True), own, Narrowings())


def _as_column(value: Any) -> Any:
    """Whatever holds rows as an array or a column."""
    if isinstance(value, Ragged):
        while isinstance(value.values, Ragged):  # steps of several values, one after the other
            value = Ragged(value.values.values, value.values.row_splits[value.row_splits], value.present)
        return value
    if isinstance(value, BytesColumn | SparseColumn):
        return value
    if isinstance(value, list | tuple) and value and isinstance(value[0], str | bytes):
        return BytesColumn.of(value)
    array = np.asarray(value)
    if array.dtype.kind == "O" and array.ndim == 1 and all(isinstance(row, np.ndarray | list) for row in array):
        return Ragged.of([row.tolist() if isinstance(row, np.ndarray) else row for row in array])
    if array.dtype.kind in "SUO":
        texts = BytesColumn.of([item if isinstance(item, bytes | str) else str(item) for item in array.reshape(-1)])
        return texts if array.ndim == 1 else Ragged(texts, np.arange(len(array) + 1) * count_of(array.shape[1:]))
    return array.astype(np.int64) if array.dtype.kind in "mM" else array
