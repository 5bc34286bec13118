"""Drafting a plan: list the source, check its keys, and decide where each sample goes."""

from __future__ import annotations

import pickle
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import cloudpickle
import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.building.planning import plan as plans
from bushel.building.planning.plan import Plan, PlanFacts, Rows
from bushel.building.planning.probe import Probe, ToProbe
from bushel.building.recipe import Recipe
from bushel.data import splits
from bushel.data.categories import Categories, Label, Labels, are_numbers, hash_values, labels_of, text_of
from bushel.data.columns import BytesColumn, Pile, cut, joined, roomy, steps
from bushel.data.schema import Schema
from bushel.data.splits import Division, divide, ordered_rows, repeated, taken
from bushel.errors import BushelError, MissingName, SchemaMismatch, quantity
from bushel.parallel import Helpers, available_cores, do_all, map_in_threads
from bushel.records.manifest import Balanced
from bushel.sources.protocol import WALKED, Source, paths_named
from bushel.storage import LINKS_OUT, links_out
from bushel.storage.file_names import refuse_alike

__all__ = ["Frozen", "Listed", "list_source", "load_source", "make_plan", "pickled_source"]

DEFAULT_LABEL = "label"
_IMBALANCED = 10  # times as many samples


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """What an addition to a dataset must not change."""

    generation: int
    schema: Schema
    label: Label | None
    bounds: dict[str, list[int]]
    splits: list[str]


@dataclass
class Listed:
    """The source as it was listed."""

    partition_rows: list[int] = field(default_factory=list)
    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    sizes: Rows | None = None
    columns: dict[str, Categories] = field(default_factory=dict)
    counted: Counter[str] = field(default_factory=Counter)
    labels: Labels | None = None
    has_folders: bool = False  # whether folders name the classes


def list_source(
    source: Source, recipe: Recipe, folder: Path, frozen: Frozen | None = None, helpers: Helpers = None
) -> Listed:
    """List every partition: keys go to files in `folder`; only the columns that decide the split stay in memory."""
    features = source.schema().features
    label = recipe.label or source.label or (DEFAULT_LABEL if DEFAULT_LABEL in features else None)
    asked = _columns_asked(source, recipe, label)
    has_folders = source.has_class_folders and not recipe.label
    listed = Listed(columns={name: Categories(name) for name in asked}, has_folders=has_folders)
    hashes, sizes = Pile(np.uint64), Pile(np.int64)
    for partition in _listed_partitions(source, asked, folder, recipe.limit, helpers):
        hashes.add(partition.hashes)
        if partition.sizes is not None:
            sizes.add(partition.sizes)
        for name, column in partition.columns.items():
            listed.columns[name].merge(column)
        listed.counted.update(partition.counted)
        listed.partition_rows.append(len(partition.hashes))
    if count := sum(1 for _ in links_out(paths_named(source.describe(), WALKED))):
        listed.counted[LINKS_OUT] += count
    listed.hashes = hashes.whole()
    if not len(listed.hashes):
        raise BushelError("the source has no samples", help=_left_out(listed.counted))
    if len(sizes) == len(hashes):
        listed.sizes = sizes.whole()
    if not source.numbers_rows:
        _check_keys(listed, folder, source)
    if label is not None:
        listed.labels = labels_of(listed.columns[label], frozen.label if frozen else None)
    return listed


@dataclass(frozen=True)
class _ListedPartition:
    """One partition as it was listed; its keys are in their file."""

    hashes: NDArray[np.uint64]
    sizes: Rows | None
    columns: dict[str, Categories]
    counted: dict[str, int]


def _listed_partitions(
    source: Source, asked: list[str], folder: Path, limit: int | None, helpers: Helpers
) -> Iterator[_ListedPartition]:
    """List every partition: by helpers if that reads files, by threads if not, or one after the other."""
    numbers = range(source.partitions())
    if limit is None and source.knows(asked):
        whole = partial(_list_partition, source, asked=asked, folder=folder)
        yield from (partition for _, partition in map_in_threads(whole, numbers))
        return
    if limit is None and helpers is not None and (pickled := pickled_source(source, folder)) is not None:
        yield from do_all(helpers, partial(_list_elsewhere, pickled, asked, folder), numbers)
        pickled.unlink()
        return
    for number in numbers:
        partition = _list_partition(source, number, asked, folder, limit)
        yield partition
        limit = None if limit is None else limit - len(partition.hashes)
        if limit == 0 and source.reads == "sequence":
            break


