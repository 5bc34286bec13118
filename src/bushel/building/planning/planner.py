"""From a source to a plan: list, split, balance, probe, and size the shards."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.building.planning import plan as plans
from bushel.building.planning.draft import (
    Draft,
    Frozen,
    division_of,
    list_source,
    load_source,
    make_plan,
    pickled_source,
)
from bushel.building.planning.plan import Plan
from bushel.building.planning.probe import NothingProbed, PartitionRows, Probe, ReadRows, probe, read_rows
from bushel.building.planning.synthesis import balanced_source, repeat_key, save_repeats
from bushel.building.recipe import Balance, Recipe
from bushel.building.record_encoding import BlockEncoder
from bushel.data.categories import are_numbers, hash_values
from bushel.data.columns import BytesColumn
from bushel.data.roles import Account
from bushel.data.splits import TRAIN, draw, ordered_rows
from bushel.errors import BushelError, MissingName
from bushel.parallel import Helpers, Stopwatch, available_cores, do_all
from bushel.records.manifest import Balanced
from bushel.sources.file_labels import name_columns
from bushel.sources.opening import open_any, open_source
from bushel.sources.protocol import Block, Source
from bushel.transforms import Transform
from bushel.transforms.by_name import make_transforms, name_of
from bushel.transforms.chain import check_features, needs_fit

if TYPE_CHECKING:
    from bushel.building.planning.draft import Draft

__all__ = [
    "NothingToAdd",
    "Outline",
    "balance",
    "encoder_of",
    "plan",
    "plan_build",
]

Rows = NDArray[np.int64]


def _target_counts(counts: dict[int, int], balance: Balance) -> dict[int, int]:
    """How many samples each class should have for smallest / largest to be at least the ratio."""
    largest, smallest = max(counts.values()), min(counts.values())
    if balance.method == "undersample":
        most = max(1, floor(smallest / balance.ratio))
        return {code: min(count, most) for code, count in counts.items()}
    least = ceil(balance.ratio * largest)
    return {code: max(count, least) for code, count in counts.items()}


def balance(draft: Draft, folder: Path) -> None:
    """Remove samples from the train split of a draft, or add some."""
    asked, labels = draft.recipe.balance, draft.listed.labels
    assert asked is not None
    if draft.classes is None or labels is None:
        task = "none" if labels is None else labels.task.replace("_", "-")
        raise BushelError(f"balance needs one class per sample, and the task is {task}")
    codes, names = draft.classes
    if draft.train not in draft.ordered:
        raise BushelError(
            f"the split {draft.train!r} is balanced, but it does not exist; the splits are {', '.join(draft.ordered)}"
        )
    rows = draft.ordered[draft.train]
    rows = rows[codes[rows] >= 0]  # a sample without a label is refused later
    found, counts = np.unique(codes[rows], return_counts=True)
    before = dict(zip(found.tolist(), counts.tolist(), strict=True))
    if len(before) < 2:
        return
    wanted = _target_counts(before, asked)
    if asked.method == "undersample":
        _leave_out(draft, codes, wanted)
    elif asked.method == "oversample":
        _repeat(draft, np.sort(rows), codes, before, wanted, folder)
    else:
        wanted = _make(draft, np.sort(rows), codes, before, wanted, folder)
    draft.balanced = Balanced(
        method=asked.method,
        ratio=asked.ratio,
        before={names[code]: count for code, count in before.items()},
        after={names[code]: count for code, count in wanted.items()},
    )
    draft.label_counts = {**draft.label_counts, draft.train: draft.balanced.after}
    draft.classes = None


def _leave_out(draft: Draft, codes: NDArray[np.int32], wanted: dict[int, int]) -> None:
    rows = draft.ordered[draft.train]
    draws = draw(draft.listed.hashes[rows], draft.recipe.seed, "balance")
    own = codes[rows] + 1  # 0: no class, of which all stay
    most = np.full(int(own.max(initial=0)) + 1, len(rows))
    most[np.array(list(wanted), np.int64) + 1] = list(wanted.values())
    order = np.lexsort((draws, own))
    starts = np.cumsum(np.bincount(own, minlength=len(most))) - np.bincount(own, minlength=len(most))
    keep = np.empty(len(rows), bool)
    keep[order] = np.arange(len(rows)) - starts[own[order]] < most[own[order]]
    draft.ordered[draft.train] = rows[keep]
    if left_out := int((~keep).sum()):
        draft.listed.counted["samples left out for balance"] += left_out


def _make(
    draft: Draft,
    rows: Rows,
    codes: NDArray[np.int32],
    before: dict[int, int],
    wanted: dict[int, int],
    folder: Path,
) -> dict[int, int]:
    """Add samples made from others. Returns how many each class then has, since a sampler may make fewer."""
    from bushel.building.planning.synthesis import add_made

    fresh, classes = add_made(draft, rows, codes, wanted, folder)
    if not len(fresh):
        return before
    _put_in_order(draft, fresh)
    draft.listed.counted["samples made for balance"] += len(fresh)
    made = np.bincount(classes, minlength=max(before) + 1)
    return {code: count + int(made[code]) for code, count in before.items()}


def _repeat(
    draft: Draft,
    rows: Rows,
    codes: NDArray[np.int32],
    before: dict[int, int],
    wanted: dict[int, int],
    folder: Path,
) -> None:
    listed = draft.listed
    # Repeat all samples of a class as often as that is needed in full, then some that the seed chooses.
    own = codes[rows]
    ordered = rows[np.lexsort((draw(listed.hashes[rows], draft.recipe.seed, "balance"), own))]
    _, starts, counts = np.unique(own[np.argsort(own, kind="stable")], return_index=True, return_counts=True)
    added = np.array([wanted[code] - before[code] for code in sorted(before)], np.int64)
    classes = np.repeat(np.arange(len(added)), added)
    place = np.arange(len(classes)) - np.repeat(np.cumsum(added) - added, added)
    picked = ordered[starts[classes] + place % counts[classes]]
    number = place // counts[classes] + 1
    if not len(picked):
        return
    by_row = np.lexsort((number, picked))
    _add_repeats(draft, picked[by_row], number[by_row], folder)
    listed.counted["samples repeated for balance"] += len(picked)


def _add_repeats(draft: Draft, picked: Rows, numbers: Rows, folder: Path) -> None:
    """Give each repeat a row after those of its partition, a key and a place in the order."""
    listed = draft.listed
    starts = np.concatenate([[0], np.cumsum(listed.partition_rows, dtype=np.int64)])
    partitions = np.searchsorted(starts, picked, side="right") - 1
    within = picked - starts[partitions]
    extra = np.bincount(partitions, minlength=len(listed.partition_rows))
    save_repeats(folder, np.stack([partitions, within, numbers], axis=1))
    hashes, sizes, fresh = [], [], []
    shift = np.concatenate([[0], np.cumsum(extra)])
    for partition in range(len(listed.partition_rows)):
        here = slice(int(shift[partition]), int(shift[partition + 1]))
        own = slice(int(starts[partition]), int(starts[partition + 1]))
        hashes.append(listed.hashes[own])
        sizes.append(None if listed.sizes is None else listed.sizes[own])
        if extra[partition]:
            more = _more_keys(folder, partition, within[here], numbers[here])
            hashes.append(hash_values(more))
            sizes.append(None if listed.sizes is None else listed.sizes[own][within[here]])
            fresh.append(int(starts[partition + 1]) + np.arange(here.start, here.stop))
    draft.originals = list(listed.partition_rows)
    draft.ordered = {
        name: rows + shift[np.searchsorted(starts, rows, side="right") - 1] for name, rows in draft.ordered.items()
    }
    listed.hashes = np.concatenate(hashes)
    listed.sizes = None if listed.sizes is None else np.concatenate([size for size in sizes if size is not None])
    listed.partition_rows = (np.array(listed.partition_rows) + extra).tolist()
    _put_in_order(draft, np.concatenate(fresh))


def _more_keys(folder: Path, partition: int, rows: Rows, numbers: Rows) -> BytesColumn:
    keys = plans.load_keys(folder, partition)
    more = BytesColumn.of(
        [repeat_key(keys[row], number) for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)]
    )
    ends = np.concatenate([np.asarray(keys.offsets), keys.offsets[-1] + np.asarray(more.offsets[1:])])
    data = np.concatenate([np.asarray(keys.data[: keys.offsets[-1]]), np.asarray(more.data)])
    plans.save_keys(folder, partition, BytesColumn(ends, data))
    return more


def _put_in_order(draft: Draft, fresh: Rows) -> None:
    """Spread the added samples over the train split, whatever the order of the rest."""
    recipe, hashes, train = draft.recipe, draft.listed.hashes, draft.ordered[draft.train]
    if recipe.order == "shuffled":
        joined = np.concatenate([train, fresh])
        draft.ordered[draft.train] = ordered_rows(hashes, joined, seed=recipe.seed, shuffled=True)
        return
    spots = draw(hashes[fresh], recipe.seed, "order").astype(np.float64) / 2.0**64 * len(train)
    keys = np.concatenate([np.arange(len(train), dtype=np.float64), spots])
    draft.ordered[draft.train] = np.concatenate([train, fresh])[np.argsort(keys, kind="stable")]


class NothingToAdd(BushelError):
    """An addition whose samples are all in the dataset."""


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What a build would make."""

    splits: dict[str, dict[str, int]]  # samples, shards and estimated bytes of each
    classes: dict[str, dict[str, int]]  # samples by split and class
    samples: int
    bytes: int  # estimated
    seconds: float  # estimated
    problems: list[str]
    counted: dict[str, int]
    account: Account | None = None  # what the features of the source are taken for
    kind: str = ""  # of the source


