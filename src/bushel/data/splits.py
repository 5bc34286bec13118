"""Splits: names, shares, the split that a file or a sample belongs to, choosing one, and dividing samples into them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import PurePath
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.categories import Categories, Hashes, hash_words, text_of
from bushel.data.columns import Pile, in_steps, roomy, steps
from bushel.errors import BushelError
from bushel.parallel import available_cores

TRAIN, VAL, TEST = "train", "val", "test"
ALL = "all"  # files whose names do not say a split
_NAMES = (TRAIN, VAL, TEST)
_MOST_SPLITS = 256  # a plan has a byte for the split of each sample

_ALIASES = {
    "train": TRAIN,
    "training": TRAIN,
    "val": VAL,
    "valid": VAL,
    "validation": VAL,
    "dev": VAL,
    "eval": VAL,
    "evaluation": VAL,
    "test": TEST,
    "testing": TEST,
}
# What may follow a split in the name of a shard: numbers of shards and generations, suffixes, hashes of Hub files.
_NO_SPLIT = re.compile(
    r"g?\d+|of|tf|tfrecords?|records?|tfrec|tfr|parquet|pq|arrow|feather|csv|tsv|jsonl?|ndjson|tar|tgz|gz|gzip|zlib|bz2|zst|lz4|"
    r"[0-9a-f]{12,}"
)
_PATTERN = re.compile(r"[*?]+|\[[^]]*\]|\{[^}]*\}")


def split_of_name(name: str) -> str | None:
    """The split that a word stands for, in any case: `dev` and `Validation` are `val`; None for any other word."""
    return _ALIASES.get(name.strip().lower())


def as_split(name: str) -> str:
    """The usual name of a split if it has one, otherwise its own."""
    return split_of_name(name) or name


def common_names(names: Iterable[str], known: Collection[str] = ()) -> dict[str, str]:
    """The usual name of each split, by its own; it keeps its own if two would mean the same, or if it is known."""
    usual = {name: name if name in known else as_split(name) for name in names}
    counts = list(usual.values())
    return {name: split if counts.count(split) == 1 else name for name, split in usual.items()}


def split_of_shard(name: str) -> str | None:
    """The split in the name of a shard: `train-00000-of-00008.tfrecord`, `x-val.tfrecord-00000-of-00008`.

    Only the last word counts: `train_extra-00000-of-00001` is not `train`.
    """
    words = re.split(r"[-_.]", _PATTERN.sub("", name.lower()))
    words = [word for word in words if word and not _NO_SPLIT.fullmatch(word)]
    return _split_of_word(words[-1]) if words else None


def split_of_file(path: PurePath) -> str | None:
    """The split in the name of a file, or in the name of its folder."""
    return split_of_shard(path.name) or split_of_name(path.parent.name.removeprefix("Split-"))


def group_files(files: Sequence[Any]) -> dict[str, list[Any]]:
    """Files by the split in their names; if one name has none, all files are `all`."""
    names = splits_of_shards(files)
    groups: dict[str, list[Any]] = {}
    for file, name in zip(files, names, strict=True):
        groups.setdefault(ALL if None in names else str(name), []).append(file)
    return groups


def splits_in_names(files: Sequence[PurePath | str]) -> tuple[str, ...]:
    """The split of each file, if every name has one and there are several: `train.csv` and `test.csv`."""
    found = [split_of_shard(PurePath(file).name) for file in files]
    several = [split for split in found if split is not None]
    return tuple(several) if len(several) == len(found) and len(set(several)) > 1 else ()


def split_of_shard_file(path: Any) -> str | None:
    """The split in the name of a shard, or in that of its folder if TFX wrote it: `Split-eval`."""
    folder = path.parent.name
    of_folder = split_of_name(folder.removeprefix("Split-")) if folder.startswith("Split-") else None
    return split_of_shard(path.name) or of_folder


def splits_of_shards(files: Sequence[Any]) -> list[str | None]:
    """The split of each shard: by its name, or by that of its folder if the shards are in several folders."""
    is_several = len({file.parent for file in files}) > 1
    by_folder = [split_of_name(file.parent.name) if is_several else None for file in files]
    return [split_of_shard_file(file) or folder for file, folder in zip(files, by_folder, strict=True)]


def split_named(name: str) -> str | None:
    """The first split that is a word of a name: `instances_train2017.json`, `val-annotations.json`."""
    found = map(_split_of_word, re.split(r"[^a-z\d]+", name.lower()))
    return next((split for split in found if split), None)


def _split_of_word(word: str) -> str | None:
    return _ALIASES.get(word.rstrip("0123456789"))


def in_order(names: Iterable[str]) -> list[str]:
    """Train, validation and test first, then the others by name."""
    ranks = {name: rank for rank, name in enumerate(_NAMES)}
    return sorted(names, key=lambda name: (ranks.get(as_split(name), len(ranks)), name))


def train_first(name: str) -> tuple[bool, str]:
    """A key to sort splits by: first what is learned from, then the others by name."""
    return as_split(name) not in (TRAIN, ALL), name


def find(names: Iterable[str], *wanted: str) -> str | None:
    """The first of the wanted splits that is among the names, by its name there: `val` may be called `dev`."""
    there = list(dict.fromkeys(names))
    for name in wanted:
        if name in there:
            return name
        alike = [other for other in there if as_split(other) == as_split(name)]
        if len(alike) == 1:
            return alike[0]
    return None


def choose(names: Collection[str], *preferred: str) -> str:
    """The split to use if none was requested: a preferred one, or the only one."""
    chosen = find(names, *preferred)
    if chosen is None and len(names) != 1:
        raise ValueError(f"split must be one of {', '.join(names)}; got None")
    return chosen or next(iter(names))


def shares_of_one(shares: Mapping[str, Fraction], given: Any, option: str = "split") -> dict[str, Fraction]:
    """The shares, summing to one: 0.8 and 0.2, 80 and 20, or 4 and 1. Typos such as 80/30 are refused."""
    if any(share <= 0 for share in shares.values()):
        raise ValueError(f"{option} must give each part more than 0, got {given!r}")
    total = sum(shares.values(), Fraction(0))
    largest = max(shares.values())
    wanted = 1 if largest < 1 else 100 if largest >= 10 else total  # ratios such as 8/1/1 are relative to their sum
    if abs(total - wanted) > wanted / Fraction(10**6):
        raise ValueError(f"{option} must sum to {float(wanted):g}, got {given!r}, which sums to {float(total):g}")
    return {name: share / total for name, share in shares.items()}


Shares: TypeAlias = dict[str, Fraction]  # of all samples, by split; they sum to one
Bounds: TypeAlias = NDArray[np.uint64]  # draws below the first bound belong to the first split, and so on

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*")
_WHOLE = 1 << 64


def draw(hashes: Hashes, seed: int, purpose: str) -> Hashes:
    """A pseudo-random number per hash, always the same for one seed and purpose."""
    key, drawn = _native.xxh64(purpose.encode(), seed), roomy(len(hashes), np.uint64)

    def draw_some(some: slice) -> None:
        drawn[some] = hash_words(hashes[some], key, threads=1)

    in_steps(len(hashes), draw_some)
    return drawn


def parse_shares(split: Mapping[str, float] | str | None) -> Shares | str:
    """Shares by name, from `80/10/10`, `train=0.8,val=0.2` or a mapping; the name of a column stays text."""
    if split is None:
        return {TRAIN: Fraction(1)}
    if isinstance(split, str) and not _is_shares(split):
        return split
    if not isinstance(split, str | Mapping):
        raise ValueError(f"split must be as '80/20' or {{'train': 0.8, 'val': 0.2}}, got {split!r}")
    named = {check_name(name): Fraction(str(share)) for name, share in named_shares(split, "split").items()}
    return shares_of_one(named, split)


def _is_shares(text: str) -> bool:
    return "=" in text or "/" in text or re.fullmatch(r"[\d.]+", text.strip()) is not None


def named_shares(given: Mapping[str, Any] | str, option: str) -> dict[str, Any]:
    """The share of each split, by name: `80/10/10` is for train, val and test."""
    if isinstance(given, Mapping):
        return dict(given)
    try:
        if "=" in given:
            pairs = (part.split("=") for part in given.split(","))
            return {name.strip(): Fraction(share.strip()) for name, share in pairs}
        shares = [Fraction(part.strip()) for part in given.split("/")]
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{option} must be as 80/10/10 or train=0.8,val=0.2; got {given!r}") from None
    if len(shares) > len(_NAMES):
        raise ValueError(f"{option} must name its parts if there are more than three (a=0.4,b=…), got {given!r}")
    return dict(zip(_NAMES, shares, strict=False))


def check_name(name: str) -> str:
    """A split's name becomes part of file names."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"the name of a split must be of letters, digits, _ and ., got {name!r}")
    return name


