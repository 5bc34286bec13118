"""Order is arithmetic: which record stands at which position of which epoch, computed and never stored."""

from __future__ import annotations

import os
import struct
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn
from bushel.errors import SchemaMismatch
from bushel.reading.dataset import Share, Split
from bushel.reading.shards import ShardSet
from bushel.records.index import hash_keys

__all__ = [
    "BufferedShuffle",
    "Order",
    "Quality",
    "Sampler",
    "Uneven",
    "launched_share",
    "sampler_of",
    "shuffle_quality",
]


Ints: TypeAlias = NDArray[np.int64]
Uneven: TypeAlias = Literal["drop", "pad", "wrap"]

# What a key is for, so that no two uses of one seed give the same permutation.
_RECORDS, _BLOCKS, _WITHIN, _SHIFT, _SLOTS, _PARTS, _SHARDS, _BUFFER = range(8)


class BufferedShuffle(UserWarning):
    """Compressed shards are only shuffled by shard and within a buffer."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Order:
    """In which order records are read, and by whom.

    `shuffle` is a permutation of the whole dataset, a new one each epoch. With `block`, blocks of that many
    neighbouring records are permuted, and records within `window` blocks, for disks where random reads are slow.
    `weights` (an array, or the name of a feature) draws records in proportion; `balance` names a feature whose values
    should all come equally often. Each of `world` ranks reads its own share; `uneven` says what to do if the last step
    is not full. Compressed shards are shuffled by shard, and records within a `buffer`.
    """

    shuffle: bool = False
    seed: int = 0
    rank: int = 0
    world: int = 1
    uneven: Uneven = "drop"
    block: int | None = None
    window: int = 16
    weights: NDArray[Any] | Sequence[float] | str | None = field(default=None, repr=False)
    balance: str | None = None
    buffer: int = 10_000

    def __post_init__(self) -> None:
        if self.world < 1:
            raise ValueError(f"world must be at least 1, got {self.world}")
        if not 0 <= self.rank < self.world:
            raise ValueError(f"rank must be at least 0 and below world ({self.world}), got {self.rank}")
        if self.uneven not in ("drop", "pad", "wrap"):
            raise ValueError(f"uneven must be one of drop, pad, wrap; got {self.uneven!r}")
        for name in ("block", "window", "buffer"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.block is not None and not self.shuffle:
            raise ValueError(f"block must come with shuffle=True, got {self.block}")
        if self.weights is not None and self.balance is not None:
            raise ValueError("balance must not come with weights: it sets the weights")


def launched_share() -> tuple[int, int] | None:
    """The rank and world that torchrun and other launchers gave this process; None if it is the only one."""
    rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if not (rank.isdecimal() and world.isdecimal()) or int(world) < 2:
        return None
    return int(rank), int(world)


@dataclass(frozen=True)
class Sampler:
    """A pure function of epoch and position, and how many positions an epoch has."""

    size: int
    rows: Callable[[int, Ints], Ints]  # epoch, positions -> records by their number in the shards


def sampler_of(split: Split, order: Order) -> Sampler:
    """The order of the records of `split`."""
    size = len(split)
    if size == 0:
        return Sampler(0, lambda _, positions: positions)
    if split.is_sequential:
        return _streamed(split, order)
    if order.weights is not None or order.balance is not None:
        return _selected(split, Sampler(size, _weighted(*_weights(split, order), order)))
    if split.parts:
        return _selected(split, Sampler(size, _mixed(split.parts, size, order)))
    if not order.shuffle:
        return _selected(split, Sampler(size, lambda _, positions: positions))
    if order.block is None and split.rows is None and split.shards.together > 1:
        order = _in_groups(split, order)
    if order.block is not None and order.block < size:
        return _selected(split, Sampler(size, _block_shuffled(size, order)))
    return _selected(
        split, Sampler(size, lambda epoch, positions: permute(positions, size, order.seed, epoch, _RECORDS))
    )


def _selected(split: Split, sampler: Sampler) -> Sampler:
    chosen = split.rows
    if chosen is None:
        return sampler
    return Sampler(sampler.size, lambda epoch, positions: chosen[sampler.rows(epoch, positions)])


def key_of(seed: int, *salts: int) -> int:
    """A key for one use of a seed."""
    wrapped = [value & (2**64 - 1) for value in (seed, *salts)]
    return _native.xxh64(struct.pack(f"<{len(wrapped)}Q", *wrapped))


def permute(positions: Ints, size: int, seed: int, *salts: int) -> Ints:
    """Where positions 0 .. size - 1 go."""
    return cast("Ints", _native.permute(positions, size, key_of(seed, *salts)))


def _block_shuffled(size: int, order: Order) -> Callable[[int, Ints], Ints]:
    """Permute full blocks, and records among `window` of them.

    An incomplete block comes last; a shift that changes each epoch makes it different records every time.
    """
    assert order.block is not None
    block, seed = order.block, order.seed
    blocks = size // block
    region = block * order.window

    def rows(epoch: int, positions: Ints) -> Ints:
        out = positions.copy()
        inside = np.flatnonzero(positions < blocks * block)
        for number in np.unique(positions[inside] // region).tolist():
            at = inside[positions[inside] // region == number]
            length = min(region, blocks * block - number * region)
            within = permute(positions[at] - number * region, length, seed, epoch, _WITHIN, number)
            chosen = permute(number * order.window + within // block, blocks, seed, epoch, _BLOCKS)
            out[at] = chosen * block + within % block
        shifted: Ints = (out + key_of(seed, epoch, _SHIFT) % size) % size
        return shifted

    return rows


def _weighted(weights: NDArray[np.float64], by_class: Ints | None, order: Order) -> Callable[[int, Ints], Ints]:
    """Draw with replacement, evenly.

    The total weight is cut into equal slices, and each slot draws at random within its own, so that a record comes as
    often as its weight says, give or take one.
    """
    ends = np.cumsum(weights if by_class is None else weights[by_class])
    size = len(weights)

    def rows(epoch: int, positions: Ints) -> Ints:
        slots = permute(positions, size, order.seed, epoch, _SLOTS) if order.shuffle else positions
        jitter = _uniforms(slots, key_of(order.seed, epoch, _WITHIN))
        found = np.searchsorted(ends, (slots + jitter) / size * ends[-1], side="right")
        drawn = np.asarray(np.minimum(found, size - 1), np.int64)
        return drawn if by_class is None else by_class[drawn]

    return rows


def _uniforms(numbers: Ints, key: int) -> NDArray[np.float64]:
    """A number from 0 to 1 per integer, by splitmix64."""
    z = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / 2.0**53


def _weights(split: Split, order: Order) -> tuple[NDArray[np.float64], Ints | None]:
    """The weight of each record, and the records class by class, so that a slice of the weight belongs to one class."""
    if order.balance is not None:
        column = split.values(order.balance)
        classes = hash_keys(column) if isinstance(column, BytesColumn) else column
        if not isinstance(classes, np.ndarray) or classes.ndim != 1:
            raise SchemaMismatch("balance takes a feature of one value", at=order.balance)
        _, members, counts = np.unique(classes, return_inverse=True, return_counts=True)
        return np.asarray(1.0 / counts[members], np.float64), np.argsort(members, kind="stable")
    given = split.values(order.weights) if isinstance(order.weights, str) else order.weights
    weights = np.asarray(given, np.float64)
    if weights.shape != (len(split),):
        raise ValueError(f"weights must be {len(split)} numbers, one per record; got shape {weights.shape}")
    if not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() <= 0:
        raise ValueError(f"weights must be finite, at least 0 and not all 0; got a least of {weights.min()}")
    return weights, None


def _mixed(parts: tuple[Share, ...], size: int, order: Order) -> Callable[[int, Ints], Ints]:
    """Each split of a mixture has a share of the slots of an epoch; its records come in turn through all epochs."""
    total = sum(part.weight for part in parts)
    bounds = np.rint(np.cumsum([0.0, *(part.weight for part in parts)]) / total * size).astype(np.int64)
    seed = order.seed

    def rows(epoch: int, positions: Ints) -> Ints:
        slots = permute(positions, size, seed, epoch, _PARTS)
        owners = np.searchsorted(bounds, slots, side="right") - 1
        out = np.empty_like(slots)
        for number in np.unique(owners).tolist():
            part, at = parts[number], np.flatnonzero(owners == number)
            share = int(bounds[number + 1] - bounds[number])
            turns = epoch * share + slots[at] - bounds[number]
            places = turns % part.records
            if order.shuffle:
                for turn in np.unique(turns // part.records).tolist():
                    of = turns // part.records == turn
                    places[of] = permute(places[of], part.records, seed, turn, _RECORDS, number)
            out[at] = part.first + places
        return out

    return rows


_WINDOW_OF_GROUPS = 256


def _in_groups(split: Split, order: Order) -> Order:
    """The order for records that are inflated many at a time: groups of them are shuffled, and records among many."""
    order = replace(order, block=split.shards.together, window=max(order.window, _WINDOW_OF_GROUPS))
    assert order.block is not None
    warnings.warn(
        f"{split.paths[0]}: many records are inflated for each that is read, so blocks of {order.block:,} records are "
        f"shuffled, and their records among {order.window:,} blocks; Order(block=1) shuffles single records",
        BufferedShuffle,
        stacklevel=6,
    )
    return order


def _streamed(split: Split, order: Order) -> Sampler:
    """Shards in permuted order, and their records in windows of the size of the buffer, each permuted separately."""
    if order.weights is not None or order.balance is not None or split.parts or split.rows is not None:
        raise ValueError(
            f"{split.paths[0]}: compressed shards cannot be read at random, so weights, balance, mixtures and "
            "selections need uncompressed ones"
        )
    shards, size = split.shards, len(split)
    if not order.shuffle:
        return Sampler(size, lambda _, positions: positions)
    warnings.warn(
        f"{split.paths[0]}: compressed shards cannot be read at random: shuffled by shard, and in a buffer of "
        f"{order.buffer} records",
        BufferedShuffle,
        stacklevel=5,
    )
    shards.hold(3 * order.buffer)
    arranged = lru_cache(maxsize=4)(lambda epoch: _arrange_shards(shards, order.seed, epoch))

    def rows(epoch: int, positions: Ints) -> Ints:
        places = positions.copy()
        for number in np.unique(positions // order.buffer).tolist():
            at = np.flatnonzero(positions // order.buffer == number)
            first = number * order.buffer
            length = min(order.buffer, size - first)
            places[at] = first + permute(positions[at] - first, length, order.seed, epoch, _BUFFER, number)
        firsts, starts = arranged(epoch)
        turn = np.searchsorted(starts, places, side="right") - 1
        return np.asarray(firsts[turn] + places - starts[turn], np.int64)

    return Sampler(size, rows)


def _arrange_shards(shards: ShardSet, seed: int, epoch: int) -> tuple[Ints, Ints]:
    """The first record of each shard in this epoch's order, and where it comes in the stream."""
    chosen = permute(np.arange(len(shards.shards)), len(shards.shards), seed, epoch, _SHARDS)
    counts = np.diff(shards.first)[chosen]
    return shards.first[chosen], np.cumsum(counts) - counts


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """The order of one epoch compared with the order in the files, and with the next epoch."""

    coverage: float  # share of the records that come exactly once; perfect: 1
    rank_correlation: float  # with the order in the files; perfect: 0
    neighbours: float  # share of records followed within a batch by their successor in the files; perfect: about 0
    displacement: float  # how far a record moves, relative to random; perfect: 1
    labels: float  # labels per batch, for files sorted by label, relative to random; perfect: 1
    epoch_correlation: float  # between the places of a record in two epochs; perfect: 0


