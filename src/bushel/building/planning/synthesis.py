"""Samples that balancing adds: repeated rows, and rows made from others by SMOTE and its relatives."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bushel.building.planning import plan as plans
from bushel.building.planning.plan import REPEATS_NAME, save_array
from bushel.building.recipe import Balance, Recipe
from bushel.data.categories import hash_values
from bushel.data.columns import BytesColumn, Column, Ragged, count_of, take
from bushel.data.schema import Feature
from bushel.errors import BushelError, MissingName, missing_package
from bushel.sources.protocol import Block, Listing, Refused, Source, SourceOver
from bushel.storage import map_array, write_whole

__all__ = ["BalancedSource", "add_made", "balanced_source", "repeat_key"]


MADE_NAME = "made.pickle"
_BLOCK_ROWS = 4096

Rows = NDArray[np.int64]


def repeat_key(key: bytes, number: int) -> bytes:
    """The key of a repeated sample."""
    return key + b"#%d" % number


def balanced_source(source: Source, folder: Path, originals: list[int]) -> Source:
    """The source with the samples that balancing added, if any."""
    return BalancedSource(source, folder, originals) if originals else source


def save_repeats(folder: Path, repeats: Rows) -> None:
    """Write partition, row and number of each repeated sample, by partition."""
    save_array(folder / REPEATS_NAME, repeats)


def save_made(folder: Path, columns: dict[str, Column]) -> None:
    """Write the samples that were made from others."""
    with write_whole(folder / MADE_NAME) as file:
        file.write(pickle.dumps(columns))


class BalancedSource(SourceOver):
    """The repeats of each partition follow its rows; samples made from others follow all partitions."""

    def __init__(self, source: Source, folder: Path, originals: list[int]) -> None:
        self.source, self.folder, self.originals = source, folder, originals
        self.has_made = (folder / MADE_NAME).exists()

    @cached_property
    def _repeats(self) -> Rows:
        path = self.folder / REPEATS_NAME
        return np.asarray(map_array(path)) if path.exists() else np.empty((0, 3), np.int64)

    @cached_property
    def _made(self) -> dict[str, Column]:
        columns: dict[str, Column] = pickle.loads((self.folder / MADE_NAME).read_bytes())
        return columns

    def _is_made(self, partition: int) -> bool:
        return self.has_made and partition == len(self.originals)

    def repeats_of(self, partition: int) -> tuple[Rows, Rows]:
        """The repeated rows of a partition, in order, and the number of each repeat."""
        begin, end = np.searchsorted(self._repeats[:, 0], [partition, partition + 1])
        return self._repeats[begin:end, 1], self._repeats[begin:end, 2]

    def partitions(self) -> int:
        """Those of the source, and one for samples that were made."""
        return self.source.partitions() + self.has_made

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """As the source lists it."""
        return self.source.list(partition, columns)

    def read(self, partition: int, rows: Rows | None) -> Iterator[Block]:
        """The rows of the source, and their repeats in separate blocks."""
        if self._is_made(partition):
            yield from self._read_made(rows)
            return
        again, _ = self.repeats_of(partition)
        listed = self.originals[partition]
        if rows is None:
            for block in self.source.read(partition, None):
                cut = _until(block, listed)
                yield cut
                begin, end = np.searchsorted(again, _extent(cut))
                yield from _repeated(cut, again[begin:end], listed + np.arange(begin, end))
            return
        is_repeat = rows >= listed
        base = np.where(is_repeat, again[np.where(is_repeat, rows - listed, 0)], rows) if len(again) else rows
        for block in self.source.read(partition, np.unique(base)):
            yield from _repeated(block, base[~is_repeat], rows[~is_repeat], is_repeat=False)
            yield from _repeated(block, base[is_repeat], rows[is_repeat])

    def _read_made(self, rows: Rows | None) -> Iterator[Block]:
        count = len(next(iter(self._made.values())))
        wanted = np.arange(count) if rows is None else rows
        for begin in range(0, len(wanted), _BLOCK_ROWS):
            part = wanted[begin : begin + _BLOCK_ROWS]
            yield Block(part, {name: take(column, part) for name, column in self._made.items()}, is_repeat=True)

    def locate(self, partition: int, row: int) -> str:
        """Where the repeated sample comes from."""
        if self._is_made(partition):
            return f"made for balance: sample {row}"
        listed = self.originals[partition]
        if row < listed:
            return self.source.locate(partition, row)
        again, numbers = self.repeats_of(partition)
        return f"{self.source.locate(partition, int(again[row - listed]))} (repeat {numbers[row - listed]})"

    def fingerprint(self) -> str:
        """The source's: what is added follows from it."""
        return self.source.fingerprint()

    def describe(self) -> dict[str, Any]:
        """The source's."""
        return self.source.describe()


