"""Running a chain of transforms on a sample, columns or rows of a batch; fitting it, and keeping what it learned.

Builds, fits, batches, contracts and serving all use this module, so that a chain always gives the same result.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, takewhile
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column, take
from bushel.data.samples import Sample, Stack, sample_at
from bushel.data.schema import Feature
from bushel.errors import BushelError, FileProblem, MissingName
from bushel.pixels.codecs import is_wide
from bushel.records.manifest import Manifest, artifacts_folder
from bushel.storage import AnyPath, open_to_read, why_not_inside
from bushel.transforms.by_name import name_of
from bushel.transforms.canvas import Canvas
from bushel.transforms.encoded import EncodeImage, Reencode, ResizeEncoded, own_form
from bushel.transforms.image import base_of, decoded, size_names
from bushel.transforms.interface import (
    BatchTransform,
    ColumnFit,
    ColumnTransform,
    CountingTransform,
    Draw,
    Draws,
    Fit,
    Fittable,
    Kept,
    PaintedTransform,
    Transform,
    declared,
)

Columns: TypeAlias = dict[str, Any]
Step: TypeAlias = tuple[int, Any]  # a transform, by its number in the whole chain
# Takes the place of a row on which a transform failed, and the error; returns to leave the row out, or raises.
Refuse: TypeAlias = Callable[[int, Exception], None]


@dataclass
class Spent:
    """What transforms in Python cost, row by row: processor seconds by name, and seconds of waiting."""

    by_name: dict[str, float]
    waited: float = 0.0

    def add(self, took: dict[str, float], seconds: float, busy: float) -> None:
        """Add some rows: the wall time of each transform, and the processor time of all."""
        whole = sum(took.values()) or 1.0
        for name, part in took.items():
            self.by_name[name] = self.by_name.get(name, 0.0) + busy * part / whole
        self.waited += max(0.0, seconds - busy)


class ChainRows(NamedTuple):
    """The rows of a batch after the chain, and which of the original rows they are."""

    columns: Columns
    kept: NDArray[np.int64]


@dataclass
class Flow:
    """The rows of a batch on their way through a chain: as columns, or as samples between transforms in Python."""

    columns: Columns
    features: Mapping[str, Feature]
    records: NDArray[np.int64]
    kept: NDArray[np.int64]  # which of the original rows they are
    epoch: int
    pool: Any
    refuse: Refuse | None
    spent: Spent | None = None
    samples: list[Sample] | None = None

    def sample(self, at: int) -> Sample:
        """One row."""
        return sample_at(self.columns, self.features, at) if self.samples is None else self.samples[at]

    def refuse_row(self, at: int, error: Exception) -> None:
        """Leave out a row, or raise."""
        if self.refuse is None:
            raise error
        self.refuse(int(self.kept[at]), error)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Note which rows are left."""
        self.records, self.kept = self.records[rows], self.kept[rows]

    def images(self, feature: str, steps: Sequence[Any]) -> Any:
        """The images of a feature; None if there are none, or if other features move with them."""
        names = set(self.columns) if self.samples is None else {name for sample in self.samples for name in sample}
        follow = {name for step in steps for name in declared(step).masks}
        if names & follow or any(name.startswith(f"{base_of(feature)}/object/") for name in names):
            return None
        if self.samples is not None:
            return [sample[feature] for sample in self.samples] if all(feature in s for s in self.samples) else None
        sizes = [self.columns[name] for name in size_names(feature) if name in names]
        column = self.columns.get(feature)
        is_text = feature in self.features and self.features[feature].dtype == "str"
        if is_text or not isinstance(column, np.ndarray | BytesColumn):
            return None
        return column if all(isinstance(size, np.ndarray) for size in sizes) else None

    def take_painted(self, canvas: Canvas) -> None:
        """Paint the images, and continue with those that succeeded."""
        pixels, feature = canvas.paint(self.pool), canvas.feature
        columns = self._others(feature)
        if canvas.is_sized:
            for name, size in zip(size_names(feature), pixels.shape[1:], strict=True):
                if name in columns:
                    columns[name] = np.full(len(pixels), size, np.int64)
        columns[feature] = pixels
        for row in sorted(canvas.refused):
            self.refuse_row(row, canvas.refused[row])
        if canvas.refused:
            kept = np.setdiff1d(np.arange(len(pixels)), list(canvas.refused))
            columns = {name: take(column, kept) for name, column in columns.items()}
            self.keep(kept)
        known = {name: kind for name, kind in self.features.items() if name != feature}
        self.columns, self.samples, self.features = columns, None, known

    def _others(self, feature: str) -> Columns:
        """All columns after transforms: dense ones stay dense, others may become dense."""
        columns = dict(self.columns)
        loose = {name: c for name, c in columns.items() if not isinstance(c, np.ndarray | BytesColumn)}
        if loose or self.samples is not None:
            stack = Stack(len(self.kept), self.pool)
            for row in range(len(self.kept)):
                sample = sample_at(loose, self.features, row) if self.samples is None else self.samples[row]
                stack.add({name: value for name, value in sample.items() if name != feature})
            columns |= stack.columns()
        for name, column in columns.items():
            if name != feature and isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "iuf":
                columns[name] = column.astype(np.float32 if column.dtype.kind == "f" else np.int64, copy=False)
        return columns