def pickled_source(source: Source, folder: Path) -> Path | None:
    """Where helpers load the source from, while the plan is made; None if it does not pickle."""
    # Never the same name twice, since workers cache what they read.
    path = folder / f"source-{uuid.uuid4().hex}.pickle"
    try:
        path.write_bytes(cloudpickle.dumps(source))
    except (TypeError, AttributeError, ValueError) as error:
        if "pickle" not in str(error).lower():
            raise
        return None
    return path


def _list_elsewhere(pickled: Path, asked: list[str], folder: Path, number: int) -> _ListedPartition:
    return _list_partition(load_source(pickled), number, asked, folder)


@lru_cache(maxsize=1)
def load_source(pickled: Path) -> Source:
    """The source that is pickled there, loaded once per worker."""
    source: Source = pickle.loads(pickled.read_bytes())
    return source


def _list_partition(
    source: Source, number: int, asked: list[str], folder: Path, rows_left: int | None = None
) -> _ListedPartition:
    listing = source.list(number, asked)
    keep = _kept(source, len(listing.keys), rows_left)
    keys = cut(listing.keys, 0, keep)
    assert isinstance(keys, BytesColumn)
    plans.save_keys(folder, number, keys)
    columns = {name: Categories(name) for name in asked}
    for name, column in columns.items():
        if name not in listing.columns:
            raise MissingName("column", name, source.schema().features, where="source")
        column.add(cut(listing.columns[name], 0, keep))
    sizes = None if listing.sizes is None else np.asarray(listing.sizes[:keep], np.int64)
    return _ListedPartition(hash_values(keys), sizes, columns, dict(listing.counted))


def _columns_asked(source: Source, recipe: Recipe, label: str | None) -> list[str]:
    names = [label, *division_of(source, recipe).columns]
    features = source.schema().features
    for name in names:
        if name is not None and name in features and features[name].encoding == "sparse":
            help = ["Make it dense: x.toarray()"]
            raise SchemaMismatch("a sparse feature cannot be a label, a split or a group", at=name, help=help)
    return list(dict.fromkeys(name for name in names if name is not None))


def division_of(source: Source, recipe: Recipe) -> Division:
    """How a recipe divides the samples of a source."""
    return Division(
        split=recipe.split,
        resplit=recipe.resplit,
        exact=recipe.exact,
        stratify=recipe.stratify,
        requested_group=recipe.group,
        seed=recipe.seed,
        own_split=source.split,
        own_group=source.group,
    )


def _kept(source: Source, rows: int, rows_left: int | None) -> int:
    """How many rows of a partition a trial takes: only the first ones, since others would mean reading all."""
    return rows if rows_left is None or source.reads == "random" else min(rows, rows_left)


def _left_out(counted: Counter[str]) -> list[str]:
    return ["Left out: " + ", ".join(f"{count:,} {what}" for what, count in counted.items())] if counted else []


def _check_keys(listed: Listed, folder: Path, source: Source) -> None:
    """Refuse a source in which two samples have the same key: splits and additions could not distinguish them."""
    twice = repeated(listed.hashes)
    if not len(twice):
        return
    starts = np.cumsum([0, *listed.partition_rows])
    rows = np.flatnonzero(listed.hashes == twice[0])[:2]
    parts = (np.searchsorted(starts, rows, side="right") - 1).tolist()
    places = [(part, int(row - starts[part])) for part, row in zip(parts, rows, strict=True)]
    keys = [plans.load_keys(folder, part)[row] for part, row in places]
    if keys[0] != keys[1]:  # two keys with one hash: at worst, an addition mistakes one for the other
        return
    said = " and ".join(source.locate(part, row) for part, row in places)
    raise BushelError(
        f"{quantity(len(twice), 'key')} stand{'s' * (len(twice) == 1)} for more than one sample; "
        f"the first is {text_of(keys[0])!r}: {said}",
        help=["Choose a column with unique values (--key COL), or none: then the row number is the key."],
    )