def shuffle_quality(first: Ints, second: Ints, *, batch_size: int = 256, classes: int = 100) -> Quality:
    """Judge the records of two epochs, each in the order they are read."""
    size = len(first)
    counts = np.bincount(first, minlength=size)
    places, later = np.empty(size, np.int64), np.empty(size, np.int64)
    places[first], later[second] = np.arange(size), np.arange(size)
    numbers = np.arange(size)
    return Quality(
        coverage=float((counts == 1).mean()),
        rank_correlation=_correlation(numbers, first),
        neighbours=float((np.abs(np.diff(places)) < batch_size).mean()),
        displacement=float(np.abs(places - numbers).mean() / (size / 3)),
        labels=_labels(first, batch_size, classes),
        epoch_correlation=_correlation(places, later),
    )


def _correlation(a: Ints, b: Ints) -> float:
    return float(np.corrcoef(a, b)[0, 1])


def _labels(rows: Ints, batch_size: int, classes: int) -> float:
    whole = len(rows) // batch_size
    labels = (rows[: whole * batch_size] * classes // len(rows)).reshape(whole, batch_size)
    distinct = np.array([len(np.unique(batch)) for batch in labels[:: max(1, whole // 200)]])
    at_random = classes * (1 - (1 - 1 / classes) ** batch_size)
    return float(distinct.mean() / at_random)
