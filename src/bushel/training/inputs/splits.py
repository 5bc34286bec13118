"""The records a model learns from, those it is judged by, and batches of them as the model is fed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn
from bushel.errors import FileProblem, MissingName
from bushel.feeding.preparation import Problem, encode_labels, inputs_of
from bushel.reading import Dataset, Feed, Order, Split, Workers, batches
from bushel.reading.dataset import open as open_dataset
from bushel.reading.order import permute
from bushel.records.record_roles import account_of
from bushel.storage import AnyPath
from bushel.training.options import Options

__all__ = [
    "Groups",
    "Splits",
    "feature_rows",
    "feed_of",
    "find_groups",
    "open_splits",
    "row_batches",
    "rows_of",
    "sampled",
    "some_records",
    "spread",
]

Array = NDArray[Any]

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


@dataclass(frozen=True)
class Groups:
    """The feature that says which records belong together, and why that is thought."""

    name: str
    why: str

    def codes(self, split: Split) -> NDArray[np.int64]:
        """The group of each record of a split, as a number."""
        column: Any = split.values(self.name)
        values = (
            column.to_list() if isinstance(column, BytesColumn) else np.asarray(column).reshape(len(split), -1)[:, 0]
        )
        return np.unique(np.asarray(values), return_inverse=True)[1].reshape(-1)


def find_groups(splits: Splits, asked: str | None) -> Groups | None:
    """What the user or the build says, else a feature that is usual for groups; None if records stand alone."""
    schema, manifest = splits.train.schema, splits.data.manifest
    if asked == "none":
        return None
    if asked is not None:
        if asked not in schema:
            raise MissingName("feature", asked, schema, where=splits.train.paths[0])
        return Groups(asked, "--group says so")
    recipe = manifest.recipe if manifest is not None else {}
    built = recipe.get("group") or ("series" if recipe.get("source", {}).get("kind") == "series" else None)
    if built is not None and built in schema:
        return Groups(built, "the build says so")
    account = account_of(splits.train.paths, schema, manifest)
    found = [name for name in account.of("group") if schema[name].required and schema[name].shape in ((), (1,))]
    return Groups(found[0], account.roles[found[0]].why) if found else None


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


def spread(count: int, most: int) -> NDArray[np.int64]:
    """At most `most` numbers below `count`, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))


def sampled(split: Split, names: list[str], most: int) -> dict[str, Any]:
    """Features of at most `most` records, evenly spread over the split, as columns."""
    numbers = spread(len(split), most)
    return split.read(numbers if split.rows is None else np.asarray(split.rows[numbers], np.int64), names)


def feed_of(
    split: Split, problem: Problem, options: Options, *, augmentation: tuple[Any, ...] = (), training: bool = False
) -> Feed:
    """Batches of a split: shuffled, augmented and without end for training, else in order and once."""
    preparation = problem.preparation
    order = Order(shuffle=options.shuffle and training, seed=options.seed, buffer=options.shuffle_buffer)
    return batches(
        split,
        batch_size=options.batch_size,
        columns=list(dict.fromkeys([*preparation.features, problem.target.label])),
        order=order,
        transforms=[*preparation.transforms, *augmentation, *preparation.scaling],
        layout=preparation.layout,
        epochs=None if training else 1,
        drop_last=training and options.strategy is not None,  # devices take equal shares
        on_fault=options.on_fault,
        workers=Workers(threads=options.threads),
    )


def some_records(split: Split, most: int) -> Split:
    """At most `most` records, evenly spread over a split; all of them if its shards are compressed."""
    return split if split.is_sequential or len(split) <= most else split.select(spread(len(split), most))


def rows_of(
    split: Split, problem: Problem, options: Options, *, most: int, augmentation: tuple[Any, ...] = ()
) -> tuple[dict[str, Array], Array]:
    """At most `most` rows from all over a split, as the model is fed them: each input as an array, and labels."""
    parts = list(row_batches(split, problem, options, most, augmentation))
    arrays = {name: np.concatenate([x[name] for x, _ in parts])[:most] for name in problem.preparation.names}
    return arrays, np.concatenate([labels for _, labels in parts])[:most]


def feature_rows(
    split: Split,
    problem: Problem,
    options: Options,
    make: Callable[[dict[str, Array]], Array],
    *,
    most: int,
    augmentation: tuple[Any, ...] = (),
) -> tuple[Array, Array]:
    """The same as rows of numbers, made batch by batch: of large images not all need to be kept."""
    parts = [(make(x), labels) for x, labels in row_batches(split, problem, options, most, augmentation)]
    return np.concatenate([x for x, _ in parts])[:most], np.concatenate([labels for _, labels in parts])[:most]


def row_batches(
    split: Split, problem: Problem, options: Options, most: int, augmentation: tuple[Any, ...] = ()
) -> Iterator[tuple[dict[str, Array], Array]]:
    """The same batch by batch; the last may go beyond `most`."""
    taken = 0
    with closing(feed_of(some_records(split, most), problem, options, augmentation=augmentation)) as feed:
        for batch in feed:
            yield inputs_of(problem.preparation, batch), encode_labels(problem.target, batch[problem.target.label])
            taken += len(batch.rows)
            if taken >= most:
                return
