"""Samples made from others: SMOTE and its relatives, on numbers and categories of the train split alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bushel.building.planning import plan as plans
from bushel.building.planning.balanced_source import save_made
from bushel.building.recipe import Balance, Recipe
from bushel.data.categories import hash_values
from bushel.data.columns import BytesColumn, Column, Ragged, count_of, take
from bushel.data.schema import Feature
from bushel.errors import BushelError, MissingName, missing_package

if TYPE_CHECKING:
    from bushel.building.planning.draft import Draft

__all__ = ["add_made"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Codes = dict[str, dict[Any, int]]  # of the values of each category, in the order in which they were seen

_MOST_BYTES = 2 << 30  # that SMOTENC may hold of the neighbours of what it makes, a number for each category


def add_made(
    draft: Draft, rows: Rows, codes: NDArray[np.int32], wanted: dict[int, int], folder: Path
) -> tuple[Rows, NDArray[np.int32]]:
    """Make the samples that are wanted beside those of `rows`; their rows in the plan, and their classes."""
    assert draft.recipe.balance is not None
    assert draft.listed.labels is not None
    assert draft.classes is not None
    label = draft.listed.labels.feature
    features = _usable(draft, label)
    seen: Codes = {name: {} for name in _categories(draft, features)}
    values, found = _read(draft, rows, codes, features, seen)
    made, classes = _resampled(values, found, wanted, draft.recipe, _places(features, seen))
    keys = BytesColumn.of([f"{draft.recipe.balance.method}-{number:06d}" for number in range(len(made))])
    names = np.array(draft.classes[1], object)[classes]
    columns: dict[str, Column] = {label: _labels(names, is_text=draft.listed.labels.is_text)}
    columns |= _columns(made, features, seen)
    key = draft.recipe.source.get("key")
    if key in draft.source.schema().features:
        columns[str(key)] = keys
    return _add_partition(draft, columns, keys, folder), classes


def _usable(draft: Draft, label: str) -> dict[str, Feature]:
    """The features of the source that are numbers, or for SMOTENC one text; others cannot be made."""
    found: dict[str, Feature] = {}
    key, method = draft.recipe.source.get("key"), draft.recipe.balance.method  # type: ignore[union-attr]
    for name, feature in draft.source.schema().features.items():
        is_text = feature.dtype in ("str", "bytes")
        if name == label or (name == key and is_text):
            continue
        is_category = method == "smotenc" and feature.dtype == "str" and feature.shape == ()
        if not is_category and (is_text or feature.is_ragged or feature.sequence or feature.encoding == "sparse"):
            kinds = "numbers and categories" if method == "smotenc" else "numbers"
            help = ["Leave it out (--columns A,B), or repeat samples: --balance oversample"]
            if feature.dtype == "str" and feature.shape == () and method == "smote":
                help.append("Text can be a category, which is kept unchanged: --balance smotenc")
            raise BushelError(f"{method} makes samples only from {kinds}, and {name!r} is {_what(feature)}", help=help)
        found[name] = feature
    return found


def _what(feature: Feature) -> str:
    if feature.dtype in ("bytes", "str"):
        return "text" if feature.dtype == "str" else "bytes"
    return "a sparse vector" if feature.encoding == "sparse" else "a list of any length"


def _categories(draft: Draft, features: dict[str, Feature]) -> list[str]:
    """The features that SMOTENC takes as categories: text, those named, and those that a transform encodes."""
    balance, recipe = draft.recipe.balance, draft.recipe
    assert balance is not None
    if balance.method != "smotenc":
        return []
    for name in balance.categories:
        if name not in features:
            raise MissingName("feature", name, features, where="balance")
    asked = {name for table in recipe.transforms if table.get("transform") in _ENCODE for name in _named(table)}
    asked |= set(balance.categories)
    found = [name for name, feature in features.items() if feature.dtype == "str" or name in asked]
    for name in found:
        if features[name].shape != () or np.dtype(features[name].dtype).kind not in "biuU":
            raise BushelError(f"a category must be one text or integer per sample, and {name!r} is not")
    if not found:
        raise BushelError(
            "smotenc needs numbers and categories, and no feature is a category",
            help=["Name the integer features that are categories (--balance-categories A,B), or use --balance smote"],
        )
    if len(found) == len(features):
        raise BushelError(
            "smotenc needs numbers and categories, and no feature is a number",
            help=["Repeat samples instead: --balance oversample"],
        )
    return found


_ENCODE = ("encode", "one_hot")


def _named(table: Mapping[str, Any]) -> list[str]:
    given = table.get("feature", [])
    return [given] if isinstance(given, str) else list(given)


def _places(features: dict[str, Feature], seen: Codes) -> dict[int, int]:
    """Where the codes of categories are in a table, and how many categories each has."""
    ends = np.cumsum([count_of(feature.shape) for feature in features.values()])
    return {int(end) - 1: len(seen[name]) for name, end in zip(features, ends, strict=True) if name in seen}


def _read(
    draft: Draft, rows: Rows, codes: NDArray[np.int32], features: dict[str, Feature], seen: Codes
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
                columns = {name: take(column, keep) for name, column in block.columns.items() if name in features}
                values.append(_table(columns, features, seen))
                classes.append(codes[starts[partition] + np.asarray(block.rows)[keep]])
    return np.concatenate(values), np.concatenate(classes)


def _table(columns: dict[str, Column], features: dict[str, Feature], seen: Codes) -> Floats:
    parts = []
    for name in features:
        column = columns.get(name)
        if isinstance(column, Ragged) and column.present is not None and column.present.all():
            column = column.values
        if name in seen and isinstance(column, np.ndarray | BytesColumn):
            codes = seen[name]
            given: list[Any] = column.tolist() if isinstance(column, np.ndarray) else column.to_list()
            column = np.array([codes.setdefault(value, len(codes)) for value in given], np.float64)
        if not isinstance(column, np.ndarray) or not np.isfinite(column).all():
            raise BushelError(
                f"samples are made from complete ones, and {name!r} is missing in some",
                help=["Leave it out (--columns A,B), or repeat samples: --balance oversample"],
            )
        parts.append(column.reshape(len(column), -1).astype(np.float64))
    return np.concatenate(parts, axis=1)


def _resampled(
    values: Floats, classes: NDArray[np.int32], wanted: dict[int, int], recipe: Recipe, places: dict[int, int]
) -> tuple[Floats, NDArray[np.int32]]:
    """What the sampler adds; neighbours are looked for where every feature has the same deviation."""
    balance = recipe.balance
    assert balance is not None
    counts = dict(zip(*(part.tolist() for part in np.unique(classes, return_counts=True)), strict=True))
    asked = {code: count for code, count in wanted.items() if count > counts.get(code, 0)}
    if not asked:
        return values[:0], classes[:0]
    smallest = min(counts.get(code, 0) for code in asked)
    if smallest < 2:
        raise BushelError(f"{balance.method} needs two samples of each class, and one class has {smallest}")
    scale = values.std(axis=0)
    scale[(scale == 0) | np.isin(np.arange(len(scale)), list(places))] = 1.0
    neighbours = min(balance.neighbours, smallest - 1)
    _check_room(max(count - counts[code] for code, count in asked.items()) * neighbours, places)
    sampler = _sampler(balance, asked, neighbours, recipe.seed, list(places))
    try:
        made, found = sampler.fit_resample(values / scale, classes)
    except ValueError as error:
        raise BushelError(f"{balance.method} cannot make samples of this data: {str(error).rstrip('.')}") from None
    return made[len(values) :] * scale, found[len(values) :]


def _check_room(neighbours: int, places: dict[int, int]) -> None:
    """Refuse categories that are free text: SMOTENC has a number for each, of each neighbour of what it makes."""
    if neighbours * sum(places.values()) * 8 > _MOST_BYTES:
        raise BushelError(
            f"smotenc would need {neighbours * sum(places.values()) * 8 / 1e9:.0f} GB for the "
            f"{sum(places.values()):,} categories of this data",
            help=["Leave out what is not a category (--columns A,B), or repeat samples: --balance oversample"],
        )


def _sampler(balance: Balance, wanted: dict[int, int], neighbours: int, seed: int, categories: list[int]) -> Any:
    try:
        from imblearn import over_sampling
    except ImportError:
        raise missing_package("imbalanced-learn", extra="balance", purpose=f"balance by {balance.method}") from None
    common = {"sampling_strategy": wanted, "random_state": seed % 2**32}
    if balance.method == "adasyn":
        return over_sampling.ADASYN(n_neighbors=neighbours, **common)
    if balance.method == "smotenc":
        return over_sampling.SMOTENC(categories, k_neighbors=neighbours, **common)
    kind = over_sampling.SMOTE if balance.method == "smote" else over_sampling.BorderlineSMOTE
    return kind(k_neighbors=neighbours, **common)


def _labels(names: NDArray[Any], *, is_text: bool) -> Column:
    return BytesColumn.of(names.tolist()) if is_text else np.array([int(name) for name in names], np.int64)


def _columns(made: Floats, features: dict[str, Feature], seen: Codes) -> dict[str, Column]:
    """The table as columns; integers are rounded, codes are the categories again."""
    columns: dict[str, Column] = {}
    for (name, feature), part in zip(features.items(), _parts(made, features), strict=True):
        if name in seen:
            known = list(seen[name])
            chosen = [known[code] for code in part[:, 0].astype(np.int64).tolist()]
            columns[name] = BytesColumn.of(chosen) if feature.dtype == "str" else np.array(chosen, feature.dtype)
            continue
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