def make_plan(source: Source, recipe: Recipe, listed: Listed, frozen: Frozen | None, known: Any = None) -> Draft:
    """Decide the split and order of every sample. `known` are hashes of keys that the dataset already has."""
    rows = None if known is None else np.flatnonzero(~np.isin(listed.hashes, known))  # None: all
    count = len(listed.hashes if rows is None else rows)
    if recipe.limit is not None and count > recipe.limit:
        rows = ordered_rows(listed.hashes, rows, seed=recipe.seed, shuffled=recipe.order == "shuffled")
        rows = np.sort(rows[: recipe.limit])
    draft = Draft(recipe, listed, source, frozen)
    split_of = draft.assign()
    draft.ordered = {}
    for i, name in enumerate(draft.names):
        own = rows if len(draft.names) == 1 else _rows_in(rows, split_of, i)
        draft.ordered[name] = ordered_rows(listed.hashes, own, seed=recipe.seed, shuffled=recipe.order == "shuffled")
    del rows, split_of
    draft.find_problems()
    if recipe.balance is not None and listed.labels is not None and listed.labels.task == "classification":
        labels = listed.columns[listed.labels.feature]
        draft.classes = labels.codes(), labels.names()
    for column in listed.columns.values():
        column.forget_rows()
    return draft


def _rows_in(rows: Rows | None, split_of: NDArray[np.uint8], split: int) -> Rows:
    """Those of the rows, all if they are None, that are in a split."""

    def find(some: slice) -> Rows:
        own = np.arange(some.start, some.stop) if rows is None else rows[some]
        chosen: Rows = own[split_of[own] == split]
        return chosen

    pile = Pile(np.int64)
    for _, found in map_in_threads(find, steps(len(split_of) if rows is None else len(rows))):
        pile.add(found)
    return pile.whole()


