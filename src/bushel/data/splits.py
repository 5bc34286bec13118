"""Splits: what they are called, which share each gets, and which split a sample belongs to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.categories import Hashes, hash_words

__all__ = [
    "SPLITS",
    "Shares",
    "assign",
    "assign_exactly",
    "draw",
    "parse_shares",
    "shares_of_one",
    "split_named",
    "split_of_shard",
    "stratified_bounds",
]


def shares_of_one(shares: Mapping[str, Fraction], given: Any, option: str = "split") -> dict[str, Fraction]:
    """The shares, summing to one: 0.8 and 0.2, 80 and 20, or 4 and 1. Slips of the pen (80/30) are errors."""
    if any(share <= 0 for share in shares.values()):
        raise ValueError(f"{option} must give each part more than 0, got {given!r}")
    total = sum(shares.values(), Fraction(0))
    largest = max(shares.values())
    wanted = 1 if largest < 1 else 100 if largest >= 10 else total  # ratios such as 8/1/1 are of what they sum to
    if abs(total - wanted) > wanted / Fraction(10**6):
        raise ValueError(f"{option} must sum to {float(wanted):g}, got {given!r}, which sums to {float(total):g}")
    return {name: share / total for name, share in shares.items()}


Shares: TypeAlias = dict[str, Fraction]  # of all samples, by split; they sum to one
Bounds: TypeAlias = NDArray[np.uint64]  # draws below the first are of the first split, and so on

_NAMES = {1: ("train",), 2: ("train", "val"), 3: ("train", "val", "test")}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*")
_WHOLE = 1 << 64


def draw(hashes: Hashes, seed: int, purpose: str) -> Hashes:
    """A number for each hash, as good as random, and always the same for one seed and purpose."""
    return hash_words(hashes, _native.xxh64(purpose.encode(), seed))


def parse_shares(split: Mapping[str, float] | str | None) -> Shares | str:
    """Shares by name, from `80/10/10`, `train=0.8,val=0.2` or a mapping; the name of a column stays text."""
    if split is None:
        return {"train": Fraction(1)}
    named: Mapping[str, Any] = split if isinstance(split, Mapping) else _from_text(split)
    if not named:
        assert isinstance(split, str)
        return split
    shares = {check_name(name): Fraction(repr(share)) for name, share in named.items()}
    return shares_of_one(shares, split)


def _from_text(text: str) -> dict[str, float]:
    try:
        if "=" in text:
            pairs = (part.split("=") for part in text.split(","))
            return {name.strip(): _number(share) for name, share in pairs}
        numbers = [_number(part) for part in text.split("/")]
    except ValueError:
        if "=" in text or "/" in text:
            raise ValueError(f"split must be as 80/10/10 or train=0.8,val=0.2; got {text!r}") from None
        return {}
    if len(numbers) not in _NAMES:
        raise ValueError(f"split must name its parts if there are more than three (a=0.4,b=…), got {text!r}")
    return dict(zip(_NAMES[len(numbers)], numbers, strict=True))


def _number(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


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
    return np.searchsorted(bounds, draws, side="right").astype(np.uint8)


def assign_exactly(draws: Hashes, shares: Sequence[Fraction], classes: NDArray[Any] | None) -> NDArray[np.uint8]:
    """Splits whose counts are right to the sample, in each class if there are classes; more samples move some."""
    found = np.zeros(len(draws), np.uint8)
    for rows in _by_class(classes, draws):
        ends = [_rounded(sum(shares[: i + 1], Fraction(0)) * len(rows)) for i in range(len(shares) - 1)]
        found[rows] = np.searchsorted(np.array(ends), np.arange(len(rows)), side="right")
    return found


def stratified_bounds(draws: Hashes, shares: Sequence[Fraction], classes: NDArray[Any]) -> dict[int, Bounds]:
    """Bounds for each class: those of the shares, moved no further than each count being right within one needs.

    A class that is large enough has the bounds of the shares, or nearly, so later samples move few; an append moves
    none, since it takes the bounds that were kept.
    """
    nominal = bounds_of(shares)
    found: dict[int, Bounds] = {}
    for rows in _by_class(classes, draws):
        ordered = draws[rows]
        bounds, wanted = nominal.copy(), Fraction(0)
        for i, share in enumerate(shares[:-1]):
            wanted += share
            exact = wanted * len(rows)
            count = int(np.searchsorted(ordered, nominal[i]))
            nearest_count = min(max(count, _rounded(exact) - 1), _rounded(exact) + 1)
            if nearest_count != count:
                bounds[i] = ordered[nearest_count] if nearest_count < len(rows) else np.uint64(_WHOLE - 1)
        found[int(classes[rows[0]])] = np.maximum.accumulate(bounds)
    return found


def assign_stratified(
    draws: Hashes, bounds: Mapping[int, Bounds], classes: NDArray[Any], default: Bounds
) -> NDArray[np.uint8]:
    """The split of each draw by the bounds of its class; a class without any has the default."""
    found = assign(draws, default)
    for rows in _by_class(classes, draws):
        found[rows] = assign(draws[rows], bounds.get(int(classes[rows[0]]), default))
    return found


def _by_class(classes: NDArray[Any] | None, draws: Hashes) -> list[NDArray[np.int64]]:
    """The rows of each class, by their draws."""
    if classes is None:
        return [np.argsort(draws, kind="stable")]
    order = np.lexsort((draws, classes))
    starts = np.flatnonzero(np.diff(classes[order])) + 1
    return [rows for rows in np.split(order, starts) if len(rows)]


def _rounded(number: Fraction) -> int:
    return int(number + Fraction(1, 2))


SPLITS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "eval": "val",
    "evaluation": "val",
}
# What may follow a split in a shard's name: numbers of shards and generations, endings, the hash of a file of the Hub.
_NO_SPLIT = re.compile(r"g?\d+|of|tfrecords?|tfrec|parquet|arrow|gz|gzip|zlib|[0-9a-f]{12,}")


def split_of_shard(name: str) -> str | None:
    """The split that a shard's name tells: `train-00000-of-00008.tfrecord`, `x-val.tfrecord-00000-of-00008`.

    Only the last word tells it: `train_extra-00000-of-00001` is not of `train`.
    """
    words = [word for word in re.split(r"[-_.]", name.lower()) if word and not _NO_SPLIT.fullmatch(word)]
    return _split_of_word(words[-1]) if words else None


def split_named(name: str) -> str | None:
    """The first split that a name holds as a word: `instances_train2017.json`, `val-annotations.json`."""
    found = map(_split_of_word, re.split(r"[^a-z\d]+", name.lower()))
    return next((split for split in found if split), None)


def _split_of_word(word: str) -> str | None:
    return SPLITS.get(word.rstrip("0123456789"))
