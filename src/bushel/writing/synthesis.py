"""Samples made from others: SMOTE and its relatives, on the numbers of the train split alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bushel.columns import BytesColumn, Column, Ragged, count_of
from bushel.errors import BushelError, missing_package
from bushel.schema import Feature
from bushel.writing import plans
from bushel.writing.categories import hash_values
from bushel.writing.recipe import Balance
from bushel.writing.repeats import save_made

if TYPE_CHECKING:
    from bushel.writing.planning import Draft

__all__ = ["add_made"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def add_made(
    draft: Draft, rows: Rows, codes: NDArray[np.int32], wanted: dict[int, int], folder: Path
) -> tuple[Rows, NDArray[np.int32]]:
    """Make the samples that are wanted beside those of `rows`; their rows in the plan, and their classes."""
    assert draft.recipe.balance is not None
    assert draft.listed.labels is not None
    assert draft.classes is not None
    label = draft.listed.labels.feature
    features = _numbers(draft, label)
    values, found = _read(draft, rows, codes, features)
    made, classes = _resampled(values, found, wanted, draft.recipe.balance, draft.recipe.seed)
    keys = BytesColumn.of([f"{draft.recipe.balance.method}-{number:06d}" for number in range(len(made))])
    names = np.array(draft.classes[1], object)[classes]
    columns: dict[str, Column] = {label: _labels(names, is_text=draft.listed.labels.is_text)}
    columns |= _columns(made, features)
    key = draft.recipe.source.get("key")
    if key in draft.source.schema().features:
        columns[str(key)] = keys
    return _add_partition(draft, columns, keys, folder), classes


def _numbers(draft: Draft, label: str) -> dict[str, Feature]:
    """The features of the source that are numbers; others cannot be made."""
    found: dict[str, Feature] = {}
    key = draft.recipe.source.get("key")
    for name, feature in draft.source.schema().features.items():
        if name == label or (name == key and feature.dtype in ("str", "bytes")):
            continue
        if feature.dtype in ("bytes", "str") or feature.is_ragged or feature.sequence:
            what = "text" if feature.dtype in ("bytes", "str") else "a list of any length"
            raise BushelError(
                f"{draft.recipe.balance.method} makes samples of numbers alone, and {name!r} is {what}",  # type: ignore[union-attr]
                help=["Leave it out (--columns A,B), or let samples come again: --balance oversample"],
            )
        found[name] = feature
    return found


def _read(
    draft: Draft, rows: Rows, codes: NDArray[np.int32], features: dict[str, Feature]
) -> tuple[Floats, NDArray[np.int32]]:
    """The numbers of samples, one row each in the order of the source, and their classes."""
    starts = np.concatenate([[0], np.cumsum(draft.listed.partition_rows, dtype=np.int64)])
    partitions = np.searchsorted(starts, rows, side="right") - 1
    values: list[Floats] = []
    classes: list[NDArray[np.int32]] = []
    for partition in np.unique(partitions).tolist():
        own = rows[partitions == partition] - starts[partition]
        for block in draft.source.read(partition, own if draft.source.reads == "random" else None):
            keep = np.flatnonzero(np.isin(block.rows, own))
            if len(keep):
                values.append(_table(block.columns, features)[keep])
                classes.append(codes[starts[partition] + np.asarray(block.rows)[keep]])
    return np.concatenate(values), np.concatenate(classes)


def _table(columns: dict[str, Column], features: dict[str, Feature]) -> Floats:
    parts = []
    for name in features:
        column = columns.get(name)
        if isinstance(column, Ragged) and column.present is not None and column.present.all():
            column = column.values
        if not isinstance(column, np.ndarray) or not np.isfinite(column).all():
            raise BushelError(
                f"samples are made from whole ones, and {name!r} is missing in some",
                help=["Leave it out (--columns A,B), or let samples come again: --balance oversample"],
            )
        parts.append(column.reshape(len(column), -1).astype(np.float64))
    return np.concatenate(parts, axis=1)


def _resampled(
    values: Floats, classes: NDArray[np.int32], wanted: dict[int, int], balance: Balance, seed: int
) -> tuple[Floats, NDArray[np.int32]]:
    """What the sampler adds; neighbours are looked for where every feature has the same deviation."""
    counts = dict(zip(*(part.tolist() for part in np.unique(classes, return_counts=True)), strict=True))
    asked = {code: count for code, count in wanted.items() if count > counts.get(code, 0)}
    if not asked:
        return values[:0], classes[:0]
    smallest = min(counts.get(code, 0) for code in asked)
    if smallest < 2:
        raise BushelError(f"{balance.method} needs two samples of each class, and one class has {smallest}")
    scale = values.std(axis=0)
    scale[scale == 0] = 1.0
    sampler = _sampler(balance, asked, min(balance.neighbours, smallest - 1), seed)
    try:
        made, found = sampler.fit_resample(values / scale, classes)
    except ValueError as error:
        raise BushelError(f"{balance.method} cannot make samples of this data: {str(error).rstrip('.')}") from None
    return made[len(values) :] * scale, found[len(values) :]


def _sampler(balance: Balance, wanted: dict[int, int], neighbours: int, seed: int) -> Any:
    try:
        from imblearn import over_sampling
    except ImportError:
        raise missing_package("imbalanced-learn", extra="balance", purpose=f"balance by {balance.method}") from None
    common = {"sampling_strategy": wanted, "random_state": seed % 2**32}
    if balance.method == "adasyn":
        return over_sampling.ADASYN(n_neighbors=neighbours, **common)
    kind = over_sampling.SMOTE if balance.method == "smote" else over_sampling.BorderlineSMOTE
    return kind(k_neighbors=neighbours, **common)


def _labels(names: NDArray[Any], *, is_text: bool) -> Column:
    return BytesColumn.of(names.tolist()) if is_text else np.array([int(name) for name in names], np.int64)


def _columns(made: Floats, features: dict[str, Feature]) -> dict[str, Column]:
    """The table as columns; integers are rounded."""
    columns: dict[str, Column] = {}
    for (name, feature), part in zip(features.items(), _parts(made, features), strict=True):
        dtype = np.dtype(feature.dtype)
        values = np.rint(part).astype(dtype) if dtype.kind in "biu" else part.astype(np.float64)
        columns[name] = values.reshape(len(made), *(size or 1 for size in feature.shape))
    return columns


def _parts(made: Floats, features: dict[str, Feature]) -> Iterator[Floats]:
    begin = 0
    for feature in features.values():
        width = count_of(feature.shape)
        yield made[:, begin : begin + width]
        begin += width


def _add_partition(draft: Draft, columns: dict[str, Column], keys: BytesColumn, folder: Path) -> Rows:
    listed = draft.listed
    save_made(folder, columns)
    plans.save_keys(folder, len(listed.partition_rows), keys)
    first = len(listed.hashes)
    draft.originals = list(listed.partition_rows)
    listed.partition_rows = [*listed.partition_rows, len(keys)]
    listed.hashes = np.concatenate([listed.hashes, hash_values(keys)])
    if listed.sizes is not None:
        listed.sizes = np.concatenate([listed.sizes, np.full(len(keys), int(listed.sizes.mean()))])
    return first + np.arange(len(keys))