def bounds_of(shares: Sequence[Fraction]) -> Bounds:
    """Where the draws of one split end and those of the next begin."""
    ends, total = [], Fraction(0)
    for share in list(shares)[:-1]:
        total += share
        ends.append(min(int(total * _WHOLE), _WHOLE - 1))
    return np.array(ends, np.uint64)


def assign(draws: Hashes, bounds: Bounds) -> NDArray[np.uint8]:
    """The split of each draw."""
    found = roomy(len(draws), np.uint8)

    def assign_some(some: slice) -> None:
        found[some] = np.searchsorted(bounds, draws[some], side="right")

    in_steps(len(draws), assign_some)
    return found


def assign_exactly(draws: Hashes, shares: Sequence[Fraction], classes: NDArray[Any] | None) -> NDArray[np.uint8]:
    """Splits with exact counts, per class if there are classes; adding samples may move others."""
    classes = _one_class(draws) if classes is None else classes
    bounds: dict[int, Bounds] = {}
    equal: list[tuple[int, np.uint64, int, NDArray[np.int64]]] = []  # draws on both sides of an end: class, draw, rank
    for own, ordered in _draws_by_class(classes, draws):
        ends = np.array([_rounded(sum(shares[: i + 1], Fraction(0)) * len(ordered)) for i in range(len(shares) - 1)])
        bounds[own] = np.array([_draw_at(ordered, end) for end in ends.tolist()], np.uint64)
        for end, bound in zip(ends.tolist(), bounds[own], strict=True):
            if end > 0 and ordered[end - 1] >= bound:
                equal.append((own, bound, int(np.searchsorted(ordered, bound)), ends))
    found = assign_stratified(draws, bounds, classes, bounds_of(shares))
    for own, value, rank, ends in equal:
        rows = np.concatenate(
            [some.start + np.flatnonzero((draws[some] == value) & (classes[some] == own)) for some in steps(len(draws))]
        )
        found[rows] = np.searchsorted(ends, rank + np.arange(len(rows)), side="right")
    return found