def _as_declared(columns: Columns, features: Mapping[str, Feature]) -> Columns:
    """Single numbers in the types that they are declared to have: in samples they were Python's own numbers."""
    found = dict(columns)
    for name, feature in features.items():
        column = columns.get(name)
        if feature.reads_as in ("", "bool") or not isinstance(column, np.ndarray) or column.ndim != 1:
            continue
        if column.dtype == feature.dtype and _fits(column, np.dtype(feature.reads_as)):
            found[name] = column.astype(feature.reads_as)
    return found


def _fits(column: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Whether a transform left values that the type can hold; a uint64 is stored as the int64 of the same bits."""
    if dtype in (np.float64, np.uint64) or not len(column):
        return True
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    return bool(limits.min <= column.min() and column.max() <= limits.max)


@dataclass(frozen=True)
class Chain:
    """Transforms in order. A part of a chain keeps the numbers of its steps, so it draws the same as the whole."""

    steps: tuple[Step, ...] = ()
    seed: int = 0

    @classmethod
    def of(cls, transforms: Sequence[Transform | BatchTransform], seed: int = 0, *, first: int = 0) -> Chain:
        """All of these transforms; `first` is the number of the first one."""
        return cls(tuple(enumerate(transforms, first)), seed)

    def __bool__(self) -> bool:
        return bool(self.steps)

    @cached_property
    def of_batches(self) -> Chain:
        """Only the steps that mix the rows of a batch."""
        return replace(self, steps=tuple(step for step in self.steps if isinstance(step[1], BatchTransform)))

    @cached_property
    def of_samples(self) -> Chain:
        """Only the steps that change each row alone."""
        return replace(self, steps=tuple(step for step in self.steps if not isinstance(step[1], BatchTransform)))

    def only(self, numbers: Collection[int]) -> Chain:
        """Only the steps of these numbers."""
        return replace(self, steps=tuple(step for step in self.steps if step[0] in numbers))

    def without(self, feature: str) -> Chain:
        """All steps except those of a feature: the label may be missing."""
        return replace(self, steps=tuple(step for step in self.steps if declared(step[1]).feature != feature))

    def apply(self, sample: Sample, *, record: int = 0, epoch: int = 0, counted: Counter[str] | None = None) -> Sample:
        """One sample after all steps; `record` is its number or the hash of its key, from which transforms draw."""
        for number, transform in self.steps:
            sample = transform.apply(sample, Draw(self.seed, epoch, record, number, counted))
        return sample

    def apply_columns(self, columns: Columns, counted: Counter[str] | None = None) -> Columns | None:
        """Many samples at once, with the same result as `apply`; None if a step cannot do that, or fails on a row."""
        if not all(isinstance(transform, ColumnTransform) for _, transform in self.steps):
            return None
        noted: Counter[str] = Counter()
        try:
            for _, transform in self.steps:
                if isinstance(transform, CountingTransform):
                    columns = transform.apply_counted(columns, noted)
                else:
                    columns = transform.apply_columns(columns)
        except Exception:  # going sample by sample finds the row at fault
            return None
        if counted is not None:
            counted.update(noted)
        return columns

    def vary(self, sample: Sample, *, record: int = 0, counted: Counter[str] | None = None) -> Sample:
        """A repeated sample after all steps; images are decoded first, and encoded again in their format."""
        forms: dict[str, Any] = {}
        draw = Draw(self.seed, 0, record, 0, counted)
        for number, transform in self.steps:
            feature = declared(transform).feature
            if isinstance(data := sample.get(feature), bytes):
                forms[feature] = own_form(data, feature)
                sample = {**sample, feature: decoded(data, feature, draw, "uint16" if is_wide(data) else "uint8")}
            sample = transform.apply(sample, replace(draw, step=number))
        for feature, form in forms.items():
            sample = EncodeImage(feature, form).apply(sample, draw)
        return sample

    def apply_rows(
        self,
        columns: Columns,
        features: Mapping[str, Feature],
        records: Sequence[int] | NDArray[np.int64],
        *,
        epoch: int = 0,
        pool: Any = None,
        refuse: Refuse | None = None,
        spent: Spent | None = None,
    ) -> ChainRows:
        """The rows of a batch after all steps, those of whole batches last; `records` are the numbers of the rows.

        First steps that the core can do run on whole columns, and it paints images a batch at a time. A row on which a
        transform fails is an error, unless `refuse` leaves it out. `spent` counts the cost of transforms in Python.
        """
        numbers = np.asarray(records, np.int64)
        columns, features, rest = self.of_samples.begin(columns, features)
        pool = pool or _native.Pool(0)
        flow = Flow(columns, features, numbers, np.arange(len(numbers)), epoch, pool, refuse, spent)
        while rest.steps and len(flow.kept):
            count = rest._paint(flow)
            if count == 0:
                count = rest._in_python
                rest.cut(0, count)._apply_each(flow, is_last=count == len(rest.steps))
            rest = rest.cut(count, len(rest.steps))
        columns = flow.columns
        if len(flow.kept):
            for number, transform in self.of_batches.steps:
                columns = transform.apply_batch(columns, Draw(self.seed, epoch, int(numbers[0]), number))
        changed = {declared(transform).feature for _, transform in self.steps}
        others = {name: feature for name, feature in features.items() if name not in changed}
        return ChainRows(_as_declared(columns, others), flow.kept)

    def begin(
        self, columns: Columns, features: Mapping[str, Feature], counted: Counter[str] | None = None
    ) -> tuple[Columns, Mapping[str, Feature], Chain]:
        """The columns after the first steps, which the core does, their features, and the remaining steps.

        If one of them fails, nothing is done: going sample by sample finds the record at fault.
        """
        first = tuple(takewhile(lambda step: declared(step[1]).in_core, self.steps))
        changed = self.cut(0, len(first)).apply_columns(columns, counted) if first else columns
        if changed is None or not first:
            return columns, features, self
        known = dict(features)
        images = {step.feature for _, step in first if isinstance(step, ResizeEncoded | Reencode)}
        for name, column in changed.items():
            if column is not columns.get(name) and name not in images:
                known.pop(name, None)
                if isinstance(column, BytesColumn):
                    known[name] = Feature(dtype="str")
        return changed, known, self.cut(len(first), len(self.steps))

    def cut(self, begin: int, end: int) -> Chain:
        """Some of the steps, made once: what is known of a chain is asked for every batch."""
        if (begin, end) not in self._cuts:
            self._cuts[begin, end] = replace(self, steps=self.steps[begin:end])
        return self._cuts[begin, end]

    @cached_property
    def _cuts(self) -> dict[tuple[int, int], Chain]:
        return {}

    @cached_property
    def _painted(self) -> tuple[Step, ...]:
        """The steps that come first and that the core may do in one go: all of one image feature."""
        feature = declared(self.steps[0][1]).feature
        return tuple(takewhile(lambda step: _is_painted(step[1], feature), self.steps))

    def _paint(self, flow: Flow) -> int:
        """Let the core do as many steps as it can in one go; returns how many."""
        own, feature = self._painted, declared(self.steps[0][1]).feature
        images = flow.images(feature, [step for _, step in own]) if own else None
        if images is None:
            return 0
        canvas, count = Canvas(images, feature), 0
        for number, step in own:
            if not step.paint(canvas, Draws(self.seed, flow.epoch, flow.records, number)):
                break
            count += 1
        if count == 0 or canvas.size is None:
            return 0
        flow.take_painted(canvas)
        return count

    @cached_property
    def _in_python(self) -> int:
        """How many steps come before the next one that the core may do, including those it has just declined."""
        later = [step for _, step in self.steps[1:]]
        declined = len(self._painted[1:])
        others = takewhile(lambda step: not isinstance(step, PaintedTransform), later[declined:])
        return 1 + declined + len([*others])

    def _apply_each(self, flow: Flow, *, is_last: bool) -> None:
        """All steps, row by row."""
        stack, samples, kept = Stack(len(flow.kept), flow.pool), [], []
        took = dict.fromkeys((_name(step) for _, step in self.steps), 0.0)
        begin, busy = perf_counter(), thread_time()
        for at, record in enumerate(flow.records.tolist()):
            try:
                sample = flow.sample(at)
                for number, step in self.steps:
                    began = perf_counter()
                    sample = step.apply(sample, Draw(self.seed, flow.epoch, record, number))
                    took[_name(step)] += perf_counter() - began
            except Exception as error:
                flow.refuse_row(at, error)
                continue
            if is_last:
                stack.add(sample)
            else:
                samples.append(sample)
            kept.append(at)
        if flow.spent is not None:
            flow.spent.add(took, perf_counter() - begin, thread_time() - busy)
        flow.samples, flow.columns = (None, stack.columns()) if is_last else (samples, {})
        flow.keep(np.array(kept, np.int64))


def _name(transform: Any) -> str:
    """The name of a transform: for bushel's own the tag, for others the class."""
    tag = getattr(getattr(transform, "__struct_config__", None), "tag", None)
    return tag if isinstance(tag, str) else type(transform).__qualname__


def _is_painted(transform: Any, feature: str) -> bool:
    return isinstance(transform, PaintedTransform) and transform.feature == feature


def apply_all(transforms: Sequence[Transform], sample: Sample, *, seed: int = 0, record: int = 0) -> Sample:
    """Run one raw sample through a chain, as a build does."""
    return Chain.of(transforms, seed).apply(sample, record=record)


def needs_fit(transform: Transform) -> bool:
    """Whether it still has to learn."""
    return isinstance(transform, Fittable) and transform.fitted is None and not declared(transform).is_given


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
        feature = declared(transform).feature
        if feature and not any(f"{name}/".startswith(f"{feature}/") for name in names):
            raise MissingName("feature", feature, sorted(names), where=f"transform {name_of(type(transform))}")
        names |= touches


def touched(transform: Transform) -> set[str] | None:
    """The features that a transform reads or writes; None if unknown."""
    touches = declared(transform).touches
    return None if touches is None else set(touches)


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
        feature = declared(transform).feature
        entry |= {"feature": feature} if feature else {}
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
    return restore(
        transforms, manifest.statistics, lambda name: _read_artifact(artifacts_folder(folder, manifest), name)
    )


def _read_artifact(folder: Path, name: str) -> bytes:
    """A file that a manifest names, which may come from anybody."""
    if not name or "/" in name or not name.isprintable() or why_not_inside(folder, name):
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