def named_source(source: Source, recipe: Recipe) -> tuple[Source, Recipe]:
    """The source after `name:PATTERN` as label or group, and the recipe without it: the source then says both."""
    source, label, group = name_columns(source, recipe.label, recipe.group)
    return source, msgspec.structs.replace(recipe, label=label, group=group)


def plan(source: Any, recipe: Recipe | None = None, *, workers: int | None = None, inside: bool = False) -> Outline:
    """Find out what a recipe would build from a source, reading at most 256 samples.

    `source` is what `build` takes, or None for the source of the recipe. With `inside`, images that it names outside
    its folder are refused.
    """
    recipe = recipe or Recipe()
    opened = open_source(recipe.source) if source is None else open_any(source)
    source, recipe = named_source(opened.kept_inside() if inside else opened, recipe)
    with tempfile.TemporaryDirectory(prefix="bushel-plan-") as folder:
        encoder = encoder_of(source, recipe, make_transforms(recipe.transforms))
        made = plan_build(source, recipe, encoder, Path(folder))
    splits: dict[str, dict[str, int]] = {}
    for shard in made.facts.shards:
        facts = splits.setdefault(shard.split, {"samples": 0, "shards": 0, "bytes": 0})
        for name, count in (("samples", shard.samples), ("shards", 1), ("bytes", shard.bytes)):
            facts[name] += count
    return Outline(
        splits=splits,
        classes={} if are_numbers(made.facts.labels, made.facts.label_counts) else made.facts.label_counts,
        samples=made.samples,
        bytes=made.bytes,
        seconds=made.facts.sample_seconds * made.samples / (workers or available_cores()),
        problems=made.facts.problems,
        counted=made.facts.counted,
        account=made.facts.account,
        kind=str(source.describe().get("kind", "")),
    )