def _draw_at(ordered: Hashes, rank: int) -> int:
    """The draw at which a split ends: the next one in order, or the last there can be."""
    return int(ordered[rank]) if rank < len(ordered) else _WHOLE - 1


def stratified_bounds(draws: Hashes, shares: Sequence[Fraction], classes: NDArray[Any]) -> dict[int, Bounds]:
    """Bounds per class: those of the shares, moved just enough for each count to be right within one.

    A large class has nearly the bounds of the shares, so later samples move few others. An append moves none, since it
    uses the stored bounds.
    """
    nominal = bounds_of(shares)
    found: dict[int, Bounds] = {}
    for own, counts, ordered in _sorted_by_class(classes, draws):
        starts = np.cumsum(counts) - counts
        bounds, wanted = np.tile(nominal, (len(own), 1)), Fraction(0)
        for i, share in enumerate(shares[:-1]):
            wanted += share
            sizes = {size: _rounded(wanted * size) for size in np.unique(counts).tolist()}
            exact = np.array([sizes[size] for size in counts.tolist()])
            below = np.add.reduceat(ordered < nominal[i], starts, dtype=np.int64)
            nearest_count = np.clip(below, exact - 1, exact + 1)
            last = np.minimum(starts + nearest_count, len(ordered) - 1)
            moved = np.where(nearest_count < counts, ordered[last], np.uint64(_WHOLE - 1))
            bounds[:, i] = np.where(nearest_count == below, nominal[i], moved)
        found.update(zip(own.tolist(), np.maximum.accumulate(bounds, axis=1), strict=True))
    return found


def _draws_by_class(classes: NDArray[Any], draws: Hashes) -> Iterator[tuple[int, Hashes]]:
    """The draws of each class, sorted."""
    for own, counts, ordered in _sorted_by_class(classes, draws):
        ends = np.cumsum(counts).tolist()
        for number, begin, end in zip(own.tolist(), [0, *ends], ends, strict=False):
            yield number, ordered[begin:end]


