"""`join`: records with the features of another dataset, by a key that both have."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.categories import hash_values
from bushel.data.columns import BytesColumn, Ragged, take
from bushel.errors import BushelError, BushelWarning, MissingName, SchemaMismatch, quantity
from bushel.reading.dataset import Dataset, Join, Split, mix
from bushel.reading.raw import open as open_data
from bushel.storage import AnyPath

__all__ = ["Missing", "join"]

Ints: TypeAlias = NDArray[np.int64]
Missing: TypeAlias = Literal["keep", "drop", "raise"]


@overload
def join(
    data: Split,
    other: Any,
    *,
    on: str | tuple[str, str],
    columns: Sequence[str] | None = None,
    missing: Missing = "keep",
) -> Split: ...
@overload
def join(
    data: Dataset | AnyPath | Any,
    other: Any,
    *,
    on: str | tuple[str, str],
    columns: Sequence[str] | None = None,
    missing: Missing = "keep",
) -> Dataset: ...
def join(
    data: Any,
    other: Any,
    *,
    on: str | tuple[str, str],
    columns: Sequence[str] | None = None,
    missing: Missing = "keep",
) -> Split | Dataset:
    """Records with features of `other` added each time they are read: those of the record with the same key.

    Both are a split, a dataset, or anything that `bushel.open` opens: a table, a frame, a stream of Arrow. `on` is the
    feature that is the key, or its two names. `columns` says which features are added (default: all but the key). Keys
    of `other` must differ. Records whose key it lacks are counted in a warning: `missing="keep"` keeps them without
    these features, `"drop"` leaves them out, and `"raise"` refuses them.

    >>> train = bushel.join(bushel.open("images")["train"], "embeddings.parquet", on="key")
    """
    if missing not in ("keep", "drop", "raise"):
        raise ValueError(f"missing must be one of keep, drop, raise; got {missing!r}")
    here, there = (on, on) if isinstance(on, str) else on
    opened = data if isinstance(data, Split | Dataset) else open_data(data)
    splits = {opened.name: opened} if isinstance(opened, Split) else opened.splits
    added = _other(other, there, columns)
    first = next(iter(splits.values()))
    _refuse_same_names(first, added)
    keys = _keys_of(added.whole, there)
    _refuse_repeated(keys)
    matches = {name: _match(split, here, keys) for name, split in splits.items()}
    is_complete = _say_missing(list(matches.values()), (here, there), added.whole, missing)
    joined = {
        name: _joined(split, added, matches[name], is_optional=missing == "keep" and not is_complete)
        for name, split in splits.items()
    }
    if isinstance(opened, Split):
        return joined[opened.name]
    label = opened.label or (added.label if first.label not in first.schema else None)
    return Dataset(joined, where=opened.where, manifest=opened.manifest, label=label)


@dataclass(frozen=True)
class _Other:
    """What is joined: all its records, and the features of them that are added."""

    whole: Split
    names: Sequence[str]
    label: Any  # its label, with the names of classes


def _other(given: Any, key: str, columns: Sequence[str] | None) -> _Other:
    opened = given if isinstance(given, Split | Dataset) else open_data(given)
    whole = opened if isinstance(opened, Split) else _whole(list(opened.splits.values()))
    if isinstance(columns, str):
        raise ValueError(f"columns must be a list of names, got the string {columns!r}")
    if whole.is_sequential:
        help = ["To read it at random: bushel build OLD NEW --compression gzip"]
        raise BushelError(f"{whole.paths[0]}: what is joined is read at random, and this is compressed", help=help)
    whole.shards.check()
    for name in [key, *(columns or ())]:
        if name not in whole.schema:
            raise MissingName("feature", name, whole.schema, where=whole.paths[0])
    names = [name for name in whole.schema if name != key] if columns is None else list(columns)
    if not names:
        raise ValueError(f"columns must name a feature to add: {whole.paths[0]} has none but {key!r}")
    return _Other(whole, names, opened.label if isinstance(opened, Dataset) else None)


def _whole(splits: list[Split]) -> Split:
    """All splits as one."""
    if len(splits) == 1:
        return splits[0]
    if not splits[0].is_raw:
        whole = mix(splits)
        whole.classes = splits[0].classes
        return whole
    rows = np.concatenate([split.rows for split in splits if split.rows is not None])
    return splits[0].but(rows=rows)  # they are selections of the same samples


@dataclass(frozen=True)
class _Keys:
    """The keys of those records of a split that have one, and their numbers in the shards."""

    values: NDArray[np.int64] | BytesColumn
    rows: Ints
    place: str  # the file and the feature

    @property
    def kind(self) -> str:
        return "text" if isinstance(self.values, BytesColumn) else "numbers"

    def shown(self, at: int) -> str:
        """One of them, for people."""
        value = self.values[at]
        return repr(value.decode(errors="replace")) if isinstance(value, bytes) else str(value)


def _keys_of(split: Split, name: str) -> _Keys:
    """The keys of a split; classes by their names, as the codes of two datasets need not agree."""
    if name not in split.schema:
        raise MissingName("feature", name, split.schema, where=split.paths[0])
    rows = np.arange(len(split.shards), dtype=np.int64) if split.rows is None else split.rows
    column: Any = split.values(name)
    if isinstance(column, Ragged) and column.present is not None and (column.lengths <= 1).all():
        rows, column = rows[column.present], column.values
    if name == split.label and split.classes:
        known = np.asarray(column) >= 0
        codes = np.asarray(column)[known].tolist()
        rows, column = rows[known], BytesColumn.of([split.classes[code].encode() for code in codes])
    place = f"{split.paths[0]}: {name}"
    if isinstance(column, BytesColumn):
        return _Keys(column, rows, place)
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "iub":
        return _Keys(column.astype(np.int64), rows, place)
    raise SchemaMismatch(f"a key is one text or whole number, and this is {split.schema[name].describe()}", at=place)


def _refuse_repeated(keys: _Keys) -> None:
    hashes = np.sort(hash_values(keys.values))
    repeated = hashes[1:][hashes[1:] == hashes[:-1]]
    if len(repeated):
        which = keys.shown(int(np.argmax(hash_values(keys.values) == repeated[0])))
        count = quantity(len(np.unique(repeated)), "key")
        help = ["Leave one record of each key, such as by split.select(numbers)."]
        raise BushelError(f"{keys.place}: {count} in more than one record, such as {which}", help=help)


def _refuse_same_names(split: Split, added: _Other) -> None:
    both = [name for name in added.names if name in split.schema]
    if both:
        rest = [name for name in added.names if name not in both]
        raise ValueError(f"columns must not name what is already there ({', '.join(both)}): give columns={rest}")


@dataclass(frozen=True)
class _Match:
    """For each record of the shards, the record with the same key; -1 where there is none."""

    rows: Ints
    chosen: Ints  # the records of the split
    lacking: str  # a key that there is no record for, if any

    @property
    def has_one(self) -> NDArray[np.bool_]:
        """Of the records of the split, which have a record with the same key."""
        return np.asarray(self.rows[self.chosen] >= 0)


def _match(split: Split, name: str, others: _Keys) -> _Match:
    keys = _keys_of(split, name)
    if keys.kind != others.kind:
        raise SchemaMismatch(f"keys are {keys.kind} here, and {others.kind} in {others.place}", at=keys.place)
    found = np.full(len(split.shards), -1, np.int64)
    hashes, wanted = hash_values(others.values), hash_values(keys.values)
    order = np.argsort(hashes, kind="stable")
    at = np.searchsorted(hashes, wanted, sorter=order)
    at = order[np.minimum(at, len(order) - 1)] if len(order) else np.zeros(len(wanted), np.int64)
    is_same = hashes[at] == wanted if len(order) else np.zeros(len(wanted), bool)
    same = np.flatnonzero(is_same)
    if not _are_equal(take(keys.values, same), take(others.values, at[same])):
        raise BushelError(f"{keys.place}: two keys have one hash with those of {others.place}")
    found[keys.rows[same]] = others.rows[at[same]]
    lacking = keys.shown(int(np.argmin(is_same))) if not is_same.all() else "none at all"
    chosen = np.arange(len(found), dtype=np.int64) if split.rows is None else split.rows
    return _Match(found, chosen, lacking)


def _are_equal(one: Any, other: Any) -> bool:
    if isinstance(one, BytesColumn):
        return np.array_equal(one.offsets, other.offsets) and np.array_equal(one.data, other.data)
    return np.array_equal(one, other)


def _say_missing(matches: Sequence[_Match], on: tuple[str, str], others: Split, missing: Missing) -> bool:
    """Say how many records have no partner; whether all have one."""
    count = sum(len(match.chosen) for match in matches)
    lacking = [match for match in matches if not match.has_one.all()]
    lack = sum(int((~match.has_one).sum()) for match in lacking)
    if not lack:
        return True
    what = f"{lack:,} of {quantity(count, 'record')} have a {on[0]} that is not in {others.paths[0]} ({on[1]})"
    what += f", such as {lacking[0].lacking}"
    if lack == count:
        raise BushelError(f"no record can be joined: {what}")
    if missing == "raise":
        help = ['missing="drop" leaves them out, and missing="keep" keeps them without these features.']
        raise BushelError(what, help=help)
    done = "they are left out" if missing == "drop" else 'they lack what is joined; missing="drop" leaves them out'
    warnings.warn(f"{what}: {done}", BushelWarning, stacklevel=3)
    return False


def _joined(split: Split, added: _Other, match: _Match, *, is_optional: bool) -> Split:
    whole = added.whole.select(list(added.names))
    features = {
        name: msgspec.structs.replace(feature, required=False)
        if is_optional and feature.encoding != "sparse"
        else feature
        for name, feature in whole.schema.features.items()
    }
    label = {"label": whole.label, "classes": whole.classes} if split.label not in split.schema else {}
    found = split.but(
        _schema=msgspec.structs.replace(split.schema, features={**split.schema.features, **features}),
        _stored=msgspec.structs.replace(split.stored, features={**split.stored.features, **features}),
        joins=(*split.joins, Join(whole, match.rows, is_optional)),
        **(label if whole.label in features else {}),
    )
    return found if is_optional or match.has_one.all() else found.select(np.flatnonzero(match.has_one))
