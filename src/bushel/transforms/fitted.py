"""Fitted transforms: which can learn next, and how what they learned is stored with a dataset."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bushel.data.columns import Column
from bushel.data.samples import Sample, sample_at
from bushel.data.schema import Feature
from bushel.errors import BushelError, FileProblem, MissingName
from bushel.records.manifest import ARTIFACTS_NAME, Manifest
from bushel.storage import AnyPath, as_path, leaves, open_to_read
from bushel.transforms.by_name import name_of
from bushel.transforms.chain import Chain
from bushel.transforms.protocol import ColumnFit, Fit, Fittable, Kept, Transform


def needs_fit(transform: Transform) -> bool:
    """Whether it still has to learn."""
    return isinstance(transform, Fittable) and transform.fitted is None and not getattr(transform, "is_given", False)


class Layer(NamedTuple):
    """One pass over the train split: the transforms, by place, that run in it, and those that learn from it."""

    runs: frozenset[int]
    fits: tuple[int, ...]


def next_layer(transforms: Sequence[Transform]) -> Layer:
    """What the next pass can fit: every transform whose features are not changed by an unfitted one before it.

    A transform that touches a feature of an unfitted transform waits for a later pass, too.
    """
    runs: list[int] = []
    fits: list[int] = []
    waiting: set[str] | None = set()  # features whose values are not known yet; None: all
    for place, transform in enumerate(transforms):
        touches = touched(transform)
        waits = waiting is None or (bool(waiting) and (touches is None or _overlap(touches, waiting)))
        if not waits:
            (fits if needs_fit(transform) else runs).append(place)
        if waits or needs_fit(transform):
            waiting = None if waiting is None or touches is None else waiting | touches
    last = max(fits, default=-1)
    return Layer(frozenset(place for place in runs if place < last), tuple(fits))


def check_features(transforms: Sequence[Transform], known: Iterable[str]) -> None:
    """Refuse a transform of a feature that neither the source nor a transform before it has."""
    names = set(known)
    for transform in transforms:
        touches = touched(transform)
        if touches is None:  # it may make any feature
            return
        feature = getattr(transform, "feature", None)
        if isinstance(feature, str) and feature not in names and not _overlap({feature}, names):
            raise MissingName("feature", feature, sorted(names), where=f"transform {name_of(type(transform))}")
        names |= touches


def touched(transform: Transform) -> set[str] | None:
    """The features that a transform reads or writes; None if unknown."""
    declared = getattr(transform, "touches", None)
    if declared is not None:
        return set(declared)
    feature = getattr(transform, "feature", None)
    return {feature} if isinstance(feature, str) else None


def _overlap(some: set[str], others: set[str]) -> bool:
    """Whether two sets of features have one in common; `image/height` belongs to `image`."""
    pairs = ((one, other) for one in some for other in others)
    return any(one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/") for one, other in pairs)


def merge_in_order(fits: Iterable[Fit]) -> Fit:
    """Merge as a tree, neighbours first, so that rounding does not depend on which fit came first."""
    heights: list[tuple[int, Fit]] = []
    for fit in fits:
        height, merged = 0, fit
        while heights and heights[-1][0] == height:
            merged = heights.pop()[1].merge(merged)
            height += 1
        heights.append((height, merged))
    if not heights:
        raise ValueError("fits must hold at least one, got none")
    merged = heights.pop()[1]
    while heights:
        merged = heights.pop()[1].merge(merged)
    return merged


class LayerLearner:
    """What the transforms of one layer have learned so far."""

    def __init__(self, transforms: Sequence[Transform], layer: Layer, seed: int) -> None:
        self.layer = layer
        self.fits: list[Any] = [transforms[place].begin_fit() for place in layer.fits]  # type: ignore[attr-defined]
        self._by_column = all(isinstance(fit, ColumnFit) for fit in self.fits)
        # The steps that run before each of them, and after the one before it.
        chain, ends = Chain.of(transforms, seed), (-1, *layer.fits)
        self._parts = [
            chain.only([place for place in layer.runs if begin < place < end]) for begin, end in pairwise(ends)
        ]

    def add(self, columns: dict[str, Column], features: Mapping[str, Feature], records: Sequence[int] | Any) -> None:
        """Learn from columns; `records` are the numbers of their rows, from which transforms draw."""
        if not (self._by_column and self._add_columns(columns)):
            self.add_samples([sample_at(columns, features, row) for row in range(len(records))], records)

    def _add_columns(self, columns: dict[str, Column]) -> bool:
        seen: list[dict[str, Column]] = []
        for part in self._parts:
            changed = part.apply_columns(columns)
            if changed is None:  # sample by sample, which finds the one at fault and skips it
                return False
            columns = changed
            seen.append(columns)
        for fit, stage in zip(self.fits, seen, strict=True):
            fit.add_columns(stage)
        return True

    def add_samples(self, samples: Sequence[Sample], records: Sequence[int] | Any) -> None:
        """Learn from samples; one that a transform fails on is skipped, since it will be refused later."""
        seen: list[list[Sample]] = [[] for _ in self.fits]
        for given, record in zip(samples, records, strict=True):
            try:
                stages = self._stages(given, int(record))
            except Exception:  # it will be refused and reported when it is written
                continue
            for kept, sample in zip(seen, stages, strict=True):
                kept.append(sample)
        for fit, kept in zip(self.fits, seen, strict=True):
            if kept:
                fit.add(kept)

    def _stages(self, sample: Sample, record: int) -> list[Sample]:
        """The sample as each transform that learns sees it."""
        stages = []
        for part in self._parts:
            sample = part.apply(sample, record=record)
            stages.append(sample)
        return stages


class Together:
    """The fits of one task, merged into one."""

    def __init__(self, fits: list[Any]) -> None:
        self.fits = fits

    def merge(self, other: Together) -> Together:
        """What both learned."""
        return Together([mine.merge(theirs) for mine, theirs in zip(self.fits, other.fits, strict=True)])


def merge_layer(transforms: Sequence[Transform], layer: Layer, learnt: Iterator[list[Any]]) -> list[Transform]:
    """The transforms, with those of the layer fitted; `learnt` has one entry per task, in order."""
    merged: Any = merge_in_order(Together(fits) for fits in learnt)  # type: ignore[misc]
    found = list(transforms)
    for place, fit in zip(layer.fits, merged.fits, strict=True):
        found[place] = fit.finish()
    return found


class Keepsakes(msgspec.Struct, frozen=True):
    """What a chain of transforms learned: plain values by the transform's id, and their files."""

    statistics: dict[str, dict[str, Any]]
    files: dict[str, bytes]