def _sorted_by_class(classes: NDArray[Any], draws: Hashes) -> Iterator[tuple[Rows, Rows, Hashes]]:
    """Some classes, how many draws each has, and their draws, one class after the other and each sorted.

    Small classes come several at a time, a large one alone, in a roomy array.
    """
    counts = np.zeros(0, np.int64)
    for some in steps(len(classes)):
        more = np.bincount(classes[some] + 1)
        counts = np.pad(counts, (0, max(0, len(more) - len(counts))))
        counts[: len(more)] += more
    groups = np.cumsum(counts) // _SORTED_AT_ONCE  # classes of one number are few together
    for group in np.unique(groups[counts > 0]).tolist():
        own = np.flatnonzero((groups == group) & (counts > 0)) - 1
        kept, at = roomy(int(counts[own + 1].sum()), np.uint64), 0
        of = roomy(len(kept), classes.dtype)
        for some in steps(len(classes)):
            here = (classes[some] >= own[0]) & (classes[some] <= own[-1])
            count = int(np.count_nonzero(here))
            kept[at : at + count], of[at : at + count] = draws[some][here], classes[some][here]
            at += count
        if len(own) == 1:
            kept.sort()
        else:
            kept = kept[np.lexsort((kept, of))]
        yield own, counts[own + 1], kept


def assign_stratified(
    draws: Hashes, bounds: Mapping[int, Bounds], classes: NDArray[Any], default: Bounds
) -> NDArray[np.uint8]:
    """The split of each draw by the bounds of its class; a class without bounds has the default."""
    numbers = range(-1, max([*bounds, int(classes.max()) if len(classes) else -1]) + 1)
    table = np.array([bounds.get(number, default) for number in numbers], np.uint64).reshape(len(numbers), len(default))
    found = roomy(len(draws), np.uint8)

    def assign_some(some: slice) -> None:
        found[some] = (table[classes[some] + 1] <= draws[some][:, None]).sum(axis=1)

    in_steps(len(draws), assign_some)
    return found


def assign_groups_exactly(
    draws: Hashes, shares: Sequence[Fraction], classes: NDArray[Any] | None = None
) -> NDArray[np.uint8]:
    """Splits of whole groups, whose samples have one draw, with counts as near to the shares as groups allow.

    Every split has a group, if there are as many groups as splits; of every class, if there are classes.
    """
    classes = _one_class(draws) if classes is None else classes
    bounds = {own: _bounds_of_groups(ordered, shares) for own, ordered in _draws_by_class(classes, draws)}
    return assign_stratified(draws, bounds, classes, bounds_of(shares))


def _one_class(draws: Hashes) -> NDArray[np.int8]:
    return np.broadcast_to(np.int8(0), len(draws))


def _bounds_of_groups(ordered: Hashes, shares: Sequence[Fraction]) -> Bounds:
    """Where the draws of one split end, between groups: samples of a group have one draw."""
    ends = _ends_of_runs(ordered)
    cuts: list[int] = []  # how many groups are in the splits up to one
    total = Fraction(0)
    for number, share in enumerate(list(shares)[:-1]):
        total += share
        nearest_end = _nearest(ends, float(total * len(ordered))) + 1
        at_least, left = (cuts[-1] if cuts else 0) + 1, len(shares) - 1 - number
        cuts.append(min(max(nearest_end, at_least), max(len(ends) - left, at_least)))
    starts = [int(ends[cut - 1]) if cut <= len(ends) else len(ordered) for cut in cuts]
    return np.array([_draw_at(ordered, start) for start in starts], np.uint64)


def _ends_of_runs(ordered: Hashes) -> NDArray[np.int64]:
    """Where the last of several equal numbers is, plus one."""
    ends = Pile(np.int64)
    for some in steps(len(ordered) - 1):
        ends.add(np.flatnonzero(ordered[some] != ordered[some.start + 1 : some.stop + 1]) + some.start + 1)
    ends.add(np.array([len(ordered)] * (len(ordered) > 0), np.int64))
    return ends.whole()


def _nearest(ascending: NDArray[np.int64], wanted: float) -> int:
    """Where the number is that is nearest to one; the first of two."""
    at = int(np.searchsorted(ascending, wanted))
    is_before = at > 0 and (at == len(ascending) or wanted - ascending[at - 1] <= ascending[at] - wanted)
    return at - is_before


def without_test(shares: Shares, given: Any) -> Shares:
    """The shares of the other splits, summing to one: of what is left where a test split is there already."""
    rest = {name: share for name, share in shares.items() if as_split(name) != TEST}
    if not rest:
        raise ValueError(f"split must name a part beside test, which the source has already; got {given!r}")
    whole = sum(rest.values(), Fraction(0))
    return {name: share / whole for name, share in rest.items()}


def _rounded(number: Fraction) -> int:
    return int(number + Fraction(1, 2))


Rows = NDArray[np.int64]
_MANY_ROWS = 1 << 18