@dataclass
class Draft:
    """A plan without shards, which need the size of samples."""

    recipe: Recipe
    listed: Listed
    source: Source
    frozen: Frozen | None
    names: list[str] = field(default_factory=list)
    ordered: dict[str, Rows] = field(default_factory=dict)
    bounds: dict[str, list[int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    label_counts: dict[str, dict[str, int]] = field(default_factory=dict)  # samples by split and class, as listed
    classes: tuple[NDArray[np.int32], list[str]] | None = None  # of all rows, and their names, if balance needs them
    originals: list[int] = field(default_factory=list)  # rows of partitions, if balance added some
    balanced: Balanced | None = None

    def assign(self) -> NDArray[np.uint8]:
        """The split of every row."""
        frozen, listed = self.frozen, self.listed
        found = divide(
            division_of(self.source, self.recipe),
            listed.hashes,
            listed.columns,
            known_bounds=frozen.bounds if frozen else None,
            known_splits=frozen.splits if frozen else (),
        )
        refuse_alike(found.names)
        self.names, self.bounds = found.names, found.bounds
        if found.kept_test:
            listed.counted["samples of the source's own test split, which stays as it is"] += found.kept_test
        return found.split_of

    @property
    def train(self) -> str:
        """The name of the train split here."""
        return splits.find(self.ordered, splits.TRAIN) or splits.TRAIN

    def _column(self, name: str) -> Categories:
        return self.listed.columns[name]

    def find_problems(self) -> None:
        """Note what is probably wrong although the build is possible."""
        empty = [name for name, rows in self.ordered.items() if not len(rows)]
        if self.frozen is None:
            self.problems += [f"split {name!r} gets no sample{self._way_out()}" for name in empty]
        self.ordered = {name: rows for name, rows in self.ordered.items() if len(rows)}
        labels = self.listed.labels
        if labels is None:
            return
        missing = len(self._column(labels.feature).missing)
        if missing:
            have = "has" if missing == 1 else "have"
            what = f"{quantity(missing, 'sample')} {have} no {labels.feature!r} and will be refused"
            self.problems.append(
                what + "; --set class_folder=none takes all, without classes" * self.listed.has_folders
            )
        counts = self.label_counts = self._count_labels(labels)
        if labels.task != "classification" or self.train not in counts or self.frozen is not None:
            return
        if are_numbers(labels, counts):
            return
        absent = [name for name in self._column(labels.feature).names() if not counts[self.train].get(name)]
        if absent:
            more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
            self.problems.append(f"no sample in train of {', '.join(map(repr, absent[:5]))}{more}")

    def _way_out(self) -> str:
        """What helps if a split is empty because shares are drawn by chance, and there are few to draw from."""
        division = division_of(self.source, self.recipe)
        if division.split_column is not None or self.recipe.exact:
            return ""
        if division.group is None:
            return ": --exact gives each split its share"
        count = len(np.unique(self._column(division.group).hashes))
        if count < len(self.names):
            return f": samples stay with their group, and {division.group!r} has {quantity(count, 'value')}"
        return f": it is drawn from {count:,} groups of {division.group!r}; --exact gives each split its share of them"

    def _count_labels(self, labels: Labels) -> dict[str, dict[str, int]]:
        if labels.task != "classification":
            return {}
        column = self._column(labels.feature)
        codes, names = column.codes(), column.names()
        counts = {}
        for split, rows in self.ordered.items():
            own = codes if len(rows) == len(codes) else taken(codes, rows)  # in any order
            count = partial(_count_codes, own, len(names))
            found = np.sum([some for _, some in map_in_threads(count, steps(len(own)))], axis=0)
            counts[split] = {name: int(count) for name, count in zip(names, found, strict=True) if count}
        return counts

    def note_imbalance(self) -> None:
        """Note a class of the train split that has ten times as many samples as another."""
        counts = {name: count for name, count in self.label_counts.get(self.train, {}).items() if count}
        if len(counts) < 2 or self.frozen is not None or are_numbers(self.listed.labels, self.label_counts):
            return
        most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        if counts[most] >= _IMBALANCED * counts[least]:
            times = counts[most] / counts[least]
            self.problems.append(
                f"class {most!r} has {counts[most]:,} samples in train, {times:,.0f} times as many as {least!r} "
                f"({counts[least]:,}): see --balance, or class weights when training"
            )

    def samples(self) -> int:
        """How many are planned."""
        return sum(len(rows) for rows in self.ordered.values())

    def to_probe(self) -> ToProbe:
        """What is needed to probe a few samples."""
        order = joined(list(self.ordered.values()), np.int64)
        begin = 0
        train = (0, 0)
        for name, rows in self.ordered.items():
            train = (begin, begin + len(rows)) if name == self.train else train
            begin += len(rows)
        listed = self.listed
        compression = self.recipe.compression
        return ToProbe(
            *(self.source, order, train, listed.partition_rows, listed.hashes, listed.sizes, compression),
            label_by=self._label_by(),
        )

    def _label_by(self) -> str:
        """Why a feature is the label."""
        if self.recipe.label:
            return "it was asked for"
        if self.source.label:
            return "the source says so"
        return "folders name the classes" if self.listed.has_folders else "its name is usual for labels"

    def finish(self, folder: Path, looked: Probe, *, is_fitted: bool) -> Plan:
        """Cut the shards and write the plan."""
        recipe = self.recipe
        shards, sample_bytes = plans.cut_all(
            {name: _sizes_of(looked.sizes, rows) for name, rows in self.ordered.items()},
            shard_size=recipe.shard_size,
            shards=recipe.shards,
            generation=self.frozen.generation if self.frozen else 0,
        )
        order = joined(list(self.ordered.values()), np.int64)
        self.ordered.clear()
        place = roomy(len(self.listed.hashes), np.int64)
        _native.invert(order, available_cores(), place)
        arrays = {"order.npy": order, "place.npy": place, "hashes.npy": self.listed.hashes}
        if not is_fitted and self.listed.sizes is not None:
            arrays["sizes.npy"] = self.listed.sizes
        for _ in map_in_threads(lambda name: plans.save_array(folder / name, arrays[name]), arrays):
            pass
        planned = self.listed.partition_rows
        if len(order) < len(place):
            edges = np.cumsum([0, *self.listed.partition_rows])
            planned = [int(np.count_nonzero(place[begin:end] >= 0)) for begin, end in pairwise(edges)]
        facts = PlanFacts(
            partition_rows=self.listed.partition_rows,
            planned=planned,
            shards=shards,
            sample_bytes=sample_bytes,
            sample_seconds=looked.seconds,
            schema=looked.schema,
            labels=self.listed.labels,
            label_counts=self.label_counts,
            problems=self.problems,
            counted=dict(self.listed.counted),
            bounds=self.bounds,
            originals=self.originals,
            balance=self.balanced,
            compressed=looked.compressed,
            is_fitted=is_fitted,
            account=looked.account,
        )
        plan = Plan(folder, facts)
        plans.save_plan(plan)
        return plan


def _count_codes(codes: NDArray[np.int32], classes: int, some: slice) -> NDArray[np.int64]:
    """How many of these rows each class has."""
    return np.bincount(codes[some] + 1, minlength=classes + 1)[1:]  # -1 is a missing label


def _sizes_of(sizes: Rows, rows: Rows) -> Rows:
    """`sizes[rows]`; if all sizes are one and the same, without looking."""
    if len(sizes) and sizes.strides == (0,):
        return np.broadcast_to(sizes[0], len(rows))
    return taken(sizes, rows)