def _extent(block: Block) -> tuple[int, int]:
    """The first row of a block and the end of its rows, including refused ones."""
    rows = [int(row) for row in (*np.asarray(block.rows)[:1], *np.asarray(block.rows)[-1:])]
    rows += [bad.row for bad in block.refused]
    return (min(rows), max(rows) + 1) if rows else (0, 0)


def _until(block: Block, listed: int) -> Block:
    """The block without rows that are not listed: a trial lists only the first, and repeats use the other numbers."""
    rows = np.asarray(block.rows, np.int64)
    if not len(rows) or rows.max() < listed:
        return block
    keep = np.flatnonzero(rows < listed)
    columns = {name: take(column, keep) for name, column in block.columns.items()}
    refused = [bad for bad in block.refused if bad.row < listed]
    return Block(rows[keep], columns, refused, block.counted)


def _repeated(block: Block, base: Rows, numbers: Rows, *, is_repeat: bool = True) -> Iterator[Block]:
    """The wanted rows of a block, as often as they are wanted, under their new numbers."""
    rows = np.asarray(block.rows, np.int64)
    order = np.argsort(rows)
    at = np.searchsorted(rows[order], base)
    is_here = np.isin(base, rows)
    found = np.flatnonzero(is_here)
    refused: list[Refused] = []
    if block.refused and len(base):
        reasons = {bad.row: bad for bad in block.refused}
        pairs = zip(base.tolist(), numbers.tolist(), strict=True)
        refused = [reasons[row]._replace(row=number) for row, number in pairs if row in reasons]
    if not len(found) and not refused:
        return
    picked = order[at[found]]
    columns = {name: take(column, picked) for name, column in block.columns.items()}
    counted = {} if is_repeat else block.counted
    yield Block(numbers[found], columns, refused, counted, is_repeat=is_repeat)


if TYPE_CHECKING:
    from bushel.building.planning.draft import Draft


Floats = NDArray[np.float64]
Codes = dict[str, dict[Any, int]]  # the values of each category, in the order in which they were found

_MOST_BYTES = 2 << 30  # limit on memory: SMOTENC holds a number per category for every neighbour


def add_made(
    draft: Draft, rows: Rows, codes: NDArray[np.int32], wanted: dict[int, int], folder: Path
) -> tuple[Rows, NDArray[np.int32]]:
    """Make the samples wanted in addition to `rows`; returns their rows in the plan, and their classes."""
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
    """The features of the source that are numbers, or for SMOTENC single texts; others cannot be made."""
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
    """The features that SMOTENC treats as categories: text, those named, and those that a transform encodes."""
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
    """The rows that the sampler adds; neighbours are searched after scaling every feature to the same deviation."""
    balance = recipe.balance
    assert balance is not None
    counts = dict(zip(*(part.tolist() for part in np.unique(classes, return_counts=True)), strict=True))
    asked = {code: count for code, count in wanted.items() if count > counts.get(code, 0)}
    if not asked:
        return values[:0], classes[:0]
    smallest = min(counts.get(code, 0) for code in asked)
    if smallest < 2:
        raise BushelError(
            f"{balance.method} needs two samples of each class in the train split, and one class has {smallest}",
            help=["Repeat samples (--balance oversample), or divide every class alike: --split 80/20 --stratify COL"],
        )
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
    """Refuse categories that are free text: SMOTENC holds a number per category for every neighbour."""
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
    """The table as columns; integers are rounded, and codes become categories again."""
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