@dataclass(frozen=True)
class Division:
    """How samples are divided, and the columns in which the source itself has splits and groups."""

    split: Mapping[str, float] | str | None = None
    resplit: bool = False
    exact: bool = False
    stratify: str | None = None
    requested_group: str | None = None
    seed: int = 0
    own_split: str | None = None
    own_group: str | None = None

    @property
    def split_column(self) -> str | None:
        """The column of splits: the requested one, or that of the source if no shares are given."""
        shares = parse_shares(self.split)
        if isinstance(shares, str):
            return shares
        return self.own_split if self.split is None else None

    @property
    def kept_column(self) -> str | None:
        """The source's own column of splits, of which the test split is kept where shares divide the rest."""
        return None if self.resplit or self.split is None else self.own_split

    @property
    def group(self) -> str | None:
        """The column of groups: the requested one, or that of the source if shares are drawn."""
        if self.requested_group is not None or self.own_group is None or self.split is None or self.split_column:
            return self.requested_group
        return self.own_group

    @property
    def columns(self) -> list[str]:
        """The columns that decide the split."""
        names = (self.stratify, self.group, self.split_column or self.kept_column)
        return [name for name in names if name is not None]


@dataclass(frozen=True)
class Divided:
    """The names of splits, the number of each row's split, and what else was found."""

    names: list[str]
    split_of: NDArray[np.uint8]
    bounds: dict[str, list[int]] = field(default_factory=dict)  # of stratified splits, by class
    kept_test: int = 0  # samples of the source's own test split


def divide(
    division: Division,
    hashes: Hashes,
    columns: Mapping[str, Categories],
    *,
    known_bounds: Mapping[str, list[int]] | None = None,
    known_splits: Collection[str] = (),
) -> Divided:
    """The split of every row. `hashes` are those of keys; what is known belongs to a dataset that is added to."""
    return _Divider(division, hashes, columns, known_bounds or {}, known_splits).divide()