def encoder_of(source: Source, recipe: Recipe, transforms: Sequence[Transform]) -> BlockEncoder:
    """The encoder for blocks of the source; a plan adds labels and the schema of records."""
    schema = source.schema()
    augment = make_transforms(recipe.balance.augment) if recipe.balance else []
    check_features([*transforms, *augment], schema.features)
    for name in recipe.constraints:
        if name not in schema and not transforms:
            raise MissingName("feature", name, schema, where="constraints")
    return BlockEncoder(schema, schema, None, dict(recipe.constraints), transforms, recipe.seed, augment)


def plan_build(
    source: Source,
    recipe: Recipe,
    encoder: BlockEncoder,
    folder: Path,
    addition: tuple[Frozen, Any] | None = None,
    helpers: Helpers = None,
    stopwatch: Stopwatch | None = None,
) -> Plan:
    """List the source, decide where each sample goes, probe a few for their size, and write the plan to `folder`."""
    frozen, known = addition or (None, None)
    stage = (stopwatch or Stopwatch()).stage
    with stage("list"):
        listed = list_source(source, recipe, folder, frozen, helpers)
    with stage("plan"):
        draft = make_plan(source, recipe, listed, frozen, known)
        encoder = replace(encoder, labels=listed.labels)
        if not draft.samples():
            raise NothingToAdd("every sample of the source is in the dataset already")
        if recipe.balance is not None:
            balance(draft, folder)
            draft.source = balanced_source(source, folder, draft.originals)
        draft.note_imbalance()
        _check_that_some_train(draft, encoder.transforms)
    with stage("probe"):
        looked = _probed(draft, encoder, frozen, _reading(draft.source, folder, helpers))
    with stage("plan"):
        return draft.finish(folder, looked, is_fitted=not any(map(needs_fit, encoder.transforms)))


def _check_that_some_train(draft: Draft, transforms: Sequence[Transform]) -> None:
    """Refuse transforms that learn, if there is no train split to learn from."""
    learning = [name_of(type(transform)) for transform in transforms if needs_fit(transform)]
    if learning and draft.frozen is None and draft.train not in draft.ordered:
        column = division_of(draft.source, draft.recipe).split_column
        whose = f" of {column!r}" if column else ""
        raise BushelError(
            f"{learning[0]} learns from the split {TRAIN!r}, and there is none; "
            f"the splits{whose} are {', '.join(draft.ordered)}"
        )


def _reading(source: Source, folder: Path, helpers: Helpers) -> ReadRows | None:
    """How helpers read rows: images are slow to look at. None without helpers, or for a source that does not pickle."""
    if helpers is None or source.reads != "random" or (pickled := pickled_source(source, folder)) is None:
        return None

    def read(wanted: Sequence[PartitionRows]) -> list[tuple[list[Block], float]]:
        found = do_all(helpers, partial(_read_elsewhere, pickled), wanted)
        pickled.unlink()
        return found

    return read


def _read_elsewhere(pickled: Path, wanted: PartitionRows) -> tuple[list[Block], float]:
    return read_rows(load_source(pickled), wanted)


def _probed(draft: Draft, encoder: BlockEncoder, frozen: Frozen | None, read: ReadRows | None) -> Probe:
    try:
        return probe(draft.to_probe(), encoder, read)
    except NothingProbed:
        if frozen is None:
            raise
    return Probe(frozen.schema, np.ones(len(draft.listed.hashes), np.int64), 0.0)  # the dataset exists without them
