"""Which records a model learns from, which decide when to stop, and which say how good it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bushel.errors import FileProblem
from bushel.reading import Dataset, Split
from bushel.reading import open as open_dataset
from bushel.reading.order import permute
from bushel.storage import AnyPath

__all__ = ["Splits", "open_splits", "spread"]

HELD_OUT = 0.2
_SALT = 77  # of the permutation that holds records out


@dataclass(frozen=True)
class Splits:
    """The splits of a run; `notes` report what was chosen where the dataset does not say."""

    data: Dataset
    train: Split
    val: Split
    test: Split | None
    notes: tuple[str, ...] = ()

    @property
    def judged(self) -> Split:
        """What the verdict is measured on: the test split, or val where there is none."""
        return self.test or self.val


def open_splits(data: AnyPath | Iterable[AnyPath] | Dataset, *, seed: int) -> Splits:
    """Take the splits train, val and test; hold a fifth of the records out where there is no val."""
    opened = data if isinstance(data, Dataset) else open_dataset(data)
    train = _first(opened, ("train", "all")) or (next(iter(opened.splits.values())) if len(opened) == 1 else None)
    if train is None:
        raise FileProblem(opened.where, f"there is no train split, only {', '.join(opened)}")
    val, test = _first(opened, ("val",)), _first(opened, ("test",))
    notes = []
    if val is None:
        train, val, note = _hold_out(train, seed)
        notes.append(note)
    for name, split in (("train", train), ("val", val)):
        if not len(split):
            raise FileProblem(opened.where, f"the {name} split has no records")
    return Splits(opened, train, val, test, tuple(notes))


def _first(data: Dataset, names: tuple[str, ...]) -> Split | None:
    found = next((data[name] for name in names if name in data), None)
    return found if found is not None and len(found) else None


def _hold_out(split: Split, seed: int) -> tuple[Split, Split, str]:
    """A fifth of the records, by a seeded permutation; of compressed files, whole files."""
    if split.is_sequential:
        return _hold_out_files(split)
    count = len(split)
    held = max(1, round(HELD_OUT * count))
    if count < 2:
        raise FileProblem(split.paths[0], f"{count:,} records are too few to train and to validate on")
    chosen = permute(np.arange(count, dtype=np.int64), count, seed, 0, _SALT)
    note = f"there is no val split: {held:,} of the {count:,} records of {split.name} are held out (seed {seed})"
    return split.select(np.sort(chosen[held:])), split.select(np.sort(chosen[:held])), note


def _hold_out_files(split: Split) -> tuple[Split, Split, str]:
    paths = split.paths
    if len(paths) < 2:
        raise FileProblem(
            paths[0],
            "there is no val split, and a single compressed file cannot be divided",
            help=["Build the dataset with one: bushel build FILE OUT --split 80/20"],
        )
    held = max(1, round(HELD_OUT * len(paths)))
    train = Split(split.name, paths[:-held], split.schema, label=split.label)
    val = Split(split.name, paths[-held:], split.schema, label=split.label)
    return train, val, f"there is no val split: the last {held} of {len(paths)} compressed files are held out"


def spread(split: Split, most: int) -> NDArray[np.int64]:
    """At most `most` records, evenly spread over the split, by their number in the shards."""
    count = len(split)
    numbers = np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))
    return numbers if split.rows is None else np.asarray(split.rows[numbers], np.int64)