@dataclass(frozen=True)
class _Divider:
    division: Division
    hashes: Hashes
    columns: Mapping[str, Categories]
    known_bounds: Mapping[str, list[int]]
    known_splits: Collection[str]
    bounds: dict[str, list[int]] = field(default_factory=dict)

    def divide(self) -> Divided:
        division = self.division
        if division.split_column is not None:
            return self._by_column(division.split_column)
        shares = parse_shares(division.split)
        assert not isinstance(shares, str)
        if (kept := self._kept_test()) is None:
            return Divided(list(shares), self._by_shares(None, list(shares.values())), self.bounds)
        rest = without_test(shares, division.split)
        found = np.full(len(self.hashes), len(rest), np.uint8)
        found[~kept] = self._by_shares(np.flatnonzero(~kept), list(rest.values()))
        self._check_groups(found)
        return Divided([*rest, TEST], found, self.bounds, int(kept.sum()))

    def _kept_test(self) -> NDArray[np.bool_] | None:
        """The samples of the source's test split; None if there are none, or if they may be mixed."""
        if (column := self.division.kept_column) is None:
            return None
        values = self.columns[column]
        codes = [code for code, name in enumerate(values.names()) if as_split(name) == TEST]
        found = np.isin(values.codes(), codes)
        return found if found.any() and not found.all() else None

    def _by_column(self, column: str) -> Divided:
        values = self.columns[column]
        if len(values.missing):
            raise BushelError(f"{len(values.missing):,} samples have no {column!r}, so they have no split")
        usual = common_names(values.names(), self.known_splits)
        names = in_order({check_name(name) for name in usual.values()})
        if len(names) > _MOST_SPLITS:
            help = [f"If {column!r} is no split, rename the column; --split 80/20 --resplit divides all samples."]
            what = f"{column!r} has {len(names):,} values, and a dataset has at most {_MOST_SPLITS} splits"
            raise BushelError(what, help=help)
        places = np.array([names.index(usual[name]) for name in values.names()], np.uint8)
        found: NDArray[np.uint8] = places[values.codes()]
        self._check_groups(found)
        return Divided(names, found)

    def _by_shares(self, rows: Rows | None, parts: list[Any]) -> NDArray[np.uint8]:
        division = self.division
        hashes = self.hashes if division.group is None else self._group_hashes()
        if len(parts) == 1 and division.stratify is None:  # nothing is left to chance
            return np.zeros(len(hashes) if rows is None else len(rows), np.uint8)
        draws = draw(hashes if rows is None else taken(hashes, rows), division.seed, "split")
        codes = self.columns[division.stratify].codes() if division.stratify else None
        classes = codes if codes is None or rows is None else taken(codes, rows)
        if classes is not None and division.group is not None:
            self._check_classes(draws, classes)
        if division.exact:
            if division.group is not None:
                return assign_groups_exactly(draws, parts, classes)
            return assign_exactly(draws, parts, classes)
        if classes is not None:
            return self._stratified(draws, parts, classes)
        return assign(draws, bounds_of(parts))

    def _check_classes(self, draws: Hashes, classes: NDArray[Any]) -> None:
        """Refuse groups of several classes: they cannot be in one split each and give every class its shares."""
        of_group = np.unique(draws, return_inverse=True)[1].reshape(-1)
        pairs = np.unique(np.stack([of_group, classes]), axis=1)
        mixed = np.flatnonzero(np.bincount(pairs[0]) > 1)
        if len(mixed):
            raise BushelError(
                f"{len(mixed):,} of {int(of_group.max()) + 1:,} groups of {self.division.group!r} hold several classes "
                f"of {self.division.stratify!r}, and groups are not divided",
                help=["Leave --stratify out: groups are then drawn at random."],
            )

    def _stratified(self, draws: Any, parts: Any, classes: Any) -> NDArray[np.uint8]:
        names, known = self.columns[self.division.stratify or ""].names(), self.known_bounds
        each = slice(None) if self.division.group is None else np.unique(draws, return_index=True)[1]  # a row per group
        found = stratified_bounds(draws[each], parts, classes[each])
        bounds = {
            code: np.array(known[names[code]], np.uint64) if code >= 0 and names[code] in known else bound
            for code, bound in found.items()
        }
        fresh = {names[code]: [int(end) for end in bound] for code, bound in bounds.items() if code >= 0}
        self.bounds.update({**known, **fresh})
        return assign_stratified(draws, bounds, classes, bounds_of(parts))

    def _group_hashes(self) -> Hashes:
        assert self.division.group is not None
        groups = self.columns[self.division.group]
        if len(groups.missing):
            raise BushelError(
                f"{len(groups.missing):,} samples have no {self.division.group!r}, so they belong to no group",
                help=[f"The first is row {groups.missing[0]} of the source."],
            )
        return groups.hashes

    def _check_groups(self, split_of: NDArray[np.uint8]) -> None:
        """Refuse groups that are in more than one split."""
        if (name := self.division.group) is None:
            return
        hashes = self._group_hashes()
        groups = np.unique(hashes, return_inverse=True)[1].astype(np.int64)
        pairs = np.unique(groups * 256 + split_of)
        leaking = np.flatnonzero(np.bincount(pairs // 256) > 1)
        if len(leaking):
            group = self.columns[name].values[int(hashes[int(np.argmax(groups == leaking[0]))])]
            raise BushelError(
                f"{len(leaking):,} of {groups.max() + 1:,} groups are in more than one split; "
                f"the first is {text_of(group)!r}",
                help=[f"To split by {name!r} instead: --split 80/10/10 --resplit --group {name}"],
            )


_SORTED_AT_ONCE = 1 << 23  # which takes 16 bytes each


def ordered_rows(hashes: Hashes, rows: Rows | None, *, seed: int, shuffled: bool) -> Rows:
    """Rows, all if they are None, in the order in which they are written."""
    if not shuffled:
        return numbers(len(hashes)) if rows is None else rows
    ordered = roomy(len(hashes) if rows is None else len(rows), np.int64)
    key = _native.xxh64(b"order", seed)
    _native.order_drawn(hashes, rows, key, available_cores(), _SORTED_AT_ONCE, ordered)
    return ordered


def numbers(count: int) -> Rows:
    """0, 1, 2, …: so many of them."""
    found = roomy(count, np.int64)

    def number(some: slice) -> None:
        found[some] = np.arange(some.start, some.stop)

    in_steps(count, number)
    return found


def repeated(hashes: Hashes) -> Hashes:
    """The hashes that are there more than once."""
    return np.asarray(_native.repeated(hashes, available_cores(), _SORTED_AT_ONCE))


def taken(values: NDArray[Any], rows: Rows) -> NDArray[Any]:
    """`values[rows]`, in threads where there are many: most of the time goes into waiting for memory."""
    if len(rows) < _MANY_ROWS:
        return values[rows]
    out = roomy(len(rows), values.dtype)
    in_steps(len(rows), lambda some: np.take(values, rows[some], out=out[some], mode="clip"))
    return out