def identity_of(place: int, transform: Transform) -> str:
    """The id of a transform in a manifest: its place in the chain and its name."""
    return f"{place}:{name_of(type(transform))}"


def keep(transforms: Sequence[Transform]) -> Keepsakes:
    """What to store of fitted transforms."""
    found = Keepsakes({}, {})
    for place, transform in enumerate(transforms):
        if not isinstance(transform, Fittable) or transform.fitted is None:
            continue
        values, files = _saved(transform)
        named = {f"{place}-{name_of(type(transform)).rpartition(':')[2]}-{name}": data for name, data in files.items()}
        found.files.update(named)
        entry: dict[str, Any] = {"fitted": values}
        feature = getattr(transform, "feature", None)
        entry |= {"feature": feature} if isinstance(feature, str) else {}
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in named.items()}
        entry |= {"artifacts": digests} if digests else {}
        found.statistics[identity_of(place, transform)] = entry
    return found


def _saved(transform: Any) -> tuple[Any, dict[str, bytes]]:
    if isinstance(transform, Kept):
        return transform.save_fitted()
    return msgspec.to_builtins(transform.fitted), {}


def restore(
    transforms: Sequence[Transform], statistics: Mapping[str, Mapping[str, Any]], read: Callable[[str], bytes]
) -> list[Transform]:
    """Transforms with what they learned; `read` returns the bytes of a stored file."""
    found: list[Transform] = []
    for place, transform in enumerate(transforms):
        entry = statistics.get(identity_of(place, transform))
        found.append(transform if entry is None else _restored(transform, place, entry, read))
    return found


def restore_all(transforms: Sequence[Transform], manifest: Manifest, folder: AnyPath) -> list[Transform]:
    """Transforms with what they learned when the dataset in a folder was built."""
    return restore(transforms, manifest.statistics, lambda name: _read_artifact(as_path(folder) / ARTIFACTS_NAME, name))


def _read_artifact(folder: Path, name: str) -> bytes:
    """A file that a manifest names, which may come from anybody."""
    if not name or "/" in name or not name.isprintable() or leaves(folder, name):
        raise FileProblem(folder, f"an artifact must be a file in this folder, got {name!r}")
    with open_to_read(folder / name) as file:
        return file.read()


def _restored(transform: Transform, place: int, entry: Mapping[str, Any], read: Callable[[str], bytes]) -> Transform:
    digests: Mapping[str, str] = entry.get("artifacts", {})
    if not isinstance(transform, Kept):
        return _with_fitted(transform, entry["fitted"])
    prefix = f"{place}-{name_of(type(transform)).rpartition(':')[2]}-"
    files = {}
    for name, digest in digests.items():
        data = read(name)
        if hashlib.sha256(data).hexdigest() != digest:
            raise BushelError(f"{name}: the file is not the one that was fitted: its SHA-256 is another")
        files[name.removeprefix(prefix)] = data
    return transform.load_fitted(entry["fitted"], files)


def _with_fitted(transform: Any, fitted: Any) -> Transform:
    if isinstance(transform, msgspec.Struct):
        kind = type(transform)
        values = {**msgspec.structs.asdict(transform), "fitted": fitted}
        made: Any = msgspec.convert(values, kind, from_attributes=True)
        return made  # type: ignore[no-any-return]
    changed: Transform = dataclasses.replace(transform, fitted=fitted)
    return changed
